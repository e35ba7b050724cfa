package linktest

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunMTU tests that a link opens, with the path MTU that fits, on interfaces with any
// MTU, and says what is wrong with one that is too small; with -short every second one.
func RunMTU(t *testing.T, open Opener) {
	t.Parallel()
	n := NewNet(t, 9000)
	for i, c := range []struct {
		mtu  string
		want ib.MTU
	}{{"65535", ib.MTU4096}, {"4176", ib.MTU4096}, {"4175", ib.MTU2048}, {"1500", ib.MTU1024},
		{"1280", ib.MTU1024}, {"592", ib.MTU512}, {"336", ib.MTU256}, {"335", 0}, {"68", 0}} {
		if testing.Short() && i%2 != 0 {
			continue
		}
		t.Run(c.mtu, func(t *testing.T) {
			// IPv6 is switched off below 1280, and with it goes its address.
			for _, ns := range []*Namespace{n.A, n.B} {
				ns.Run("ip", "link", "set", Device, "mtu", c.mtu)
			}
			if c.want == 0 {
				var l link.Link
				var err error
				n.A.Do(func() { l, err = open(n.A4) })
				require.Nil(t, l)
				var oe *link.OpenError
				require.ErrorAs(t, err, &oe)
				require.ErrorContains(t, err, "too small")
				require.NotEmpty(t, oe.Hint)
				return
			}
			a, b := open.In(t, n.A, n.A4), open.In(t, n.B, n.B4)
			defer func() {
				require.NoError(t, a.Close())
				require.NoError(t, b.Close())
			}()
			if oneBuffer(t, a) {
				c.want = min(c.want, ib.MTU2048)
			}
			require.Equal(t, c.want, a.MTU())
			p := NewPath(a, b)
			Reaches(t, a, b, p)
			r := rand.New(rand.NewPCG(1, 1))
			for _, count := range []int{1, 30} {
				batch := make([]edge.TxPacket, count)
				for i := range batch {
					batch[i] = Packet(r, p, c.want.Bytes())
				}
				SendAll(t, a, batch)
				Await(t, b, batch)
			}
		})
	}
}

// descriptors counts the file descriptors of the process.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// RunLeaks tests that a link that is closed, or could not be opened, leaves nothing behind, that it
// may be asked anything while it closes, and that closing it again does nothing.
func RunLeaks(t *testing.T, open Opener) {
	n := NewNet(t, 1500)
	group := netip.MustParseAddr("239.1.2.3")
	round := func() {
		a, b := open.In(t, n.A, n.A4), open.In(t, n.B, n.B4)
		n.B.Do(func() { require.NoError(t, b.Join(group, n.B4)) })
		Reaches(t, a, b, NewPath(a, b))
		// The first has no port, the second no address, the last no interface.
		n.B.Do(func() {
			taken := netip.MustParseAddr("127.0.0.9")
			other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(taken, ib.UDPPort)))
			require.NoError(t, err)
			defer other.Close()
			if l, err := open(n.B4); err == nil { // links that share addresses
				require.NoError(t, l.Close())
			}
			for _, addr := range []netip.Addr{taken, {}, netip.MustParseAddr("203.0.113.9")} {
				_, err := open(addr)
				require.Error(t, err, "opened on %v", addr)
				var oe *link.OpenError
				require.ErrorAs(t, err, &oe)
			}
		})
		whileClosing(t, n, b, group)
		require.NoError(t, b.Close())
		require.NoError(t, a.Close())
	}
	round() // what the runtime and the kernel open once
	before := descriptors(t)
	for range times(5) {
		round()
	}
	require.Equal(t, before, descriptors(t))
}

const (
	// busyCalls is how often a link that closes is asked at once, pace how soon it is asked again
	// after that. The kernel takes some of its closes as slowly as it likes, which need not keep
	// all processors busy.
	busyCalls = 1000
	pace      = 100 * time.Microsecond
)

// whileClosing closes a link while others ask it for whatever may be asked for at any time.
func whileClosing(t *testing.T, n *Net, l link.Link, group netip.Addr) {
	t.Helper()
	var wg sync.WaitGroup
	began := make(chan struct{}, 8)
	closed := make(chan struct{})
	for _, f := range []func(){
		func() { l.Wake() },
		func() { l.Stats() },
		func() { l.Capabilities(); l.MTU(); l.Addrs(); l.Now() },
		func() { l.Watch(func(link.PortState) {}) },
		func() {
			n.B.Do(func() {
				if l.Join(group, n.B4) == nil {
					_ = l.Leave(group, n.B4) // it may be closed by now
				}
			})
		},
	} {
		wg.Go(func() {
			f()
			began <- struct{}{}
			for i := 0; ; i++ {
				select {
				case <-closed:
					f() // once more behind it
					return
				default:
					f()
				}
				if i > busyCalls {
					time.Sleep(pace)
				}
			}
		})
	}
	for range 5 {
		<-began
	}
	require.NoError(t, l.Close())
	close(closed)
	wg.Wait()
	n.B.Do(func() { require.ErrorIs(t, l.Join(group, n.B4), link.ErrClosed) })
}
