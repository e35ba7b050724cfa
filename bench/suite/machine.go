package suite

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/internal/unix"
)

// Watcher notes what the machine does besides.
type Watcher struct {
	m     *report.Machine
	start time.Time
	busy  float64
}

// Watch describes the machine, and starts to watch it.
func Watch(m *report.Machine) (*Watcher, error) {
	w := &Watcher{m: m, start: time.Now()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	m.Time, m.Go, m.Cores = w.start.UTC().Format("2006-01-02 15:04 UTC"), runtime.Version(), runtime.NumCPU()
	m.CPU = cpuModel()
	m.LoadStart = load()
	m.User = fmt.Sprintf("uid %d", os.Geteuid())
	if os.Geteuid() == 0 {
		m.User = "root"
	}
	m.Commit = "unknown"
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	w.busy = busy()
	return w, nil
}

// Done ends watching; nodes is the CPU time of the nodes, in seconds.
func (w *Watcher) Done(nodes float64) {
	w.m.LoadEnd = load()
	own := nodes
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			own += float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
		}
	}
	total := time.Since(w.start).Seconds() * float64(w.m.Cores)
	w.m.Foreign = min(max((busy()-w.busy-own)/total, 0), 1)
}

func load() (l float64) {
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(b), &l)
	}
	return l
}

// busy is the CPU time that all processes, and the kernel, have used, in seconds.
func busy() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var label string
	var user, nice, system, idle, wait, irq, soft float64
	_, _ = fmt.Sscan(string(b), &label, &user, &nice, &system, &idle, &wait, &irq, &soft)
	const hz = 100 // USER_HZ, which is 100 wherever Go runs
	return (user + nice + system + irq + soft) / hz
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				return strings.TrimSpace(v)
			}
		}
	}
	return runtime.GOARCH
}
