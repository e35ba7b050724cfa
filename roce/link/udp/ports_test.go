package udp

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Paths leave by several ports, each always by the same, and what is sent on one path
// arrives in order; with the right ICRC, which covers the port.
func TestSourcePorts(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	for _, ab := range [][2]netip.Addr{{n.A4, n.B4}, {n.A6, n.B6}} {
		var a, b *Link
		n.A.Do(func() { a = open(t, ab[0], Options{}) })
		n.B.Do(func() { b = open(t, ab[1], Options{}) })
		p := &pair{a: a, b: b}
		var batch []edge.TxPacket
		const paths, each = 64, 4
		for k := range each {
			for i := range paths {
				path := &edge.Path{Src: ab[0], Dst: ab[1], HopLimit: 64, SrcPort: ib.SourcePort(uint32(i * 7919))}
				if k > 0 {
					path = batch[i].Path
				}
				p.path = path
				batch = append(batch, p.to(77, []byte{byte(i), byte(k), 0, 0}))
			}
		}
		used := 0 // times that another socket sends; a signal may divide what one of them does into several calls
		last := -1
		a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
			if fd != last {
				last = fd
				used++
			}
			return sockio.Send(fd, msgs)
		}
		a.Send(batch)
		require.LessOrEqual(t, used, sendPorts, "each once")
		ports := map[uint16]bool{}
		next := map[byte]byte{}
		for _, rx := range receiveAll(t, b, len(batch)) {
			i, k := rx.Data[ib.BTHBytes], rx.Data[ib.BTHBytes+1]
			require.Equal(t, next[i], k, "in order")
			next[i]++
			require.GreaterOrEqual(t, rx.SrcPort, uint16(firstPort))
			require.Equal(t, a.SourcePort(batch[i].Path), rx.SrcPort)
			ports[rx.SrcPort] = true
		}
		require.Len(t, ports, sendPorts)
		require.Zero(t, b.Stats().RxICRC+b.Stats().RxSolved)

		// Those that are light leave from one of these, together.
		for i := range batch {
			batch[i].Path.Light, batch[i].Path.Link = true, nil
		}
		sent := a.Stats().TxDatagrams
		used, last = 0, -1
		a.Send(batch)
		require.Equal(t, 1, used)
		require.Less(t, a.Stats().TxDatagrams-sent, uint64(2*len(batch)/sockio.MaxSegments+each))
		for _, rx := range receiveAll(t, b, len(batch)) {
			require.Equal(t, a.SourcePort(batch[0].Path), rx.SrcPort)
			require.True(t, ports[rx.SrcPort])
		}

		// Multicast, and a path that says nothing, leave from the port of the link.
		require.EqualValues(t, ib.UDPPort, a.SourcePort(&edge.Path{Src: ab[0], Dst: ab[1]}))
		group := netip.MustParseAddr("239.1.2.3")
		if ab[0].Is6() {
			group = netip.MustParseAddr("ff15::1")
		}
		require.EqualValues(t, ib.UDPPort, a.SourcePort(&edge.Path{Src: ab[0], Dst: group, SrcPort: 0xC123}))
		require.EqualValues(t, ib.UDPPort, a.SourcePort(&edge.Path{Src: ab[1], Dst: ab[0]}), "no path of this link")

		var plain *Link
		n.A.Do(func() { plain = open(t, ab[0], Options{DisableSourcePorts: true}) })
		require.EqualValues(t, ib.UDPPort, plain.SourcePort(&edge.Path{Src: ab[0], Dst: ab[1], SrcPort: 0xC123}))
	}
}

func receiveAll(t testing.TB, l *Link, n int) (all []edge.RxPacket) {
	t.Helper()
	for len(all) < n {
		require.NoError(t, l.Wait(-1))
		all = append(all, drain(t, l)...)
	}
	return all
}

// A socket that would not take more is the one that is waited for, whichever it is; the others
// could take something at any time.
func TestBlockedPort(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	var a *Link
	n.A.Do(func() { a = open(t, n.A4, Options{}) })
	p := &pair{a: a, path: &edge.Path{Src: n.A4, Dst: n.B4, HopLimit: 64, SrcPort: 0xC003}}
	a.tx.Sendmmsg = func(fd int, _ []sockio.Mmsghdr) (int, unix.Errno) { return 0, unix.EAGAIN }
	a.Send([]edge.TxPacket{p.to(77, nil)})
	require.True(t, a.Blocked())
	require.EqualValues(t, a.tx.RouteOf(p.path).FD, a.tx.Full.Load())
	require.NotEqual(t, a.socks[0].fd, int(a.tx.Full.Load()))
	require.NoError(t, a.Wait(-1), "it can take more: nobody has filled it")
}
