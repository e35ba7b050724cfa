package verbs

import (
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// call is a kind of system call, with the numbers of amd64.
type call struct {
	name   string
	number uint32
	args   []arg // that it has
}

type arg struct{ n, is uint32 }

// option is the setting of an option.
func option(name string, level, opt uint32) call {
	return call{name, syscall.SYS_SETSOCKOPT, []arg{{1, level}, {2, opt}}}
}

// The kinds of system calls that Open makes and that may want memory.
var openCalls = []call{
	{"socket of netlink", syscall.SYS_SOCKET, []arg{{0, syscall.AF_NETLINK}}},
	{"socket of UDP", syscall.SYS_SOCKET, []arg{{0, syscall.AF_INET}}},
	{"socket of Unix", syscall.SYS_SOCKET, []arg{{0, syscall.AF_UNIX}}},
	{name: "socketpair", number: syscall.SYS_SOCKETPAIR},
	{"bind of UDP", syscall.SYS_BIND, []arg{{2, syscall.SizeofSockaddrInet4}}},
	{name: "listen", number: syscall.SYS_LISTEN},
	{name: "connect", number: syscall.SYS_CONNECT},
	{name: "sendto", number: syscall.SYS_SENDTO},
	{name: "recvfrom", number: syscall.SYS_RECVFROM},
	{name: "recvmsg", number: syscall.SYS_RECVMSG},
	{name: "openat", number: syscall.SYS_OPENAT},
	{"fcntl F_OFD_SETLK", syscall.SYS_FCNTL, []arg{{1, unix.F_OFD_SETLK}}},
	{name: "fchmodat", number: syscall.SYS_FCHMODAT},
	{name: "ftruncate", number: syscall.SYS_FTRUNCATE},
	{name: "pread", number: syscall.SYS_PREAD64},
	{name: "pwrite", number: syscall.SYS_PWRITE64},
	{name: "eventfd", number: syscall.SYS_EVENTFD2},
	{name: "timerfd_create", number: syscall.SYS_TIMERFD_CREATE},
	{name: "memfd_create", number: 319},
	option("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER),
	option("IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS),
	option("IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL),
	option("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL),
	option("SO_ATTACH_FILTER", unix.SOL_SOCKET, unix.SO_ATTACH_FILTER),
	option("SO_ATTACH_REUSEPORT_CBPF", unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF),
	option("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF),
	option("SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE),
	option("SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE),
	option("SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT),
	option("UDP_GRO", unix.IPPROTO_UDP, unix.UDP_GRO),
}

// without runs f on a thread of its own on which a kind of call fails. The thread ends with f.
func without(c call, errno syscall.Errno, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever
		if err := fail(c, errno); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// fail has a kind of call fail on the calling thread, by a seccomp filter.
func fail(c call, errno syscall.Errno) error {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result  = unix.BPF_RET | unix.BPF_K
		allowed = 0x7fff0000
		fails   = 0x00050000
	)
	p := []unix.SockFilter{{Code: load, K: 0}, {Code: equal, K: c.number, Jf: uint8(2*len(c.args) + 1)}}
	for i, a := range c.args {
		p = append(p, unix.SockFilter{Code: load, K: 16 + 8*a.n}, unix.SockFilter{Code: equal, K: a.is, Jf: uint8(2*(len(c.args)-i) - 1)})
	}
	p = append(p, unix.SockFilter{Code: result, K: fails | uint32(errno)}, unix.SockFilter{Code: result, K: allowed})
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	const setSeccomp, byFilter, noNewPrivs = 22, 2, 38
	if err := unix.Prctl(noNewPrivs, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(setSeccomp, byFilter, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// Whatever the kernel has no memory for: Open returns an *OpenError that says so, or does without; nothing is left open; and
// the next Open works.
func TestOpenWithoutMemory(t *testing.T) {
	a := loopback4()
	if err := without(openCalls[0], syscall.ENOMEM, func() error { return nil }); err != nil {
		t.Skip("no seccomp filters here:", err)
	}
	opens := func() error {
		d, err := Open(Config{Addrs: []netip.Addr{a}})
		if err != nil {
			return err
		}
		return d.Close()
	}
	require.NoError(t, opens()) // what the runtime opens for itself is there from now on
	failed := 0
	for i, c := range openCalls {
		errno := [...]syscall.Errno{syscall.ENOMEM, syscall.ENOBUFS}[i%2]
		before := names(t)
		err := without(c, errno, opens)
		if err != nil {
			failed++
			var oe *OpenError
			require.ErrorAs(t, err, &oe, c.name)
			require.ErrorIs(t, err, errno, c.name)
		}
		t.Logf("%s: %v", c.name, err)
		require.Equal(t, before, names(t), "descriptors, without %s", c.name)
	}
	require.GreaterOrEqual(t, failed, 8)
	require.NoError(t, opens())
}

// names returns what descriptors the process has, sorted.
func names(t *testing.T) (all []string) {
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
