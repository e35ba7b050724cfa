package processes

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// Holder is a process that holds a socket.
type Holder struct {
	PID   int
	Name  string // as in /proc/PID/comm
	Still string // why it does not run, if it does not: "stopped", "frozen"

	Has map[string]int // what it had open, and as which descriptor: see Descriptors
}

// Moves reports whether nothing has stopped it.
func (p Holder) Moves() bool { return p.Still == "" }

// String is "pid 12 (name), which is stopped".
func (p Holder) String() string {
	s := fmt.Sprintf("pid %d (%s)", p.PID, p.Name)
	if p.Still != "" {
		s += ", which is " + p.Still
	}
	return s
}

// Holders returns the processes that hold one of some sockets, by their numbers (st_ino), and no
// more than max. It reads what each process has open, and takes long where that is much. The kernel
// tells a process of those of its own user only.
func Holders(max int, inodes ...uint64) (all []Holder) {
	for _, pid := range pids() {
		if len(all) == max {
			break
		}
		has := Descriptors(pid)
		if slices.ContainsFunc(inodes, func(n uint64) bool { _, ok := has[Socket(n)]; return ok }) {
			p := describe(pid)
			p.Has = has
			all = append(all, p)
		}
	}
	return all
}

// Runs reports whether there is a process, and it does not stand still.
func Runs(pid int) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && describe(pid).Still == ""
}

// Socket is what Descriptors calls a socket.
func Socket(inode uint64) string { return fmt.Sprintf("socket:[%d]", inode) }

func pids() (all []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// Descriptors returns what a process has open, and as which descriptor.
func Descriptors(pid int) map[string]int {
	base := fmt.Sprintf("/proc/%d/fd", pid)
	dir, err := os.Open(base)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[string]int, len(names))
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if target, err := os.Readlink(path.Join(base, n)); err == nil {
			all[target] = fd
		}
	}
	return all
}

// CheckPID is Check for a process that is not connected.
func CheckPID(pid int) error {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &st); err != nil {
		return os.NewSyscallError("stat /proc", err)
	}
	return Check(&unix.Ucred{Pid: int32(pid), Uid: st.Uid})
}

func describe(pid int) Holder {
	p := Holder{PID: pid}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	p.Name, p.Still = parseStat(string(b))
	if p.Still == "" && frozen(pid) {
		p.Still = "frozen by its control group"
	}
	return p
}

// parseStat reads /proc/PID/stat: number, name in parentheses, state, and more.
func parseStat(s string) (name, still string) {
	from, to := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if from < 0 || to < from {
		return "?", ""
	}
	switch state := strings.TrimSpace(s[to+1:]); {
	case strings.HasPrefix(state, "T"):
		still = "stopped (state T)"
	case strings.HasPrefix(state, "t"):
		still = "stopped by a debugger (state t)"
	case strings.HasPrefix(state, "Z"), strings.HasPrefix(state, "X"):
		still = "dead (state Z)"
	}
	return s[from+1 : to], still
}

// frozen reports whether the control group (version 2) of a process is frozen, as by docker pause.
func frozen(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) // nothing, if it is gone
	return frozenIn("/sys/fs/cgroup", string(b))
}

// frozenIn is the same of what /proc says of the process, with the control groups in a folder.
func frozenIn(root, groups string) bool {
	for line := range strings.Lines(groups) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			events, _ := os.ReadFile(path.Join(root, path.Clean("/"+dir), "cgroup.events"))
			return strings.Contains(string(events), "frozen 1")
		}
	}
	return false
}
