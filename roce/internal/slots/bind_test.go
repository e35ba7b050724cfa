//go:build linux

package slots

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// What is in use is tried again for as long as there is patience, and nothing else is.
func TestAgain(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []error
		waits    int // that are granted
		want     error
	}{
		"free":         {[]error{nil}, 0, nil},
		"soon free":    {[]error{unix.EADDRINUSE, unix.EADDRINUSE, nil}, 9, nil},
		"stays in use": {[]error{unix.EADDRINUSE, unix.EADDRINUSE, unix.EADDRINUSE}, 2, unix.EADDRINUSE},
		"forbidden":    {[]error{unix.EACCES}, 9, unix.EACCES},
		"then not":     {[]error{unix.EADDRINUSE, unix.EADDRNOTAVAIL}, 9, unix.EADDRNOTAVAIL},
	} {
		t.Run(name, func(t *testing.T) {
			calls, waits := 0, 0
			err := bindAgain(func() error { calls++; return c.outcomes[calls-1] },
				func() bool { waits++; return waits <= c.waits })
			require.Equal(t, c.want, err)
			require.Equal(t, len(c.outcomes), calls)
		})
	}
}

// A socket that is bound keeps its port, and another one gets the error.
func TestBind(t *testing.T) {
	open := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	a, b := open(), open()
	sa := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	require.NoError(t, Bind(a, sa))
	at, err := unix.Getsockname(a)
	require.NoError(t, err)
	require.Equal(t, unix.EADDRINUSE, Bind(b, at))
}

// Where a socket that is bound cannot begin to share its port, as in gVisor, a device has the
// address for itself.
func TestPortThatCannotBeShared(t *testing.T) {
	open := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	a := Address{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	first := open()
	require.NoError(t, unix.Bind(first, a.sockaddr()))
	at, err := unix.Getsockname(first)
	require.NoError(t, err)
	a.Port = uint16(at.(*unix.SockaddrInet4).Port)
	next := open()
	require.NoError(t, shared(next))
	require.ErrorIs(t, a.bindNext(next), ErrUnsupported)
}
