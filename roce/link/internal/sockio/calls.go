package sockio

import (
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// CheckCalls returns an error if this process may not send and receive several datagrams in a call:
// a system call filter decides that. Later the filter's answer would look as a firewall's to one
// packet, and the link would wait for ever.
func CheckCalls() error {
	const nothing = -1 // EBADF, where the call is permitted
	_, sends := Send(nothing, nil)
	_, receives := Recv(nothing, nil)
	for _, c := range [...]struct {
		name  string
		errno unix.Errno
	}{{"sendmmsg", sends}, {"recvmmsg", receives}} {
		switch c.errno {
		case unix.EPERM, unix.EACCES, unix.ENOSYS:
			return &link.OpenError{Err: os.NewSyscallError(c.name, c.errno),
				Hint: "a filter of system calls (seccomp, SystemCallFilter= of systemd) has to permit it"}
		}
	}
	return nil
}
