package roce_test

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Nobody on the network has the address: the kernel says so when nobody has answered ARP, or a
// neighbour solicitation, and the dial ends, as for TCP.
func TestDialWithoutAHost(t *testing.T) {
	for _, own := range []string{"10.9.8.1/24", "fd98::1/64"} {
		t.Run(own, func(t *testing.T) {
			prefix := netip.MustParsePrefix(own)
			pair, err := netns.NewPair(1500, [2][]netip.Prefix{{prefix}, {}})
			if errors.Is(err, unix.EPERM) {
				t.Skip("network namespaces need root")
			}
			require.NoError(t, err)
			defer pair.Close()
			var dialErr error
			require.NoError(t, pair[0].Do(func() {
				for _, family := range []string{"ipv4", "ipv6"} {
					dir := "/proc/sys/net/" + family + "/neigh/" + netns.Device
					require.NoError(t, os.WriteFile(dir+"/mcast_solicit", []byte("1"), 0))
					require.NoError(t, os.WriteFile(dir+"/retrans_time_ms", []byte("10"), 0))
				}
				d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{prefix.Addr()}})
				require.NoError(t, err)
				defer d.Close()
				dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}, Tries: 1, RetryInterval: time.Hour}
				_, dialErr = dialer.Dial(t.Context(), netip.AddrPortFrom(prefix.Addr().Next(), 1).String())
			}))
			require.ErrorIs(t, dialErr, roce.ErrUnreachable)
			require.ErrorIs(t, dialErr, syscall.EHOSTUNREACH)
			require.NotErrorIs(t, dialErr, syscall.ETIMEDOUT)
		})
	}
}

// No way leads there from the address of the device: the dial ends at once, as for TCP, and not
// when nobody has answered.
func TestDialWithoutARoute(t *testing.T) {
	own := netip.MustParsePrefix("10.9.8.1/24")
	pair, err := netns.NewPair(1500, [2][]netip.Prefix{{own}, {}})
	if errors.Is(err, unix.EPERM) {
		t.Skip("network namespaces need root")
	}
	require.NoError(t, err)
	defer pair.Close()
	for _, kind := range []string{"unreachable", "blackhole", "prohibit"} {
		require.NoError(t, pair[0].IP("route add %s 10.1.0.%d/32", kind, len(kind)))
	}
	for to, cause := range map[string]error{
		"10.2.0.1:1": syscall.ENETUNREACH, "10.1.0.11:1": syscall.EHOSTUNREACH,
		"10.1.0.9:1": syscall.EINVAL, "10.1.0.8:1": syscall.EACCES,
	} {
		var dialErr, boundErr error
		require.NoError(t, pair[0].Do(func() {
			d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{own.Addr()}})
			require.NoError(t, err)
			defer d.Close()
			dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}, RetryInterval: time.Hour}
			_, dialErr = dialer.Dial(t.Context(), to)
			dialer.LocalAddr = netip.AddrPortFrom(own.Addr(), 0)
			_, boundErr = dialer.Dial(t.Context(), to)
		}))
		for _, err := range []error{dialErr, boundErr} {
			require.ErrorIs(t, err, cause, to)
			require.ErrorIs(t, err, syscall.ENETUNREACH)
			var none *roce.NoRouteError
			require.ErrorAs(t, err, &none)
			require.Equal(t, own.Addr(), none.Local[0])
		}
	}
}
