// Package processes tells which process is at the other end of a Unix socket, and which processes
// hold a socket.
//
// # Concurrency
//
// All may be used from anywhere.
package processes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/goroce/goroce/internal/unix"
)

// ErrOther is wrapped by Check when a process is of another user, or may be.
var ErrOther = errors.New("of another user")

// Of asks the kernel for the process at the other end of a Unix socket: of one that is accepted the
// one that has connected, of one that is connected the one that listens, or has handed the socket
// on.
func Of(fd int) (*unix.Ucred, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return cred, os.NewSyscallError("getsockopt SO_PEERCRED", err)
}

// Check returns nil if a process is certainly of the user of this one.
//
// The kernel gives one number, 65534, to all users that a user namespace does not map. Where there
// are such users a process that runs under this number cannot tell others of its own user from
// strangers, and trusts only itself.
func Check(cred *unix.Ucred) error { return check(cred, os.Getpid(), os.Geteuid(), ambiguous) }

func check(cred *unix.Ucred, pid, uid int, ambiguous func(uid int) bool) error {
	switch {
	case int(cred.Uid) != uid:
		return fmt.Errorf("%w (user %d)", ErrOther, cred.Uid)
	case int(cred.Pid) == pid && pid != 0:
		return nil
	case ambiguous(uid):
		return fmt.Errorf("%w, perhaps (user %d stands for all users that this user namespace does not map)",
			ErrOther, uid)
	}
	return nil
}

// ambiguous reports whether a number of a user may stand for several.
func ambiguous(uid int) bool { return ambiguousIn("/proc", uid) }

// ambiguousIn is the same with /proc in another folder.
func ambiguousIn(proc string, uid int) bool {
	overflow := 65534
	b, _ := os.ReadFile(path.Join(proc, "sys/kernel/overflowuid"))
	_, _ = fmt.Sscan(string(b), &overflow)
	if uid != overflow {
		return false
	}
	b, _ = os.ReadFile(path.Join(proc, "self/uid_map")) // nothing maps nobody
	return !mapsAll(bytes.NewReader(b))
}

// allUsers is how many users there can be: the last number means none.
const allUsers = 1<<32 - 1

// mapsAll reports whether a user namespace maps all users: lines of first number here, first number
// outside, and how many.
func mapsAll(r io.Reader) bool {
	var n uint64
	for {
		var in, out, count uint64
		if _, err := fmt.Fscan(r, &in, &out, &count); err != nil {
			return n >= allUsers
		}
		n += count
	}
}
