package sim

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func addr(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }

// host is a link whose packets a test looks at.
type host struct {
	*Link
	got   []edge.RxPacket
	times []int64
}

func newHost(t testing.TB, f *Fabric, i byte) *host {
	l, err := f.Link(addr(i))
	require.NoError(t, err)
	h := &host{Link: l}
	l.Attach(h.progress)
	return h
}

func (h *host) progress() {
	var rx [4]edge.RxPacket
	for {
		n, err := h.Recv(rx[:])
		if n == 0 || err != nil {
			return
		}
		for _, p := range rx[:n] {
			p.Data = append([]byte(nil), p.Data...)
			h.got = append(h.got, p)
			h.times = append(h.times, h.Now())
		}
	}
}

// send sends n packets of size payload bytes to host i.
func (h *host) send(to byte, n, size int, tclass uint8) {
	path := &edge.Path{Src: h.addrs[0], Dst: addr(to), TrafficClass: tclass, HopLimit: 64}
	txs := make([]edge.TxPacket, n)
	for i := range txs {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: ib.PSN(i)}}
		txs[i].Path = path
		txs[i].HeaderLen = uint8(p.PutHeaders(txs[i].Header[:]))
		txs[i].PayloadLen = uint16(size)
		txs[i].NumFrags = 1
		txs[i].Frags[0] = make([]byte, size)
	}
	h.Send(txs)
}

func run(f *Fabric) { f.Run(func() bool { return false }) }

// psns returns the PSNs in the order of arrival.
func (h *host) psns() (out []int) {
	for _, p := range h.got {
		out = append(out, int(p.Data[9])<<16|int(p.Data[10])<<8|int(p.Data[11]))
	}
	return out
}

func TestLatency(t *testing.T) {
	f := New(Config{Up: Pipe{Latency: 300}, Down: Pipe{Latency: 500}})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	a.send(2, 1, 100, 0)
	run(f)
	require.Equal(t, []int64{800}, b.times)
	require.Equal(t, addr(1), b.got[0].Src)
	require.Equal(t, addr(2), b.got[0].Dst)
}

// At 1 Gb/s a byte takes 8 ns; packets of the same host follow each other.
func TestRate(t *testing.T) {
	f := New(Config{Up: Pipe{Latency: -1}, Down: Pipe{BitsPerSecond: 1e9, Latency: 1000}})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	a.send(2, 3, 1000, 0)
	run(f)
	wire := int64(1000 + ib.BTHBytes + ib.ICRCBytes + 28 + ethernetBytes)
	require.Equal(t, []int64{wire*8 + 1000, wire*16 + 1000, wire*24 + 1000}, b.times)
}

// Packets of a route pass its trunks one after the other, share the slowest, and take the time of
// each; other packets do not.
func TestRoute(t *testing.T) {
	f := New(Config{Up: Pipe{Latency: -1}, Down: Pipe{Latency: -1}})
	a, b, c := newHost(t, f, 1), newHost(t, f, 2), newHost(t, f, 3)
	slow := f.NewTrunk(Pipe{BitsPerSecond: 1e9, Latency: 500, Mark: func(m MarkInput) bool { return m.QueueBytes > 0 }})
	far := f.NewTrunk(Pipe{Latency: 10_000})
	f.Route(addr(1), addr(2), slow, far)
	f.Route(addr(3), addr(2), slow)
	a.send(2, 2, 1000, edge.ECT0)
	c.send(2, 1, 1000, edge.ECT0)
	b.send(1, 1, 1000, edge.ECT0)
	run(f)
	wire := int64(1000 + ib.BTHBytes + ib.ICRCBytes + 28 + ethernetBytes)
	require.Equal(t, []int64{wire*8 + 10_500, wire*24 + 500, wire*16 + 10_500}, b.times, "in the order of arrival")
	require.Equal(t, []int64{0}, a.times, "the way back has no route")
	s := slow.QueueStats()
	require.EqualValues(t, 3, s.Packets)
	require.EqualValues(t, 2, s.Marked)
	require.Equal(t, int(3*wire), s.PeakBytes)
	slow.ResetQueue()
	require.Zero(t, slow.QueueStats().Packets)
	f.Route(addr(1), addr(2))
	a.send(2, 1, 1000, 0)
	at := f.Now()
	run(f)
	require.Equal(t, at, b.times[3])
}

// A trunk that becomes slower and longer: what waits takes longer, what is on the cable does not.
func TestTrunkChanges(t *testing.T) {
	f := New(Config{Up: Pipe{Latency: -1}, Down: Pipe{Latency: -1}})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	trunk := f.NewTrunk(Pipe{BitsPerSecond: 1e9, Latency: 50_000, QueueBytes: 4000})
	f.Route(addr(1), addr(2), trunk)
	a.send(2, 3, 1000, 0)
	wire := int64(1000 + ib.BTHBytes + ib.ICRCBytes + 28 + ethernetBytes)
	f.At(wire*8+1, func() {
		trunk.Change(Pipe{BitsPerSecond: 1e8, Latency: 70_000, QueueBytes: 4000})
		a.send(2, 3, 1000, 0)
	})
	run(f)
	slow := 10*(wire*16-1) + wire*8 + 1 + 70_000
	require.Equal(t, []int64{wire*8 + 50_000, slow - 80*wire, slow, slow + 80*wire}, b.times)
	require.EqualValues(t, 2, f.Stats().Overflowed, "the queue is of bytes")
}

func TestQueueOverflowAndMarks(t *testing.T) {
	var queues []int
	f := New(Config{Down: Pipe{
		BitsPerSecond: 1e9, QueueBytes: 5000,
		Mark: func(m MarkInput) bool {
			queues = append(queues, m.QueueBytes)
			return m.QueueBytes > 2000
		},
	}})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	a.send(2, 10, 1000, edge.ECT0)
	run(f)
	s := f.Stats()
	require.EqualValues(t, 10, s.Sent)
	require.NotZero(t, s.Overflowed)
	require.EqualValues(t, 10, s.Delivered+s.Overflowed)
	require.Len(t, queues, len(b.got), "packets that are dropped are not marked")
	marked := 0
	for i, p := range b.got {
		require.Equal(t, queues[i] > 2000, p.TrafficClass&edge.ECNMask == edge.ECNCE)
		if queues[i] > 2000 {
			marked++
		}
	}
	require.EqualValues(t, marked, s.Marked)
	require.NotZero(t, marked)
	_, peak := b.QueuePeak()
	require.LessOrEqual(t, peak, 5000)

	// Packets without ECT are never marked.
	b.got = nil
	a.send(2, 3, 1000, 0)
	run(f)
	require.Equal(t, s.Marked, f.Stats().Marked)
}

func TestFaults(t *testing.T) {
	const n = 2000
	near := func(t *testing.T, want float64, got uint64) {
		require.InDelta(t, want, float64(got), n*0.03)
	}
	t.Run("loss", func(t *testing.T) {
		f := New(Config{Seed: 1, Faults: Faults{Loss: 0.2}})
		a, b := newHost(t, f, 1), newHost(t, f, 2)
		a.send(2, n, 10, 0)
		run(f)
		near(t, n*0.2, f.Stats().Lost)
		require.Len(t, b.got, n-int(f.Stats().Lost))
	})
	t.Run("duplicate", func(t *testing.T) {
		f := New(Config{Seed: 1, Faults: Faults{Duplicate: 0.2}})
		a, b := newHost(t, f, 1), newHost(t, f, 2)
		a.send(2, n, 10, 0)
		run(f)
		near(t, n*0.2, f.Stats().Duplicated)
		require.Len(t, b.got, n+int(f.Stats().Duplicated))
	})
	t.Run("corrupt", func(t *testing.T) {
		f := New(Config{Seed: 1, Faults: Faults{Corrupt: 0.2}})
		a, b := newHost(t, f, 1), newHost(t, f, 2)
		a.send(2, n, 100, 0)
		run(f)
		near(t, n*0.2, f.Stats().Corrupted)
		s := b.Stats()
		// All but those that were hit in the one byte that the ICRC masks.
		require.InDelta(t, float64(f.Stats().Corrupted), float64(s.RxICRC), n*0.01)
		require.EqualValues(t, n, s.RxICRC+s.RxPackets)
	})
	t.Run("reorder", func(t *testing.T) {
		f := New(Config{Seed: 1, Faults: Faults{Reorder: 0.2, ReorderDelay: 50}})
		a, b := newHost(t, f, 1), newHost(t, f, 2)
		a.send(2, n, 10, 0)
		run(f)
		require.Len(t, b.got, n)
		require.False(t, slices.IsSorted(b.psns()))
		seen := make(map[int]bool)
		for _, p := range b.psns() {
			require.False(t, seen[p])
			seen[p] = true
		}
	})
	t.Run("pair", func(t *testing.T) {
		f := New(Config{Seed: 1})
		a, b, c := newHost(t, f, 1), newHost(t, f, 2), newHost(t, f, 3)
		f.SetFaults(addr(1), addr(2), Faults{Loss: 1})
		a.send(2, 5, 10, 0)
		a.send(3, 5, 10, 0)
		b.send(1, 5, 10, 0)
		run(f)
		require.Empty(t, b.got)
		require.Len(t, c.got, 5)
		require.Len(t, a.got, 5)
	})
}

func TestPartition(t *testing.T) {
	f := New(Config{})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	f.Partition(addr(1), addr(2), true)
	a.send(2, 3, 10, 0)
	b.send(1, 3, 10, 0)
	run(f)
	require.EqualValues(t, 6, f.Stats().Partitioned)
	f.Partition(addr(1), addr(2), false)
	a.send(2, 3, 10, 0)
	a.send(9, 2, 10, 0)
	run(f)
	require.Len(t, b.got, 3)
	require.EqualValues(t, 2, f.Stats().Unreachable)
}

// Timers fire at the time set last, once, and time does not pass for those
// that were moved or stopped.
func TestTimer(t *testing.T) {
	f := New(Config{})
	l, err := f.Link(addr(1))
	require.NoError(t, err)
	var fired []int64
	l.Attach(func() { fired = append(fired, l.Now()) })
	l.SetTimer(100, true)
	l.SetTimer(50, true)
	l.SetTimer(70, true)
	l.SetTimer(200, true)
	run(f)
	require.Equal(t, []int64{200}, fired)
	l.SetTimer(300, true)
	l.SetTimer(0, false)
	require.False(t, f.Step())
	require.EqualValues(t, 200, f.Now())
	l.SetTimer(10, true) // in the past: now
	run(f)
	require.Equal(t, []int64{200, 200}, fired)
	for i := range int64(1000) {
		l.SetTimer(10_000-i, true)
		l.SetTimer(20_000+i, true)
	}
	run(f)
	require.Equal(t, []int64{200, 200, 20_999}, fired)
	require.Empty(t, f.events)
}

func TestAtAndRunFor(t *testing.T) {
	f := New(Config{})
	var order []string
	f.At(10, func() { order = append(order, "b") })
	f.At(10, func() { order = append(order, "c") })
	f.At(5, func() {
		order = append(order, "a")
		f.At(0, func() { order = append(order, "a2") })
	})
	f.RunFor(9)
	require.Equal(t, []string{"a", "a2"}, order)
	require.EqualValues(t, 9, f.Now())
	run(f)
	require.Equal(t, []string{"a", "a2", "b", "c"}, order)
}

func TestClose(t *testing.T) {
	f := New(Config{})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	_, err := f.Link(addr(1))
	require.Error(t, err, "taken")
	a.send(2, 3, 10, 0)
	b.SetTimer(1_000_000, true)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, err = b.Recv(nil)
	require.ErrorIs(t, err, link.ErrClosed)
	run(f)
	require.Empty(t, b.got)
	_, err = f.Link(addr(2))
	require.NoError(t, err)
	_, err = f.Link()
	require.Error(t, err)
	_, err = f.Link(netip.IPv4Unspecified())
	require.Error(t, err)
}

// Wait, for users of the interface that do not attach.
func TestWait(t *testing.T) {
	f := New(Config{})
	a := newHost(t, f, 1)
	l, err := f.Link(addr(2))
	require.NoError(t, err)
	done := make(chan int)
	go func() {
		var rx [4]edge.RxPacket
		for {
			if n, _ := l.Recv(rx[:]); n > 0 {
				done <- n
				return
			}
			if l.Wait(-1) != nil {
				return
			}
		}
	}()
	a.send(2, 1, 10, 0)
	require.Equal(t, 1, <-done)
	now := f.Now()
	require.NoError(t, l.Wait(500))
	require.LessOrEqual(t, f.Now(), now+500)
}

func TestRandDependsOnSeedAndOrder(t *testing.T) {
	read := func(seed uint64, skip int) (b [16]byte) {
		f := New(Config{Seed: seed})
		for range skip {
			f.Rand()
		}
		_, _ = f.Rand().Read(b[:])
		return b
	}
	require.Equal(t, read(1, 0), read(1, 0))
	require.NotEqual(t, read(1, 0), read(1, 1))
	require.NotEqual(t, read(1, 0), read(2, 0))
}

func BenchmarkPacket(b *testing.B) {
	f := New(Config{})
	x, y := newHost(b, f, 1), newHost(b, f, 2)
	for b.Loop() {
		x.send(2, 100, 64, 0)
		run(f)
		y.got, y.times = y.got[:0], y.times[:0]
	}
}
