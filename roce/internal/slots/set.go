package slots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/goroce/goroce/internal/unix"
)

// set is the descriptors of an address. Every device there holds the same.
type set struct {
	ground
	address Address
	fds     [numFDs]int // see memoryAt
	locks   int         // the memory file, opened anew: locks belong to an open file
	key     uint64      // of notes: see asked.go
	server  *server
}

func (s *set) udp(slot int) int { return s.fds[groupAt+slot] }

// inbox returns the two ends of a slot's inbox, to read from and to write to.
func (s *set) inbox(slot int) (read, write int) {
	return s.fds[inboxAt+2*slot], s.fds[inboxAt+2*slot+1]
}

// begin opens the memory file anew and starts to serve other processes.
func (s *set) begin() (err error) {
	if s.locks, err = reopen(s.fds[memoryAt]); err != nil {
		return err
	}
	var key [8]byte
	if n, err := unix.Pread(s.locks, key[:], keyAt); err != nil || n != len(key) {
		return unsupported("memory file", err)
	}
	s.key = binary.NativeEndian.Uint64(key[:])
	s.server, err = serve(s.fds)
	return err
}

// leave removes the address's socket file when the last device goes. If it does not run, the next
// device that begins removes the file.
func (s *set) leave() {
	if _, _, others := s.locked(0, Count); others || !listens(s.fds[fileAt]) {
		return
	}
	sa, err := unix.Getsockname(s.fds[fileAt])
	if at, ok := sa.(*unix.SockaddrUnix); err == nil && ok {
		_ = unix.Unlink(at.Name)
	}
}

// close closes the descriptors. The kernel releases locks only when no process that is being
// started has a copy of the file, so holders of locks release them first.
func (s *set) close() {
	if s.server != nil {
		s.server.close()
	}
	if s.locks >= 0 {
		unix.Close(s.locks)
	}
	closeAll(s.fds[:])
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// errNoFile means that the address should have a socket in a directory and has none.
var errNoFile = errors.New("no Unix socket in a directory")

// found makes the descriptors of an address that no process has: with an abstract name if abstract
// is set, and with a socket file if file is not empty. errAgain means that another process was
// faster.
func found(a Address, abstract bool, file string) (fds [numFDs]int, err error) {
	for i := range fds {
		fds[i] = -1
	}
	defer func() {
		if err != nil {
			closeAll(fds[:])
		}
	}()
	if err := roomFor(numFDs); err != nil {
		return fds, unsupported("descriptors", err)
	}
	name := ""
	if abstract {
		name = a.name()
	}
	// From here on others wait in the queue, and see it end if this fails.
	switch fds[listenerAt], err = openDoor(name); {
	case errors.Is(err, unix.EADDRINUSE):
		return fds, errAgain
	case err != nil:
		return fds, unsupported("abstract Unix socket", err)
	}
	if fds[memoryAt], err = newMemory(); err != nil {
		return fds, err
	}
	if err := a.group(fds[groupAt : groupAt+Count+1]); err != nil {
		return fds, err
	}
	for i := inboxAt; i < numFDs; i += 2 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return fds, unsupported("socketpair", err)
		}
		fds[i], fds[i+1] = pair[0], pair[1]
	}
	// Only one process has the port, so no other makes this file.
	if fds[fileAt], err = openDoor(file); err != nil && abstract {
		fds[fileAt], err = openDoor("")
	}
	if err != nil {
		return fds, fmt.Errorf("%w: %w", errNoFile, unsupported("Unix socket", err))
	}
	if err := writeNumbers(&fds); err != nil {
		return fds, unsupported("memory file", err)
	}
	return fds, nil
}

// group makes the UDP sockets. Their buffers are as small as possible, so they keep nearly nothing:
// a filter that drops everything, as [deafen] sets, would take longer to set than all the rest.
func (a Address) group(fds []int) error {
	for i := range fds {
		fd, err := unix.Socket(a.family(), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
		switch {
		case errors.Is(err, unix.EAFNOSUPPORT):
			return os.NewSyscallError("socket", err)
		case err != nil:
			return unsupported("socket", err)
		}
		fds[i] = fd
		// The kernel uses its minimum.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
			return unsupported("SO_RCVBUF", err)
		}
		if !a.Addr.Is4() {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
				return os.NewSyscallError("setsockopt IPV6_V6ONLY", err)
			}
		}
		if i == 0 {
			err = a.bindFirst(fd)
		} else if err = shared(fd); err == nil {
			err = a.bindNext(fd)
		}
		if i == 1 && err == nil {
			err = steer(fd) // now there is a group
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bindFirst binds the first socket of the group. The socket does not share the port while it is
// bound. So no socket of a dying process can be in the group, whose end would change the group's
// order.
func (a Address) bindFirst(fd int) error {
	if err := Bind(fd, a.sockaddr()); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return shared(fd)
}

// bindNext binds another socket of the group. The port is ours: where it is taken nevertheless, as
// in gVisor, a socket that is bound cannot begin to share.
func (a Address) bindNext(fd int) error {
	err := unix.Bind(fd, a.sockaddr())
	if errors.Is(err, unix.EADDRINUSE) {
		return unsupported("SO_REUSEPORT of a bound socket", err)
	}
	return os.NewSyscallError("bind", err)
}

// steer attaches the program to the group of a socket.
func steer(fd int) error {
	p := program()
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		&unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}); err != nil {
		return unsupported("SO_ATTACH_REUSEPORT_CBPF", err)
	}
	return nil
}

func shared(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return unsupported("SO_REUSEPORT", err)
	}
	return nil
}

// deafen makes a socket drop everything that arrives; hear ends that.
func deafen(fd int) error {
	nothing := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &nothing[0]})
}

func hear(fd int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return os.NewSyscallError("setsockopt SO_DETACH_FILTER", err)
}

// drain empties a socket.
func drain(fd int) {
	var b [1]byte
	drainBy(func() error {
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		return err
	})
}

// drainBy calls receive until nothing is left. An error may be a pending one of the socket rather
// than of this receive; the next call then goes on. One that stays is a policy's against the call.
func drainBy(receive func() error) {
	failed := 0
	for range maxDrain {
		err := receive()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.ENOTSOCK) {
			return
		}
		if failed++; err == nil {
			failed = 0
		} else if failed == maxPending {
			return
		}
	}
}
