//go:build linux && amd64

package linktest

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// SystemCall is a kind of system call that may want memory, by its number on amd64 and by arguments
// that it has.
type SystemCall struct {
	Name   string
	Number uint32
	Args   []Arg
	Spare  bool // a link does without
}

// Arg is the low half of an argument, counted from 0.
type Arg struct{ N, Is uint32 }

// Option is the setting of an option of a socket.
func Option(name string, level, opt uint32) SystemCall {
	return SystemCall{Name: name, Number: syscall.SYS_SETSOCKOPT, Args: []Arg{{1, level}, {2, opt}}}
}

// Fail has a kind of call fail on the calling thread from now on, by a seccomp filter.
func Fail(c SystemCall, errno syscall.Errno) error {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result  = unix.BPF_RET | unix.BPF_K
		allowed = 0x7fff0000
		fails   = 0x00050000
	)
	p := []unix.SockFilter{{Code: load, K: 0}, {Code: equal, K: c.Number, Jf: uint8(2*len(c.Args) + 1)}}
	for i, a := range c.Args {
		p = append(p, unix.SockFilter{Code: load, K: 16 + 8*a.N},
			unix.SockFilter{Code: equal, K: a.Is, Jf: uint8(2*(len(c.Args)-i) - 1)})
	}
	p = append(p, unix.SockFilter{Code: result, K: fails | uint32(errno)}, unix.SockFilter{Code: result, K: allowed})
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	const setSeccomp, byFilter, noNewPrivs = 22, 2, 38
	if err := unix.Prctl(noNewPrivs, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(setSeccomp, byFilter, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// RunLacks tests that a link whose system calls fail for want of memory, one kind at a time, does
// not open, with a [*link.OpenError] that says so, or does without; that nothing is left open; and
// that the next one opens, and carries packets.
func RunLacks(t *testing.T, open Opener, calls []SystemCall) {
	n := NewNet(t, 1500)
	works := func(a link.Link) {
		b := open.In(t, n.B, n.B4)
		Reaches(t, a, b, NewPath(a, b))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
	works(open.In(t, n.A, n.A4)) // what the runtime opens for itself is there from now on
	for i, c := range calls {
		errno := [...]syscall.Errno{syscall.ENOMEM, syscall.ENOBUFS}[i%2]
		before := Descriptors(t)
		var unfit, err error
		var l link.Link
		n.A.Do(func() {
			if unfit = Fail(c, errno); unfit == nil {
				l, err = open(n.A4)
			}
		})
		if unfit != nil {
			t.Skip("no seccomp filters here:", unfit)
		}
		t.Logf("%s: %v", c.Name, err)
		require.Equal(t, c.Spare, err == nil, c.Name)
		if err == nil {
			works(l)
		} else {
			var oe *link.OpenError
			require.ErrorAs(t, err, &oe, c.Name)
			require.ErrorIs(t, err, errno, c.Name)
		}
		require.Equal(t, before, Descriptors(t), "descriptors, without %s", c.Name)
	}
	works(open.In(t, n.A, n.A4))
}

// Descriptors returns what descriptors the process has, sorted.
func Descriptors(t testing.TB) (all []string) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			all = append(all, to)
		}
	}
	slices.Sort(all)
	return all
}
