package node

import (
	"os"

	"github.com/goroce/goroce/internal/unix"
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
