package node

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CPUs returns the numbers of the CPUs that this process may use.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

// CPUs says which CPUs the node may use.
func (n *Node) CPUs(_ struct{}, cpus *[]int) (err error) {
	*cpus, err = CPUs()
	return err
}

// pin starts this program again with all of its threads on the CPU of envCPU, if that is
// set. The threads that the runtime has already would not follow, and it has settled
// on a number of processors.
func pin() error {
	v := os.Getenv(envCPU)
	if v == "" {
		return nil
	}
	cpu, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("%s: %w", envCPU, err)
	}
	if err := os.Unsetenv(envCPU); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set unix.CPUSet
	set.Set(int(cpu))
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return os.NewSyscallError("execve", syscall.Exec(exe, os.Args, os.Environ()))
}
