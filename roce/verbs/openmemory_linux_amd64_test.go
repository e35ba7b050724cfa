package verbs

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// The kinds of system calls that Open makes and that may want memory.
var openCalls = []linktest.SystemCall{
	{Name: "socket of netlink", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_NETLINK}}},
	{Name: "socket of UDP", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_INET}}},
	{Name: "socket of Unix", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_UNIX}}},
	{Name: "socketpair", Number: syscall.SYS_SOCKETPAIR},
	{Name: "bind of UDP", Number: syscall.SYS_BIND, Args: []linktest.Arg{{N: 2, Is: syscall.SizeofSockaddrInet4}}},
	{Name: "listen", Number: syscall.SYS_LISTEN},
	{Name: "connect", Number: syscall.SYS_CONNECT},
	{Name: "sendto", Number: syscall.SYS_SENDTO},
	{Name: "recvfrom", Number: syscall.SYS_RECVFROM},
	{Name: "recvmsg", Number: syscall.SYS_RECVMSG},
	{Name: "openat", Number: syscall.SYS_OPENAT},
	{Name: "fcntl F_OFD_SETLK", Number: syscall.SYS_FCNTL, Args: []linktest.Arg{{N: 1, Is: unix.F_OFD_SETLK}}},
	{Name: "fchmodat", Number: syscall.SYS_FCHMODAT},
	{Name: "ftruncate", Number: syscall.SYS_FTRUNCATE},
	{Name: "pread", Number: syscall.SYS_PREAD64},
	{Name: "pwrite", Number: syscall.SYS_PWRITE64},
	{Name: "eventfd", Number: syscall.SYS_EVENTFD2},
	{Name: "timerfd_create", Number: syscall.SYS_TIMERFD_CREATE},
	{Name: "memfd_create", Number: 319},
	linktest.Option("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER),
	linktest.Option("IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS),
	linktest.Option("IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL),
	linktest.Option("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL),
	linktest.Option("SO_ATTACH_FILTER", unix.SOL_SOCKET, unix.SO_ATTACH_FILTER),
	linktest.Option("SO_ATTACH_REUSEPORT_CBPF", unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF),
	linktest.Option("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF),
	linktest.Option("SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE),
	linktest.Option("SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE),
	linktest.Option("SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT),
	linktest.Option("UDP_GRO", unix.IPPROTO_UDP, unix.UDP_GRO),
}

// without runs f on a thread of its own on which a kind of call fails. The thread ends with f.
func without(c linktest.SystemCall, errno syscall.Errno, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever
		if err := linktest.Fail(c, errno); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// Whatever the kernel has no memory for: Open returns an *OpenError that says so, or does without;
// nothing is left open; and the next Open works.
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
		before := linktest.Descriptors(t)
		err := without(c, errno, opens)
		if err != nil {
			failed++
			var oe *OpenError
			require.ErrorAs(t, err, &oe, c.Name)
			require.ErrorIs(t, err, errno, c.Name)
		}
		t.Logf("%s: %v", c.Name, err)
		require.Equal(t, before, linktest.Descriptors(t), "descriptors, without %s", c.Name)
	}
	require.GreaterOrEqual(t, failed, 8)
	require.NoError(t, opens())
}

// A process that a filter forbids to send or receive several datagrams in a call learns that from
// Open: later the answer would look as that of a firewall, and Dial would wait for ever.
func TestOpenWithoutCalls(t *testing.T) {
	a := loopback4()
	const recvmmsg, sendmmsg = 299, 307
	for _, c := range []linktest.SystemCall{
		{Name: "sendmmsg", Number: sendmmsg}, {Name: "recvmmsg", Number: recvmmsg},
	} {
		for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOSYS} {
			if err := without(c, errno, func() error { return nil }); err != nil {
				t.Skip("no seccomp filters here:", err)
			}
			before := linktest.Descriptors(t)
			err := without(c, errno, func() error {
				d, err := Open(Config{Addrs: []netip.Addr{a}})
				if err == nil {
					d.Close()
				}
				return err
			})
			var oe *OpenError
			require.ErrorAs(t, err, &oe, "%s: %v", c.Name, errno)
			require.ErrorIs(t, err, errno)
			require.ErrorContains(t, err, c.Name)
			require.Equal(t, before, linktest.Descriptors(t))
		}
	}
}
