package udp

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func openPlain(t *testing.T, a netip.Addr) *Plain {
	t.Helper()
	l, err := OpenPlain([]netip.Addr{a}, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// What other systems have works here, too; either end may be the link of Linux.
func TestPlain(t *testing.T) {
	for _, c := range []struct {
		name string
		open [2]func(*testing.T, netip.Addr) link.Link
	}{
		{"both", [2]func(*testing.T, netip.Addr) link.Link{plainLink, plainLink}},
		{"sends", [2]func(*testing.T, netip.Addr) link.Link{plainLink, linuxLink}},
		{"receives", [2]func(*testing.T, netip.Addr) link.Link{linuxLink, plainLink}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, y := loopback(), loopback()
			p := &pair{path: &edge.Path{Src: x, Dst: y, HopLimit: 64}, rng: rand.New(rand.NewPCG(1, 1))}
			a, b := c.open[0](t, x), c.open[1](t, y)
			txs := p.train()
			rx := make([]edge.RxPacket, 7)
			for len(txs) > 0 {
				some := txs[:min(50, len(txs))]
				a.Send(some)
				for i := 0; i < len(some); {
					n, err := b.Recv(rx)
					require.NoError(t, err)
					if n == 0 {
						require.NoError(t, b.Wait(-1))
						continue
					}
					for _, r := range rx[:n] {
						require.Equal(t, some[i].AppendTo(nil), r.Data[:len(r.Data)-ib.ICRCBytes])
						require.Equal(t, []netip.Addr{x, y}, []netip.Addr{r.Src, r.Dst})
						i++
					}
				}
				txs = txs[len(some):]
			}
			require.Zero(t, b.Stats().RxICRC)
			require.Equal(t, a.Stats().TxBytes, b.Stats().RxBytes)
		})
	}
}

func plainLink(t *testing.T, a netip.Addr) link.Link { return openPlain(t, a) }
func linuxLink(t *testing.T, a netip.Addr) link.Link { return open(t, a, Options{}) }

// A buffer holds one packet, and is used again when that was handed up; garbage takes one for a
// while.
func TestPlainGarbage(t *testing.T) {
	l, from := openPlain(t, loopback()), openPlain(t, loopback())
	to := netip.AddrPortFrom(l.addrs[0], ib.UDPPort)
	junk := make([]byte, ib.MaxPacketBytes+100)
	rx := make([]edge.RxPacket, 8)
	for i := range 3 * plainRing {
		_, err := from.socks[0].conn.WriteToUDPAddrPort(junk[:[...]int{0, 3, 40, len(junk)}[i%4]], to)
		require.NoError(t, err)
		for l.Stats().RxDatagrams <= uint64(i) {
			n, err := l.Recv(rx)
			require.NoError(t, err)
			require.Zero(t, n)
			if l.Stats().RxDatagrams <= uint64(i) {
				require.NoError(t, l.Wait(-1))
			}
		}
	}
	s := l.Stats()
	require.Equal(t, uint64(3*plainRing), s.RxShort+s.RxICRC+s.RxTruncated)
	require.Equal(t, uint64(3*plainRing/4), s.RxTruncated)
}

func TestPlainAlone(t *testing.T) {
	a := loopback()
	l := openPlain(t, a)
	_, err := OpenPlain([]netip.Addr{a}, Options{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	var open *OpenError
	require.True(t, errors.As(err, &open))
	require.Contains(t, open.Hint, "only on Linux")
	for _, bad := range [][]netip.Addr{nil, {{}}, {netip.IPv4Unspecified()}, {loopback(), a}} {
		_, err := OpenPlain(bad, Options{})
		require.Error(t, err)
	}
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Wait(-1), link.ErrClosed)
	_, err = l.Recv(make([]edge.RxPacket, 1))
	require.ErrorIs(t, err, link.ErrClosed)
	l.Send([]edge.TxPacket{{}})
	require.Equal(t, uint64(1), l.Stats().TxDropped)
}

// Without a size to ask for, the buffers are as large as on Linux.
func TestPlainBuffers(t *testing.T) {
	var sizes []int
	for _, o := range []Options{{}, {SocketBufferBytes: defaultSocketBuffer}} {
		l, err := OpenPlain([]netip.Addr{loopback()}, o)
		require.NoError(t, err)
		defer l.Close()
		raw, err := l.socks[0].conn.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			for _, name := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
				n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, name)
				require.NoError(t, err)
				sizes = append(sizes, n)
			}
		}))
	}
	require.Equal(t, sizes[2:], sizes[:2])
}

// What cannot be sent is dropped, and what is behind it is sent.
func TestPlainDrops(t *testing.T) {
	a, b := openPlain(t, loopback()), openPlain(t, loopback())
	p := &pair{path: &edge.Path{Src: a.addrs[0], Dst: b.addrs[0], HopLimit: 64}, rng: rand.New(rand.NewPCG(1, 1))}
	good := p.packet(ib.RCSendOnly, 1, 100, 1)
	foreign := good
	foreign.Path = &edge.Path{Src: b.addrs[0], Dst: a.addrs[0], HopLimit: 64}
	a.Send([]edge.TxPacket{foreign, good})
	s := a.Stats()
	require.Equal(t, [2]uint64{1, 1}, [2]uint64{s.TxDropped, s.TxPackets})
}

// A socket from which nothing can be read any more fails the link, and a call that waits for
// packets says so.
func TestPlainDeadSocket(t *testing.T) {
	l, err := OpenPlain([]netip.Addr{loopback()}, Options{})
	require.NoError(t, err)
	require.NoError(t, l.socks[0].conn.Close())
	require.ErrorIs(t, l.Wait(-1), net.ErrClosed)
	_, err = l.Recv(make([]edge.RxPacket, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_ = l.Close()
}

func TestPlainNoAllocs(t *testing.T) {
	a, b := openPlain(t, loopback()), openPlain(t, loopback())
	p := &pair{path: &edge.Path{Src: a.addrs[0], Dst: b.addrs[0], HopLimit: 64}, rng: rand.New(rand.NewPCG(1, 1))}
	txs := []edge.TxPacket{p.packet(ib.RCSendOnly, 1, 100, 1)}
	rx := make([]edge.RxPacket, 8)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		a.Send(txs)
		for n := 0; n == 0; {
			var err error
			if n, err = b.Recv(rx); err != nil || n == 0 && b.Wait(-1) != nil {
				t.Fatal(err)
			}
		}
	}))
}

func TestPlainMark(t *testing.T) {
	a, b := openPlain(t, loopback()), openPlain(t, loopback())
	require.True(t, b.CaughtUp())
	p := &pair{path: &edge.Path{Src: a.addrs[0], Dst: b.addrs[0], HopLimit: 64}, rng: rand.New(rand.NewPCG(1, 1))}
	a.Send([]edge.TxPacket{p.packet(ib.RCSendOnly, 1, 100, 1)})
	require.NoError(t, b.Wait(-1))
	b.Mark()
	require.False(t, b.CaughtUp())
	n, err := b.Recv(make([]edge.RxPacket, 2))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, b.CaughtUp())
	require.ErrorIs(t, b.Join(netip.MustParseAddr("239.1.1.1"), b.addrs[0]), link.ErrUnsupported)
}
