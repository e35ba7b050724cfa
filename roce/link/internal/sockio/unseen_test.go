package sockio

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that may not use rtnetlink has its addresses nevertheless, with the MTU of Ethernet.
// What a zone means only rtnetlink knows.
func TestInterfacesUnseen(t *testing.T) {
	failing := func(errno syscall.Errno) func() ([]net.Interface, error) {
		return func() ([]net.Interface, error) {
			return nil, &net.OpError{Op: "route", Net: "ip+net", Err: os.NewSyscallError("netlinkrib", errno)}
		}
	}
	for addr, mtu := range map[string]int{"127.0.0.1": 1 << 16, "::1": 1 << 16, "192.0.2.9": 1500,
		"2001:db8::9": 1500, "fe80::5%eth0": 0} {
		for _, errno := range []syscall.Errno{syscall.EAFNOSUPPORT, syscall.EACCES, syscall.EPERM} {
			got, err := interfaceOf(netip.MustParseAddr(addr), failing(errno))
			if mtu == 0 {
				require.ErrorIs(t, err, errno)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, mtu, got.MTU, addr)
		}
		_, err := interfaceOf(netip.MustParseAddr(addr), failing(syscall.ENOBUFS))
		require.True(t, errors.Is(err, syscall.ENOBUFS), "%v", err)
	}
}
