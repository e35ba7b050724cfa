package doctor

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// bridged is two machines, and between them a third that copies frames from one interface to the
// other, and knows of no offload.
type bridged struct {
	a, b   *linktest.Namespace
	a4, b4 netip.Addr
	damage atomic.Int64 // of so many IPv4 frames one
	seen   atomic.Int64
}

func newBridged(t *testing.T) *bridged {
	n := &bridged{a: linktest.NewNamespace(t), b: linktest.NewNamespace(t),
		a4: netip.MustParseAddr("10.98.0.1"), b4: netip.MustParseAddr("10.98.0.2")}
	mid := linktest.NewNamespace(t)
	// What the bridge gets is single packets, with checksums that are not there.
	n.a.Run("ip", "link", "add", "veth0", "index", "11", "address", "02:00:00:00:98:01", "type", "veth",
		"peer", "name", "toa", "index", "12", "netns", mid.Path())
	n.b.Run("ip", "link", "add", "veth0", "index", "21", "address", "02:00:00:00:98:02", "type", "veth",
		"peer", "name", "tob", "index", "22", "netns", mid.Path())
	for _, x := range []struct {
		ns   *linktest.Namespace
		own  netip.Addr
		peer string
	}{{n.a, n.a4, n.b4.String() + " lladdr 02:00:00:00:98:02"}, {n.b, n.b4,
		n.a4.String() + " lladdr 02:00:00:00:98:01"}} {
		x.ns.SetSysctl("ipv6/conf/veth0/disable_ipv6", 1)
		x.ns.IP("addr add "+x.own.String()+"/24 dev veth0", "link set veth0 up",
			"neigh add "+x.peer+" dev veth0 nud permanent")
	}
	for _, name := range []string{"toa", "tob"} {
		mid.SetSysctl("ipv6/conf/"+name+"/disable_ipv6", 1)
		mid.IP("link set " + name + " up")
	}
	var fds [2]int
	for i, index := range []int{12, 22} {
		var err error
		mid.Do(func() {
			if fds[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC,
				int(htons(unix.ETH_P_ALL))); err == nil {
				err = unix.Bind(fds[i], &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index})
			}
		})
		require.NoError(t, err)
		require.NoError(t, unix.SetsockoptInt(fds[i], unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
		require.NoError(t,
			unix.SetsockoptTimeval(fds[i], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 10_000}))
	}
	var wg sync.WaitGroup
	var over atomic.Bool
	for i := range fds {
		wg.Go(func() {
			buf := make([]byte, 1<<16)
			for !over.Load() {
				if k, _, err := unix.Recvfrom(fds[i], buf, 0); err == nil {
					_ = unix.Sendto(fds[1-i], n.pass(buf[:k]), 0, &unix.SockaddrLinklayer{Ifindex: []int{12, 22}[1-i]})
				}
			}
		})
	}
	t.Cleanup(func() {
		over.Store(true)
		wg.Wait()
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return n
}

func (n *bridged) pass(f []byte) []byte {
	if len(f) > 60 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IP {
		if d := n.damage.Load(); d > 0 && n.seen.Add(1)%d == 0 {
			f[len(f)-1] ^= 1
		}
	}
	return f
}
