package linktest

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what would otherwise hang; no test depends on its length.
const giveUp = 20 * time.Second

// Pair is two links that reach each other, from the first address of each.
type Pair struct {
	A, B link.Link
	// Hops is by how much the hop limit is smaller on arrival.
	Hops uint8
	// InB, if set, runs f where B can open sockets: in its network namespace.
	InB func(f func())
	// NeverResolves is an address on the network that nobody has, invalid if the
	// links cannot tell.
	NeverResolves netip.Addr
}

// Run runs the suite. open makes a new pair, which the test closes.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	for _, c := range []struct {
		name string
		f    func(t *testing.T, p Pair)
	}{
		{"getters", testGetters},
		{"single packets", testSingle},
		{"runs", testRuns},
		{"mixed runs", testMixed},
		{"both ways", testBothWays},
		{"traffic class", testTrafficClass},
		{"wrong ICRC", testWrongICRC},
		{"drops", testDrops},
		{"wake", testWake},
		{"close", testClose},
		{"no allocation", testNoAllocation},
		{"multicast", testMulticast},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t)
			t.Cleanup(func() {
				require.NoError(t, p.A.Close())
				require.NoError(t, p.B.Close())
			})
			c.f(t, p)
		})
	}
}

// NewPath returns a path from the first address of a to that of b.
func NewPath(a, b link.Link) *transport.Path {
	return &transport.Path{Src: a.Addrs()[0], Dst: b.Addrs()[0], SrcPort: 0xC123, HopLimit: 33}
}

// Packet makes a packet with a payload of n random bytes in up to four pieces.
func Packet(r *rand.Rand, path *transport.Path, n int) transport.TxPacket {
	tx := transport.TxPacket{Path: path, PayloadLen: uint16(n), Pad: uint8(-n & 3)}
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle, Pad: tx.Pad, PKey: ib.PKeyDefault, DestQP: 17, PSN: ib.PSN(r.Uint32()) & ib.PSNMask}}
	tx.HeaderLen = uint8(p.PutHeaders(tx.Header[:]))
	for left := n; left > 0; tx.NumFrags++ {
		k := left
		if tx.NumFrags < transport.MaxTxFrags-1 && left > 1 && r.IntN(2) == 0 {
			k = 1 + r.IntN(left)
		}
		f := make([]byte, k)
		for i := range f {
			f[i] = byte(r.Uint32())
		}
		tx.Frags[tx.NumFrags] = f
		left -= k
	}
	return tx
}

// Receive returns the next n packets of a link, copied.
func Receive(t testing.TB, l link.Link, n int) []transport.RxPacket {
	t.Helper()
	var out []transport.RxPacket
	batch := make([]transport.RxPacket, 7)
	end := time.Now().Add(giveUp)
	for len(out) < n {
		k, err := l.Recv(batch)
		require.NoError(t, err)
		for _, p := range batch[:k] {
			p.Data = append([]byte(nil), p.Data...)
			out = append(out, p)
		}
		if k == 0 {
			left := time.Until(end)
			require.Positive(t, left, "%d of %d packets arrived; %+v", len(out), n, l.Stats())
			require.NoError(t, l.Wait(int64(min(left, time.Second))))
		}
	}
	require.Len(t, out, n)
	return out
}

// Drive does what a device does for the sending side of a link until cond.
func Drive(t testing.TB, l link.Link, cond func() bool) {
	t.Helper()
	end := time.Now().Add(giveUp)
	for !cond() {
		require.True(t, time.Now().Before(end), "gave up: %+v", l.Stats())
		if l.Backlog() {
			l.Send(nil)
			continue
		}
		require.NoError(t, l.Wait(int64(10*time.Millisecond)))
	}
}

// sendAll sends the packets and waits until all have left.
func sendAll(t testing.TB, l link.Link, batch []transport.TxPacket) {
	t.Helper()
	before := l.Stats()
	l.Send(batch)
	Drive(t, l, func() bool {
		s := l.Stats()
		return s.TxPackets+s.TxDropped >= before.TxPackets+before.TxDropped+uint64(len(batch))
	})
}

// check sends packets from a to b, and compares.
func check(t testing.TB, a, b link.Link, hops uint8, batch []transport.TxPacket) {
	t.Helper()
	sendAll(t, a, batch)
	for i, rx := range Receive(t, b, len(batch)) {
		tx := &batch[i]
		require.Equal(t, tx.AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes], "packet %d", i)
		require.Equal(t, tx.Path.Src, rx.Src)
		require.Equal(t, tx.Path.Dst, rx.Dst)
		require.Equal(t, tx.Path.TrafficClass, rx.TrafficClass)
		require.Equal(t, tx.Path.HopLimit-hops, rx.HopLimit)
		want := uint16(ib.UDPPort)
		if a.Capabilities().SourcePort {
			want = tx.Path.SrcPort
		}
		require.Equal(t, want, rx.SrcPort)
	}
}

func testGetters(t *testing.T, p Pair) {
	for _, l := range []link.Link{p.A, p.B} {
		require.NotEmpty(t, l.Addrs())
		require.True(t, l.MTU().Valid())
		require.NotEmpty(t, l.Capabilities().Name)
		now := l.Now()
		require.GreaterOrEqual(t, l.Now(), now)
		n, err := l.Recv(make([]transport.RxPacket, 1))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Zero(t, l.Stats().RxPackets)
	}
}

// maxPayload is the payload of a full packet of the pair.
func (p *Pair) maxPayload() int { return min(p.A.MTU(), p.B.MTU()).Bytes() }

func testSingle(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(1, 1))
	path := NewPath(p.A, p.B)
	for _, n := range []int{0, 1, 2, 3, 4, 64, 255, 511, 512, 513, 1000, p.maxPayload()} {
		check(t, p.A, p.B, p.Hops, []transport.TxPacket{Packet(r, path, min(n, p.maxPayload()))})
	}
	require.Zero(t, p.B.Stats().RxICRC)
}

// Runs of packets of equal size, the last perhaps shorter, as messages make.
func testRuns(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(2, 2))
	path := NewPath(p.A, p.B)
	for _, n := range []int{0, 4, 64, 500, 516, 1024, p.maxPayload()} {
		n = min(n, p.maxPayload())
		for _, count := range []int{2, 15, 64, 65, 200} {
			batch := make([]transport.TxPacket, count)
			for i := range batch {
				batch[i] = Packet(r, path, n)
			}
			if n > 0 {
				batch[count-1] = Packet(r, path, r.IntN(n+1))
			}
			// Few enough bytes at a time for any receive buffer.
			for len(batch) > 0 {
				k := min(len(batch), 1+64<<10/(n+200))
				check(t, p.A, p.B, p.Hops, batch[:k])
				batch = batch[k:]
			}
		}
	}
	a, b := p.A.Stats(), p.B.Stats()
	require.Equal(t, a.TxPackets, b.RxPackets)
	require.Equal(t, a.TxBytes, b.RxBytes)
	require.Zero(t, b.RxICRC+b.RxShort+b.RxTruncated+b.RxMalformed)
	require.Zero(t, a.TxDropped+a.GSOFallbacks)
	if p.A.Capabilities().GSO {
		require.Less(t, a.TxDatagrams, a.TxPackets/4, "runs leave together")
	} else {
		require.Equal(t, a.TxDatagrams, a.TxPackets)
	}
}

// Any sizes on several paths in any order.
func testMixed(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(3, 3))
	paths := make([]*transport.Path, 3)
	for i := range paths {
		paths[i] = NewPath(p.A, p.B)
		paths[i].SrcPort += uint16(i)
		paths[i].TrafficClass = uint8(i) << 5
		paths[i].HopLimit += uint8(i)
	}
	sizes := []int{0, 4, 8, 100, 300, 600, p.maxPayload()}
	for range 60 {
		batch := make([]transport.TxPacket, 1+r.IntN(20))
		for i := range batch {
			batch[i] = Packet(r, paths[r.IntN(1+r.IntN(len(paths)))], sizes[r.IntN(1+r.IntN(len(sizes)))])
		}
		check(t, p.A, p.B, p.Hops, batch)
	}
}

func testBothWays(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(4, 4))
	ab, ba := NewPath(p.A, p.B), NewPath(p.B, p.A)
	for range 50 {
		check(t, p.A, p.B, p.Hops, []transport.TxPacket{Packet(r, ab, 100), Packet(r, ab, 100)})
		check(t, p.B, p.A, p.Hops, []transport.TxPacket{Packet(r, ba, 200), Packet(r, ba, 20)})
	}
}

// Every DSCP and ECN codepoint arrives as it was sent, by single packets and by runs.
func testTrafficClass(t *testing.T, p Pair) {
	if !p.A.Capabilities().ECN || !p.B.Capabilities().ECN {
		t.Skip("the link does not do traffic classes")
	}
	r := rand.New(rand.NewPCG(5, 5))
	for tc := range 256 {
		path := NewPath(p.A, p.B)
		path.TrafficClass = uint8(tc)
		check(t, p.A, p.B, p.Hops, []transport.TxPacket{Packet(r, path, 64), Packet(r, path, 64), Packet(r, path, 8)})
	}
}

// Packets with a wrong ICRC are dropped and counted; their neighbours in the
// run are not harmed.
func testWrongICRC(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(6, 6))
	path := NewPath(p.A, p.B)
	batch := make([]transport.TxPacket, 12)
	var good [][]byte
	for i := range batch {
		batch[i] = Packet(r, path, 256)
		if i%3 == 1 {
			batch[i].ICRCXor = 1 << r.IntN(32)
		} else {
			good = append(good, batch[i].AppendTo(nil))
		}
	}
	sendAll(t, p.A, batch)
	for i, rx := range Receive(t, p.B, len(good)) {
		require.Equal(t, good[i], rx.Data[:len(rx.Data)-ib.ICRCBytes])
	}
	require.EqualValues(t, len(batch)-len(good), p.B.Stats().RxICRC)
}

// Packets that can go nowhere are counted, and do not hold up others.
func testDrops(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(7, 7))
	foreign := NewPath(p.A, p.B)
	foreign.Src = foreign.Dst
	family := NewPath(p.A, p.B)
	family.Dst = netip.IPv6Loopback()
	if family.Src.Is6() {
		family.Dst = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	good := NewPath(p.A, p.B)
	batch := []transport.TxPacket{Packet(r, foreign, 10), Packet(r, good, 10), Packet(r, family, 10), Packet(r, good, 10)}
	sendAll(t, p.A, batch)
	Receive(t, p.B, 2)
	require.EqualValues(t, 2, p.A.Stats().TxDropped)
	if !p.NeverResolves.IsValid() {
		return
	}
	nobody := NewPath(p.A, p.B)
	nobody.Dst = p.NeverResolves
	lost := []transport.TxPacket{Packet(r, nobody, 10), Packet(r, nobody, 10)}
	p.A.Send(lost)
	check(t, p.A, p.B, p.Hops, []transport.TxPacket{Packet(r, good, 20)})
	Drive(t, p.A, func() bool { return p.A.Stats().TxUnreachable == 4 })
}

func testWake(t *testing.T, p Pair) {
	require.NoError(t, p.A.Wait(0), "nothing there")
	p.A.Wake()
	p.A.Wake()
	require.NoError(t, p.A.Wait(-1), "a wake before counts")
	start := p.A.Now()
	require.NoError(t, p.A.Wait(int64(20*time.Millisecond)))
	if !p.A.Capabilities().Virtual {
		require.GreaterOrEqual(t, p.A.Now()-start, int64(15*time.Millisecond), "two wakes are one")
	}
	done := make(chan error)
	for range 100 {
		go func() { done <- p.A.Wait(-1) }()
		p.A.Wake()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(giveUp):
			t.Fatal("Wake was lost")
		}
	}
	// A packet ends the wait, too.
	r := rand.New(rand.NewPCG(8, 8))
	sendAll(t, p.B, []transport.TxPacket{Packet(r, NewPath(p.B, p.A), 1)})
	Receive(t, p.A, 1)
}

func testClose(t *testing.T, p Pair) {
	require.NoError(t, p.A.Close())
	require.NoError(t, p.A.Close())
	_, err := p.A.Recv(make([]transport.RxPacket, 1))
	require.ErrorIs(t, err, link.ErrClosed)
	require.True(t, errors.Is(err, net.ErrClosed))
	require.ErrorIs(t, p.A.Wait(-1), link.ErrClosed)
	p.A.Wake()
	p.A.Stats()
	p.A.Capabilities()
}

func testNoAllocation(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(9, 9))
	path := NewPath(p.A, p.B)
	n := min(1024, p.maxPayload())
	batch := make([]transport.TxPacket, 20)
	for i := range batch {
		batch[i] = Packet(r, path, n)
	}
	rx := make([]transport.RxPacket, 64)
	round := func() {
		p.A.Send(batch)
		got := 0
		for tries := 0; got < len(batch) && tries < 1e6; tries++ {
			if p.A.Backlog() {
				p.A.Send(nil)
			}
			k, err := p.B.Recv(rx)
			if err != nil {
				panic(err)
			}
			if k == 0 {
				if err := p.B.Wait(int64(time.Second)); err != nil {
					panic(err)
				}
			}
			got += k
		}
		if got != len(batch) {
			panic("packets were lost")
		}
	}
	check(t, p.A, p.B, p.Hops, batch) // warm up: buffers, neighbours
	require.Zero(t, testing.AllocsPerRun(50, round))
}

func testMulticast(t *testing.T, p Pair) {
	if p.InB == nil {
		p.InB = func(f func()) { f() }
	}
	m, ok := link.As[link.Multicaster](p.B)
	if !ok {
		t.Skip("the link does not do multicast")
	}
	r := rand.New(rand.NewPCG(10, 10))
	path := NewPath(p.A, p.B)
	group, other := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("239.1.2.4")
	if path.Src.Is6() {
		group, other = netip.MustParseAddr("ff15::1:2"), netip.MustParseAddr("ff15::1:3")
	}
	local := p.B.Addrs()[0]
	require.Error(t, m.Join(local, local), "not a group")
	require.Error(t, m.Join(group, p.A.Addrs()[0]), "not a local address")
	require.Error(t, m.Leave(group, local), "not joined")
	p.InB(func() {
		require.NoError(t, m.Join(group, local))
		require.NoError(t, m.Join(group, local))
	})
	require.NoError(t, m.Leave(group, local))
	require.NoError(t, p.B.Wait(0))
	to, elsewhere := *path, *path
	to.Dst, elsewhere.Dst = group, other
	batch := []transport.TxPacket{Packet(r, &elsewhere, 9), Packet(r, &to, 10), Packet(r, &to, 10), Packet(r, &elsewhere, 9), Packet(r, &to, 4)}
	sendAll(t, p.A, batch)
	for i, rx := range Receive(t, p.B, 3) {
		require.Equal(t, batch[[]int{1, 2, 4}[i]].AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes])
		require.Equal(t, group, rx.Dst)
	}
	require.NoError(t, m.Leave(group, local))
	require.Error(t, m.Leave(group, local), "left already")
	sendAll(t, p.A, batch[1:2])
	check(t, p.A, p.B, p.Hops, []transport.TxPacket{Packet(r, path, 5)})
}
