package udp

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

var nextAddr atomic.Uint32

// loopback returns an address of 127/8 of this process's own.
func loopback() netip.Addr {
	h := fnv.New32a()
	_ = binary.Write(h, binary.LittleEndian, int64(os.Getpid())+1<<32)
	n := h.Sum32()>>16<<8 | nextAddr.Add(1)&0xFF
	return netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n)})
}

func open(t testing.TB, a netip.Addr, o Options) *Link {
	l, err := Open([]netip.Addr{a}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

type pair struct {
	a, b *Link
	path *edge.Path
	rng  *rand.Rand
}

func newPair(t testing.TB, oa, ob Options) *pair {
	x, y := loopback(), loopback()
	return &pair{
		a: open(t, x, oa), b: open(t, y, ob), rng: rand.New(rand.NewPCG(1, 1)),
		path: &edge.Path{Src: x, Dst: y, HopLimit: 64},
	}
}

// packet makes a packet of n payload bytes in the given number of fragments.
func (p *pair) packet(op ib.Opcode, psn, n, frags int) edge.TxPacket {
	tx := edge.TxPacket{Path: p.path, PayloadLen: uint16(n), Pad: uint8(ib.PadFor(n))}
	h := ib.Packet{BTH: ib.BTH{Opcode: op, PSN: ib.PSN(psn), Pad: tx.Pad, DestQP: 77}}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(p.rng.Uint32())
	}
	for i := range frags {
		k := len(data) / (frags - i)
		tx.Frags[i], data = data[:k], data[k:]
	}
	tx.NumFrags = uint8(frags)
	return tx
}

// transfer sends packets and requires that the same bytes arrive, in order.
func (p *pair) transfer(t testing.TB, txs []edge.TxPacket) {
	p.a.Send(txs)
	for p.a.Blocked() {
		require.NoError(t, p.a.Wait(-1))
		p.a.Send(nil)
	}
	p.expect(t, txs)
}

func (p *pair) expect(t testing.TB, txs []edge.TxPacket) {
	rx := make([]edge.RxPacket, 7) // small, so that datagrams are split over calls
	bad := p.b.Stats().RxICRC
	for i := 0; i < len(txs); {
		n, err := p.b.Recv(rx)
		require.NoError(t, err)
		if n == 0 {
			require.Equal(t, bad, p.b.Stats().RxICRC)
			require.NoError(t, p.b.Wait(-1))
			continue
		}
		for _, r := range rx[:n] {
			require.Equal(t, txs[i].AppendTo(nil), r.Data[:len(r.Data)-ib.ICRCBytes], "packet %d", i)
			require.Equal(t, p.path.Src, r.Src)
			require.Equal(t, p.path.Dst, r.Dst)
			require.Equal(t, p.path.TrafficClass, r.TrafficClass)
			require.Equal(t, p.path.HopLimit, r.HopLimit)
			i++
		}
	}
}

// train is a mix of runs that can and cannot be segmented.
func (p *pair) train() []edge.TxPacket {
	var txs []edge.TxPacket
	add := func(op ib.Opcode, n, frags int) {
		txs = append(txs, p.packet(op, len(txs), n, frags))
	}
	for _, mtu := range []int{256, 1024, 4096} {
		add(ib.RCWriteFirst, mtu, 1)
		for i := range 40 {
			add(ib.RCWriteMiddle, mtu, 1+i%edge.MaxTxFrags)
		}
		add(ib.RCWriteLast, 3, 1)
	}
	for i := range 200 {
		add(ib.RCSendOnly, 64, 1)
		add(ib.RCSendOnly, i, min(i, 2))
		add(ib.RCAcknowledge, 0, 0)
	}
	return txs
}

func TestTransfer(t *testing.T) {
	for _, o := range []Options{
		{}, {DisableGSO: true}, {DisableGRO: true}, {DisableGSO: true, DisableGRO: true}, {RxBuffers: 1},
		{RxBuffers: 32},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			p := newPair(t, o, o)
			txs := p.train()
			p.transfer(t, txs)
			s := p.a.Stats()
			require.EqualValues(t, len(txs), s.TxPackets)
			if o.DisableGSO {
				require.Equal(t, s.TxPackets, s.TxDatagrams)
			} else {
				require.Less(t, s.TxDatagrams, s.TxPackets*3/4)
				require.True(t, p.a.Capabilities().GSO)
			}
			r := p.b.Stats()
			require.EqualValues(t, len(txs), r.RxPackets)
			require.Equal(t, s.TxBytes, r.RxBytes)
			require.Zero(t, s.GSOFallbacks+s.TxDropped+r.RxICRC+r.RxShort+r.RxTruncated)
		})
	}
}

// An answer and an ACK are one datagram: of one connection, of two to one peer, and of each of
// several peers whose answers leave together.
func TestAnswersWithAcks(t *testing.T) {
	const peers = 4
	a := open(t, loopback(), Options{})
	var bs [peers]*Link
	var batch []edge.TxPacket
	for i := range bs {
		bs[i] = open(t, loopback(), Options{})
		p := &pair{a: a, b: bs[i], rng: rand.New(rand.NewPCG(1, 1))}
		answer := edge.Path{Src: a.Addrs()[0], Dst: bs[i].Addrs()[0], HopLimit: 64}
		ack := answer
		p.path = &answer
		batch = append(batch, p.packet(ib.RCSendOnly, i, 128, 1))
		if i%2 == 0 {
			p.path = &ack
		}
		batch = append(batch, p.packet(ib.RCAcknowledge, i, 0, 0))
	}
	before := a.Stats()
	a.Send(batch)
	require.EqualValues(t, peers, a.Stats().TxDatagrams-before.TxDatagrams)
	require.EqualValues(t, 2*peers, a.Stats().TxPackets-before.TxPackets)
	for i, b := range bs {
		got := receiveAll(t, b, 2)
		for k, rx := range got {
			require.Equal(t, batch[2*i+k].AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes])
		}
		require.Zero(t, b.Stats().RxICRC)
	}
}

func TestTrafficClassAndHopLimit(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	for _, tc := range []uint8{0, 2, 0x68 | edge.ECT0, 0xC0} {
		// The state of a path is made anew when the engine clears it.
		p.path.TrafficClass, p.path.HopLimit, p.path.Link = tc, 64-tc>>2, nil
		p.transfer(t, p.train()[:60])
	}
}

func TestSegmentationRefused(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EIO, unix.EINVAL} {
		t.Run(errno.Error(), func(t *testing.T) {
			p := newPair(t, Options{}, Options{})
			p.a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
				for i := range msgs {
					if msgs[i].Hdr.Controllen > 0 {
						if i > 0 {
							return sockio.Send(fd, msgs[:i])
						}
						return 0, errno
					}
				}
				return sockio.Send(fd, msgs)
			}
			txs := p.train()
			p.transfer(t, txs)
			require.False(t, p.a.Capabilities().GSO)
			require.NotZero(t, p.a.Stats().GSOFallbacks)
			before := p.a.Stats().TxDatagrams
			p.transfer(t, txs)
			require.EqualValues(t, len(txs), p.a.Stats().TxDatagrams-before)
		})
	}
}

// The kernel itself refuses too many segments; the link falls back to what
// older kernels take, and keeps segmenting.
func TestTooManySegments(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	p.a.tx.MaxSegs = 250
	var txs []edge.TxPacket
	for i := range 250 {
		txs = append(txs, p.packet(ib.RCSendOnly, i, 64, 1))
	}
	p.transfer(t, txs)
	require.Equal(t, sockio.MaxSegmentsOld, p.a.tx.MaxSegs)
	require.True(t, p.a.Capabilities().GSO)
	p.transfer(t, txs)
	require.EqualValues(t, 1, p.a.Stats().GSOFallbacks)
}

// A full socket: packets wait, in order, and go out when there is room; also
// when segmentation is refused meanwhile.
func TestBacklog(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			p := newPair(t, Options{}, Options{})
			full := 5
			p.a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
				if full > 0 {
					full--
					return 0, unix.EAGAIN
				}
				full = 2
				if refuse && msgs[0].Hdr.Controllen > 0 {
					full = 0
					return 0, unix.EIO
				}
				return sockio.Send(fd, msgs[:1])
			}
			txs := p.train()[:200]
			p.a.Send(txs[:100])
			require.True(t, p.a.Blocked())
			p.a.Send(txs[100:]) // not what a device does, but allowed
			for p.a.Blocked() {
				p.a.Send(nil)
			}
			p.expect(t, txs)
			require.NotZero(t, p.a.Stats().TxBlocked)
			require.Zero(t, p.a.Stats().TxDropped)
		})
	}
}

func TestBacklogBounded(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	p.a.tx.Sendmmsg = func(int, []sockio.Mmsghdr) (int, unix.Errno) { return 0, unix.EAGAIN }
	txs := p.train()
	for range 40 {
		p.a.Send(txs)
	}
	require.LessOrEqual(t, p.a.tx.Waiting(), transmit.BacklogBytes)
	require.NotZero(t, p.a.Stats().TxDropped)
}

func TestSendErrorsAreDrops(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	fail := unix.ENOBUFS
	p.a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
		if fail != 0 {
			return 0, fail
		}
		return sockio.Send(fd, msgs)
	}
	txs := p.train()[:50]
	p.a.Send(txs)
	require.EqualValues(t, 50, p.a.Stats().TxDropped)
	require.False(t, p.a.Blocked())
	fail = 0
	p.transfer(t, txs)
	// A path that no socket serves.
	p.path.Src, p.path.Link = loopback(), nil
	p.a.Send(txs)
	require.EqualValues(t, 100, p.a.Stats().TxDropped)
}

// Whatever arrives on the port: no packet with a wrong ICRC is handed up, and nothing breaks.
func TestGarbage(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Port: ib.UDPPort, Addr: p.path.Dst.As4()}
	sizes := []int{0, 1, 11, 12, 15, 16, 17, 100, 4096, ib.MaxPacketBytes, ib.MaxPacketBytes + 1, 65507}
	for _, n := range sizes {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(p.rng.Uint32())
		}
		if n > 5 {
			b[5] = 0 // for this slot; what is for others the kernel drops
		}
		require.NoError(t, unix.Sendto(fd, b, 0, to))
	}
	rx := make([]edge.RxPacket, 16)
	count := func() uint64 {
		s := p.b.Stats()
		return s.RxICRC + s.RxShort + s.RxTruncated
	}
	for count() < uint64(len(sizes)) {
		n, err := p.b.Recv(rx)
		require.NoError(t, err)
		require.Zero(t, n)
		if count() < uint64(len(sizes)) {
			require.NoError(t, p.b.Wait(-1))
		}
	}
	p.transfer(t, p.train())
}

func TestWake(t *testing.T) {
	l := open(t, loopback(), Options{})
	l.Wake() // counts though nobody waits
	require.NoError(t, l.Wait(-1))
	require.NoError(t, l.Wait(0), "the wake is used up, but the time is over at once")
	// Every Wake ends a Wait, whatever the interleaving.
	const rounds = 2000
	ack := make(chan struct{})
	go func() {
		for range rounds {
			if l.Wait(-1) != nil {
				break
			}
			ack <- struct{}{}
		}
		close(ack)
	}()
	for range rounds {
		l.Wake()
		<-ack
	}
}

func TestClosed(t *testing.T) {
	l := open(t, loopback(), Options{})
	require.NoError(t, l.Close())
	_, err := l.Recv(make([]edge.RxPacket, 1))
	require.ErrorIs(t, err, link.ErrClosed)
	require.ErrorIs(t, l.Wait(-1), link.ErrClosed)
	l.Wake()
	_ = l.Capabilities()
	require.NoError(t, l.Close())
	require.Error(t, l.Join(netip.MustParseAddr("239.1.1.1"), l.Addrs()[0]))
}

func TestNoAllocs(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	txs := p.train()
	rx := make([]edge.RxPacket, 128)
	once := func() {
		p.a.Send(txs)
		for got := 0; got < len(txs); {
			n, err := p.b.Recv(rx)
			if err != nil {
				t.Fatal(err)
			}
			got += n
			if n == 0 && p.b.Wait(-1) != nil {
				t.Fatal("wait")
			}
		}
	}
	once()
	require.Zero(t, testing.AllocsPerRun(50, once))
}

func FuzzControl(f *testing.F) {
	var b [rxControl]byte
	rest := putCmsg(b[:], unix.SOL_UDP, unix.UDP_GRO, 4112, 4)
	putCmsg(rest, unix.IPPROTO_IP, unix.IP_TOS, 2, 4)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) { parseControl(b) })
}

func TestControl(t *testing.T) {
	var b [rxControl]byte
	rest := putCmsg(b[:], unix.SOL_UDP, unix.UDP_GRO, 4112, 4)
	rest = putCmsg(rest, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 0x6A, 4)
	rest = putCmsg(rest, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, 7, 4)
	all := b[:len(b)-len(rest)]
	require.Equal(t, rxInfo{segment: 4112, tclass: 0x6A, ttl: 7}, parseControl(all))
	for n := range all {
		parseControl(all[:n:n])
	}
}

func TestName(t *testing.T) {
	for _, s := range []string{"127.0.0.1", "10.1.2.3", "::1", "fd00::1:2", "fe80::1"} {
		var n rawName
		a := netip.MustParseAddr(s)
		n.set(a, 0xABCD, 5)
		got, port := n.get()
		require.Equal(t, a, got)
		require.EqualValues(t, 0xABCD, port)
	}
}

// The room that the link tells is there, with the buffers of a user without privileges.
func TestRoom(t *testing.T) {
	for _, o := range []Options{{}, {DisableGRO: true, DisableGSO: true}} {
		o.SocketBufferBytes = 208 << 10
		linktest.RunRoom(t, linktest.Pair{A: open(t, loopback(), o), B: open(t, loopback(), o)})
	}
}
