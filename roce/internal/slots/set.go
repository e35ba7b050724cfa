package slots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/goroce/goroce/internal/unix"
)

// set is the descriptors of an address, as every device there holds them.
type set struct {
	ground
	address Address
	fds     [numFDs]int // see memoryAt
	locks   int         // the memory file, opened anew: locks belong to an open file
	key     uint64      // of notes: see asked.go
	server  *server
}

func (s *set) udp(slot int) int { return s.fds[groupAt+slot] }

// inbox returns the end of a slot's inbox to read, and the one to write.
func (s *set) inbox(slot int) (read, write int) {
	return s.fds[inboxAt+2*slot], s.fds[inboxAt+2*slot+1]
}

// begin opens the memory file anew, and serves others.
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

// leave removes the file of the address when its last device goes. The next one that begins would
// remove it, too.
func (s *set) leave() {
	if _, _, others := s.locked(0, Count); others || !listens(s.fds[fileAt]) {
		return
	}
	sa, err := unix.Getsockname(s.fds[fileAt])
	if at, ok := sa.(*unix.SockaddrUnix); err == nil && ok {
		_ = unix.Unlink(at.Name)
	}
}

// close gives the descriptors back. Locks are released by themselves only when no process that is
// being started has a copy; so who has locks releases them before.
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

// errNoFile means that the address has no socket in a directory, which it should have had.
var errNoFile = errors.New("no Unix socket in a directory")

// found makes the descriptors of an address that nobody has: with an abstract name, if that is to
// be had, and with the file, if that is not empty. errAgain means that somebody else was faster.
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
	// There is no second one that has the port, so nobody else makes this file.
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

// group makes the UDP sockets, which keep nearly nothing of what they get: a filter that drops all,
// as [deafen] sets, would take longer to set than everything else.
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
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil { // the kernel's least
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
			err = os.NewSyscallError("bind", unix.Bind(fd, a.sockaddr()))
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

// bindFirst binds the first socket of the group. It does not share the port when it is bound:
// so there is no socket there of a process that is just dying, whose end would
// change the order of the group.
func (a Address) bindFirst(fd int) error {
	if err := Bind(fd, a.sockaddr()); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return shared(fd)
}

// steer gives the group of a socket its program.
func steer(fd int) error {
	p := program()
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}); err != nil {
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

// deafen has a socket drop everything that comes; hear ends that.
func deafen(fd int) error {
	nothing := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
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
	for range maxDrain {
		// An error may be one of the socket, not of the receive: then the next goes on.
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.ENOTSOCK) {
			return
		}
	}
}
