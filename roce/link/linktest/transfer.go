package linktest

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// awaited are packets that were sent, by their contents, and the order of those of each path.
type awaited struct {
	sent map[string][]*edge.TxPacket
	left map[*edge.Path][]*edge.TxPacket
}

func await(batch []edge.TxPacket) *awaited {
	w := &awaited{map[string][]*edge.TxPacket{}, map[*edge.Path][]*edge.TxPacket{}}
	for i := range batch {
		tx := &batch[i]
		content := string(tx.AppendTo(nil))
		w.sent[content] = append(w.sent[content], tx)
		w.left[tx.Path] = append(w.left[tx.Path], tx)
	}
	return w
}

// takeNext takes the packet with the content that is the next of its path, nil if there is none.
func (w *awaited) takeNext(content []byte) *edge.TxPacket {
	for _, tx := range w.sent[string(content)] {
		if queue := w.left[tx.Path]; len(queue) > 0 && queue[0] == tx {
			w.left[tx.Path] = queue[1:]
			return tx
		}
	}
	return nil
}

// check sends packets from a to b, and compares. Those of one path stay in order; paths of
// several source ports are flows of their own, and one may overtake another.
func check(t testing.TB, a, b link.Link, hops uint8, batch []edge.TxPacket) {
	t.Helper()
	SendAll(t, a, batch)
	sent := await(batch)
	for i, rx := range Receive(t, b, len(batch)) {
		tx := sent.takeNext(rx.Data[:len(rx.Data)-ib.ICRCBytes])
		require.NotNil(t, tx, "packet %d that came is the next of no path: %x", i, rx.Data)
		require.Equal(t, tx.Path.Src, rx.Src)
		require.Equal(t, tx.Path.Dst, rx.Dst)
		require.Equal(t, tx.Path.TrafficClass, rx.TrafficClass)
		require.Equal(t, tx.Path.HopLimit-hops, rx.HopLimit)
		require.Equal(t, a.SourcePort(tx.Path), rx.SrcPort)
	}
}

func testSingle(t *testing.T, p Pair) {
	since := countersOf(p.B)
	r := rand.New(rand.NewPCG(1, 1))
	path := NewPath(p.A, p.B)
	for _, n := range []int{0, 1, 2, 3, 4, 64, 255, 511, 512, 513, 1000, p.maxPayload()} {
		check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, path, min(n, p.maxPayload()))})
	}
	require.Zero(t, since().RxICRC)
}

// Runs of packets of equal size, the last perhaps shorter, as messages make.
func testRuns(t *testing.T, p Pair) {
	sinceA, sinceB := countersOf(p.A), countersOf(p.B)
	r := rand.New(rand.NewPCG(2, 2))
	path := NewPath(p.A, p.B)
	for _, n := range []int{0, 4, 64, 500, 516, 1024, p.maxPayload()} {
		n = min(n, p.maxPayload())
		for _, count := range []int{2, 15, 64, 65, 200} {
			batch := make([]edge.TxPacket, count)
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
	a, b := sinceA(), sinceB()
	require.Equal(t, a.TxPackets, b.RxPackets)
	require.Equal(t, a.TxBytes, b.RxBytes)
	require.Zero(t, b.RxICRC+b.RxShort+b.RxTruncated+b.RxMalformed)
	require.Zero(t, a.TxDropped)
	if !NoRuns(t, p.A) {
		require.Zero(t, a.GSOFallbacks)
	}
	if p.A.Capabilities().GSO {
		require.Less(t, a.TxDatagrams, a.TxPackets/4, "runs leave together")
	} else {
		require.Equal(t, a.TxDatagrams, a.TxPackets)
	}
}

// Any sizes on several paths in any order.
func testMixed(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(3, 3))
	paths := make([]*edge.Path, 3)
	for i := range paths {
		paths[i] = NewPath(p.A, p.B)
		paths[i].SrcPort += uint16(i)
		paths[i].TrafficClass = uint8(i) << 5
		paths[i].HopLimit += uint8(i)
	}
	sizes := []int{0, 4, 8, 100, 300, 600, p.maxPayload()}
	for range 60 {
		batch := make([]edge.TxPacket, 1+r.IntN(20))
		for i := range batch {
			batch[i] = Packet(r, paths[r.IntN(1+r.IntN(len(paths)))], sizes[r.IntN(1+r.IntN(len(sizes)))])
		}
		check(t, p.A, p.B, p.Hops, batch)
	}
}

// Many queue pairs send to one peer by the same port, a few packets each, as requests and
// answers of many connections do: they share datagrams, and those of each path stay in order.
func testManyPaths(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(6, 6))
	paths := make([]*edge.Path, 100)
	for i := range paths {
		paths[i] = NewPath(p.A, p.B)
		if paths[i].Dst.Is4() {
			paths[i].FlowLabel = uint32(i) // connections have one; IPv4 has no place for it
		}
	}
	testShared(t, p, r, paths)
	for i := range paths { // what is light shares, whichever port and label it would have
		paths[i] = NewPath(p.A, p.B)
		paths[i].SrcPort += uint16(i)
		paths[i].FlowLabel, paths[i].Light = uint32(i), true
	}
	testShared(t, p, r, paths)
}

func testShared(t *testing.T, p Pair, r *rand.Rand, paths []*edge.Path) {
	check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, paths[0], 8)})
	since := countersOf(p.A)
	for range times(20) {
		var batch []edge.TxPacket
		for _, path := range paths {
			batch = append(batch, Packet(r, path, 1000))
			switch r.IntN(4) {
			case 0: // a message of several packets
				batch = append(batch, Packet(r, path, 1000), Packet(r, path, r.IntN(1000)))
			case 1: // and an ACK
				batch = append(batch, Packet(r, path, 0))
			}
		}
		for len(batch) > 0 { // few enough for any receive buffer
			k := min(len(batch), 60)
			check(t, p.A, p.B, p.Hops, batch[:k])
			batch = batch[k:]
		}
	}
	if a := since(); p.A.Capabilities().GSO {
		require.Less(t, a.TxDatagrams, a.TxPackets/4, "they leave together")
	}
}

func testBothWays(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(4, 4))
	ab, ba := NewPath(p.A, p.B), NewPath(p.B, p.A)
	for range 50 {
		check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, ab, 100), Packet(r, ab, 100)})
		check(t, p.B, p.A, p.Hops, []edge.TxPacket{Packet(r, ba, 200), Packet(r, ba, 20)})
	}
}

// Every DSCP and ECN codepoint arrives as it was sent, by single packets and by runs.
func testTrafficClass(t *testing.T, p Pair) {
	require.True(t, p.A.Capabilities().ECN && p.B.Capabilities().ECN, "the links say so")
	r := rand.New(rand.NewPCG(5, 5))
	for tc := range 256 {
		path := NewPath(p.A, p.B)
		path.TrafficClass = uint8(tc)
		check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, path, 64), Packet(r, path, 64), Packet(r, path, 8)})
	}
}
