package sockio

import (
	"errors"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// CheckCalls returns an error if this process may not make a call that a link needs all the time: a
// system call filter decides that. Later the filter's answer would look as a firewall's to one
// packet, and the link would wait for ever, or the device would open and then fail.
func CheckCalls() error {
	const nothing = -1 // EBADF, where the call is permitted
	_, sends := Send(nothing, nil)
	_, receives := Recv(nothing, nil)
	_, polls := unix.Ppoll(nil, &unix.Timespec{}, nil)
	sets := unix.TimerfdSettime(nothing, 0, &unix.ItimerSpec{}, nil)
	for _, c := range [...]struct {
		name string
		err  error
	}{{"sendmmsg", sends}, {"recvmmsg", receives}, {"ppoll", polls}, {"timerfd_settime", sets}} {
		if hint := CallHint(c.err); hint != "" {
			return &link.OpenError{Err: os.NewSyscallError(c.name, c.err), Hint: hint}
		}
	}
	return nil
}

// CallHint says what to do about a system call that this process may not make; nothing if the error
// is another one.
func CallHint(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return "a filter of system calls (seccomp, SystemCallFilter= of systemd) has to permit it"
	}
	return ""
}
