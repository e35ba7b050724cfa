package suite

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/bench/report"
)

// enginePackage is where the benchmarks of the engine alone are.
const enginePackage = "github.com/goroce/goroce/transport"

// engine is item 5: the benchmarks of package transport. Each round runs all of them, so that
// the ratios are of one round.
func (s *Suite) engine() error {
	n := "50000x" // with a time, starting and stopping the clock would take most of it
	if s.o.Full {
		n = "500000x"
	}
	dir, err := os.MkdirTemp("", "goroce-engine")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "transport.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, enginePackage).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c %s: %w: %s", enginePackage, err, out)
	}
	var all []report.Case
	for range s.o.Rounds {
		// In ManyQPs each of the queue pairs has its turn five times at least, after the
		// first of which its queues have their size.
		cmd := exec.Command(binary, "-test.run", "^$", "-test.bench",
			"^Benchmark(Packet|Stream|Window|ManyQPs|Engines)$", "-test.benchmem", "-test.benchtime", n)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
		}
		round := parseBench(out)
		if len(round) == 0 {
			return fmt.Errorf("%s printed no benchmark: %s", strings.Join(cmd.Args, " "), out)
		}
		addRatios(round)
		all = mergeRounds(all, round)
	}
	for _, c := range all {
		s.o.Logf("%-60s %.0f ns, %.0f allocs", c.Name, c.Value("time"), c.Value("allocs"))
	}
	s.r.Cases = append(s.r.Cases, all...)
	return nil
}

// mergeRounds adds the figures of a round to those of the others.
func mergeRounds(all, round []report.Case) []report.Case {
	for _, c := range round {
		i := slices.IndexFunc(all, func(x report.Case) bool { return x.Name == c.Name })
		if i < 0 {
			all = append(all, c)
			continue
		}
		for _, f := range c.Figures {
			for _, v := range f.Rounds {
				all[i].Add(f.Name, f.Unit, v)
			}
		}
	}
	return all
}

// addRatios adds to a round what its figures are of their baseline: of the packet without
// ICRC, of the fewest queue pairs, of the smallest window; and of several engines, how many
// times as fast they are as one.
func addRatios(round []report.Case) {
	find := func(name string) *report.Case {
		for i := range round {
			if round[i].Name == name {
				return &round[i]
			}
		}
		return nil
	}
	for i := range round {
		c := &round[i]
		base, figure := "", ""
		kind, rest, _ := strings.Cut(c.Name, "/")
		switch without, ok := strings.CutSuffix(c.Name, "+icrc"); {
		case ok:
			base, figure = without, report.XWithoutICRC
		case kind == "ManyQPs" && rest != "1":
			base, figure = "ManyQPs/1", report.XSmallest
		case kind == "Window" && rest != "16":
			base, figure = "Window/16", report.XSmallest
		case kind == "Engines" && !strings.HasSuffix(c.Name, "/1"):
			if b := find(c.Name[:strings.LastIndexByte(c.Name, '/')] + "/1"); b != nil {
				c.Add(report.XOneEngine, "", b.Value("time")/c.Value("time"))
			}
		}
		if b := find(base); b != nil {
			c.Add(figure, "", c.Value("time")/b.Value("time"))
		}
	}
}

// parseBench reads what go test prints: name, iterations, then values with units.
func parseBench(out []byte) []report.Case {
	names := map[string][2]string{
		"ns/op": {"time", "ns/op"}, "B/op": {"bytes", "B/op"}, "allocs/op": {"allocs", "allocs/op"},
		"MB/s": {"goodput", "MB/s"}, "ns/packet": {"packet", "ns/packet"},
	}
	var cases []report.Case
	at := map[string]int{}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil { // GOMAXPROCS
				name = name[:i]
			}
		}
		i, ok := at[name]
		if !ok {
			i = len(cases)
			at[name] = i
			cases = append(cases, report.Case{Item: "engine", Name: name})
		}
		for k := 2; k+1 < len(f); k += 2 {
			v, err := strconv.ParseFloat(f[k], 64)
			if n, ok := names[f[k+1]]; ok && err == nil {
				cases[i].Add(n[0], n[1], v)
			}
		}
	}
	return cases
}
