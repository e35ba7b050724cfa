package slots

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
)

// All processes that have the address may be unable to answer: stopped, frozen, or without a CPU.
// The kernel can then copy their descriptors without their help (pidfd_getfd), where it permits
// processes of one user to debug each other. It does not if Yama's ptrace_scope is 1 or more, or if
// a container's profile forbids the call.

// getfd copies a descriptor. It is a variable for tests.
var getfd = unix.PidfdGetfd

// borrow copies the descriptors from one of the processes that hold one of the listening sockets
// with these numbers.
func borrow(holders []processes.Holder, listeners []uint64) (fds [numFDs]int, err error) {
	err = errors.New("no process of this user holds the address")
	for _, p := range holders {
		if fds, err = borrowFrom(p, listeners); err == nil {
			return fds, nil
		}
	}
	return fds, err
}

func borrowFrom(p processes.Holder, listeners []uint64) (fds [numFDs]int, err error) {
	for i := range fds {
		fds[i] = -1
	}
	if err := processes.CheckPID(p.PID); err != nil {
		return fds, err
	}
	defer func() {
		if err != nil {
			closeAll(fds[:])
		}
	}()
	proc, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return fds, err
	}
	defer unix.Close(proc)
	var numbers [numFDs]uint64
	if fds[memoryAt], numbers, err = memoryOf(p, listeners); err != nil {
		return fds, err
	}
	for i, n := range numbers {
		if i == memoryAt {
			continue
		}
		fd, ok := p.Has[processes.Socket(n)]
		if !ok {
			return fds, errors.New("it does not hold all")
		}
		if fds[i], err = getfd(proc, fd, 0); err != nil {
			return fds, err
		}
		// The process may have closed it meanwhile and opened something else.
		if got, err := inode(fds[i]); err != nil || got != n {
			return fds, errors.New("it is ending")
		}
	}
	return fds, checkKinds(&fds)
}

// memoryOf opens the memory file of the address in a process and returns the numbers of all
// descriptors.
func memoryOf(p processes.Holder, listeners []uint64) (fd int, numbers [numFDs]uint64, err error) {
	for target, n := range p.Has {
		if !isMemory(target) {
			continue
		}
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", p.PID, n), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if checkSealed(fd) == nil {
			numbers, err = readNumbers(fd)
			if err == nil && (slices.Contains(listeners, numbers[listenerAt]) ||
				slices.Contains(listeners, numbers[fileAt])) {
				return fd, numbers, nil
			}
		}
		unix.Close(fd)
	}
	return -1, numbers, errors.New("it has no memory file of the address")
}
