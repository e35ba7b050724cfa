package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// cpuList reads a list of CPUs as the kernel writes it: 0-3,8.
func cpuList(s string) (cpus []int, err error) {
	for _, part := range strings.Split(strings.TrimSpace(s), ",") {
		if part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of CPUs", s)
		}
		hi := lo
		if isRange {
			if hi, err = strconv.Atoi(to); err != nil || hi < lo || hi-lo > 1<<16 {
				return nil, fmt.Errorf("%q is not a list of CPUs", s)
			}
		}
		for c := lo; c <= hi; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// checkNUMA: memory of the other node costs each packet time.
func checkNUMA(v *view) (out []Finding) {
	const why = "Packets cross between the memories of both nodes, which costs latency and bandwidth."
	list, err := v.read("sys/devices/system/node/online")
	if err != nil {
		return []Finding{unknown("", "the NUMA nodes", err)}
	}
	nodes, err := cpuList(list) // written alike
	if err != nil {
		return []Finding{unknown("", "the NUMA nodes", err)}
	}
	if len(nodes) <= 1 {
		return []Finding{{Found: "one node"}}
	}
	mine, err := v.CPUs()
	if err != nil {
		return []Finding{unknown("", "the CPUs that this process may run on", err)}
	}
	for i := range v.ifaces {
		f := &v.ifaces[i]
		dir, err := v.sysfs(f)
		if err != nil {
			out = append(out, unknown(f.Name, "the node of the card", err))
			continue
		}
		node, err := v.number(dir + "/device/numa_node")
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && node < 0:
			out = append(out, Finding{Subject: f.Name, Found: "belongs to no node"})
			continue
		case err != nil:
			out = append(out, unknown(f.Name, "the node of the card", err))
			continue
		}
		text, err := v.read(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", node))
		cpus, err2 := cpuList(text)
		if err = errors.Join(err, err2); err != nil {
			out = append(out, unknown(f.Name, "the CPUs of its node", err))
			continue
		}
		if slices.ContainsFunc(mine, func(c int) bool { return !slices.Contains(cpus, c) }) {
			out = append(out, Finding{Subject: f.Name, Level: Note,
				Found: fmt.Sprintf("is at node %d of %d, and this process may run on others", node, len(nodes)),
				Why:   why, Mend: []string{fmt.Sprintf("numactl --cpunodebind=%d --membind=%d roce ...", node, node)}})
			continue
		}
		out = append(out, Finding{Subject: f.Name, Found: fmt.Sprintf("is at node %d, as this process", node)})
	}
	return out
}

// checkGovernor: a CPU that has slowed down takes its time to wake.
func checkGovernor(v *view) []Finding {
	const dir = "sys/devices/system/cpu"
	list, err := fs.ReadDir(v.FS, dir)
	if err != nil {
		return []Finding{unknown("", "the governors of CPUs", err)}
	}
	count := map[string]int{}
	for _, e := range list {
		if g, err := v.read(dir + "/" + e.Name() + "/cpufreq/scaling_governor"); err == nil {
			count[g]++
		}
	}
	if len(count) == 0 {
		return []Finding{{Level: Unknown,
			Found: "the frequency of CPUs is not this system's to choose (a virtual machine, or no driver)"}}
	}
	var texts []string
	slow := false
	for g, n := range count {
		texts = append(texts, fmt.Sprintf("%s on %d CPUs", g, n))
		slow = slow || g != "performance"
	}
	sort.Strings(texts)
	f := Finding{Found: strings.Join(texts, ", ")}
	if slow {
		f.Level, f.Mend = Note, []string{"cpupower frequency-set -g performance"}
		f.Why = "A CPU that was idle between two messages answers the next one slowly: the latency of small messages is worse, and varies."
	}
	return []Finding{f}
}

// checkHugePages: large registered regions are reached through fewer entries of the page table.
func checkHugePages(v *view) []Finding {
	text, err := v.read("sys/kernel/mm/transparent_hugepage/enabled")
	if errors.Is(err, fs.ErrNotExist) {
		return []Finding{{Level: Note, Found: "this kernel has no transparent huge pages",
			Why: "Large registered regions miss the TLB more often."}}
	}
	if err != nil {
		return []Finding{unknown("", "transparent huge pages", err)}
	}
	_, rest, _ := strings.Cut(text, "[")
	mode, _, ok := strings.Cut(rest, "]")
	switch {
	case !ok:
		return []Finding{unknown("", "transparent huge pages", fmt.Errorf("%q", text))}
	case mode == "never":
		return []Finding{{Level: Note, Found: "transparent huge pages: never",
			Why:  "Large registered regions miss the TLB more often.",
			Mend: []string{"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"}}}
	}
	return []Finding{{Found: "transparent huge pages: " + mode}}
}
