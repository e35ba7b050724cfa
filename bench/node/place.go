package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/goroce/goroce/internal/unix"
)

// Place is where a node runs, and with what of the machine.
type Place struct {
	CPUs  []int  // the only ones that it uses; none: any
	Group string // the folder of a cgroup that it is in; "": that of the coordinator
	Procs int    // GOMAXPROCS; 0: as the runtime likes
}

// What is set in the environment of a node: the numbers of the CPUs that it is to stay on, and the
// folder of its cgroup.
const (
	envCPUs  = "GOROCE_BENCH_CPUS"
	envGroup = "GOROCE_BENCH_CGROUP"
)

// env is what tells a node of its place.
func (p *Place) env() []string {
	var env []string
	if len(p.CPUs) > 0 {
		var numbers []string
		for _, c := range p.CPUs {
			numbers = append(numbers, strconv.Itoa(c))
		}
		env = append(env, envCPUs+"="+strings.Join(numbers, ","))
	}
	if p.Group != "" {
		env = append(env, envGroup+"="+p.Group)
	}
	if p.Procs > 0 {
		env = append(env, fmt.Sprintf("GOMAXPROCS=%d", p.Procs))
	}
	return env
}

// settle starts this program again in its place, if the environment names one. The threads that the
// runtime has already would not follow to other CPUs, and it has settled on a number of processors.
func settle() error {
	cpus, group := os.Getenv(envCPUs), os.Getenv(envGroup)
	if cpus == "" && group == "" {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cpus != "" {
		set, err := cpuSet(cpus)
		if err != nil {
			return fmt.Errorf("%s: %w", envCPUs, err)
		}
		if err := unix.SchedSetaffinity(0, set); err != nil {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	if group != "" {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("%s: %w", envGroup, err)
		}
	}
	for _, name := range []string{envCPUs, envGroup} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return os.NewSyscallError("execve", syscall.Exec(exe, os.Args, os.Environ()))
}

// cpuSet reads numbers of CPUs with commas between.
func cpuSet(list string) (*unix.CPUSet, error) {
	var set unix.CPUSet
	for _, s := range strings.Split(list, ",") {
		cpu, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return nil, err
		}
		set.Set(int(cpu))
		if !set.IsSet(int(cpu)) {
			return nil, fmt.Errorf("no CPU can have the number %d", cpu)
		}
	}
	return &set, nil
}
