package sim

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func TestREDMark(t *testing.T) {
	r := RED{KminBytes: 5000, KmaxBytes: 15000, Pmax: 0.1}
	for _, c := range []struct {
		q    int
		u    float64
		want bool
	}{
		{0, 0, false}, {5000, 0, false}, {5001, 0, true}, {10000, 0.0499, true}, {10000, 0.05, false},
		{15000, 0.0999, true}, {15000, 0.1, false}, {15001, 0.999, true},
	} {
		require.Equal(t, c.want, r.Mark(MarkInput{QueueBytes: c.q, Random: c.u}), "%+v", c)
	}
	cutoff := RED{KminBytes: 40000, KmaxBytes: 40000, Pmax: 1}
	require.False(t, cutoff.Mark(MarkInput{QueueBytes: 40000}))
	require.True(t, cutoff.Mark(MarkInput{QueueBytes: 40001, Random: 0.9999}))
}

// enterAt puts n bytes into the pipe at a time.
func enterAt(t *testing.T, f *Fabric, p *pipeState, at int64, n int) bool {
	f.now = at
	_, ok := p.enter(f, n, &packet{tclass: edge.ECT0})
	return ok
}

// The distribution is the one over time, not over packets.
func TestQueueDistribution(t *testing.T) {
	f := New(Config{})
	p := &pipeState{Pipe: Pipe{BitsPerSecond: 8e9}} // a byte a nanosecond
	require.True(t, enterAt(t, f, p, 1000, 4096))   // 1000 ns empty, then 4096 down to 0
	s := p.stats(10_000)
	require.EqualValues(t, 10_000, s.Observed)
	require.EqualValues(t, 10_000-4096, s.empty)
	require.Equal(t, []int64{1024, 1024, 1024, 1024}, s.binsNs)
	require.InDelta(t, 4096*4096/2/10_000.0, s.Mean(), 1e-9)
	require.InDelta(t, 0.4096, s.Utilization(), 1e-9)
	require.Equal(t, 4096, s.PeakBytes)
	require.Zero(t, s.Percentile(0.5))
	require.Equal(t, 1024, s.Percentile(0.6))
	require.Equal(t, 4096, s.Percentile(1))

	// Often looked at, it is the same.
	q := &pipeState{Pipe: p.Pipe}
	g := New(Config{})
	require.True(t, enterAt(t, g, q, 1000, 4096))
	for now := int64(1000); now <= 10_000; now += 7 {
		q.observe(now)
	}
	again := q.stats(10_000)
	require.Equal(t, s.binsNs, again.binsNs)
	require.Equal(t, s.empty, again.empty)
	require.InDelta(t, s.area, again.area, 1)
}

func TestQueueLimitDropsAndCounts(t *testing.T) {
	f := New(Config{})
	p := &pipeState{Pipe: Pipe{
		BitsPerSecond: 8e9, QueueBytes: 3000, Mark: func(in MarkInput) bool { return in.QueueBytes > 500 },
	}}
	require.True(t, enterAt(t, f, p, 0, 1000))
	require.True(t, enterAt(t, f, p, 0, 1000))
	require.True(t, enterAt(t, f, p, 0, 1000))
	require.False(t, enterAt(t, f, p, 0, 1000))
	require.True(t, enterAt(t, f, p, 1000, 1000))
	s := p.stats(2000)
	require.EqualValues(t, 4, s.Packets)
	require.EqualValues(t, 4000, s.Bytes)
	require.EqualValues(t, 3, s.Marked)
	require.EqualValues(t, 1, s.Dropped)
}

// Ports share the buffer: what one holds is missing to the other, and one alone gets its share.
func TestSharedBuffer(t *testing.T) {
	f := New(Config{BufferBytes: 30_000, BufferShare: 0.5, Down: Pipe{BitsPerSecond: 8e9}})
	var ls [2]*Link
	for i := range ls {
		var err error
		ls[i], err = f.Link(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		require.NoError(t, err)
	}
	fill := func(p *pipeState) (n int) {
		for enterAt(t, f, p, 0, 1000) {
			n++
		}
		return n
	}
	require.Equal(t, 10, fill(&ls[0].down), "half of what is free, itself included")
	require.Equal(t, 7, fill(&ls[1].down), "half of what the other leaves")
	_, down := ls[0].QueueStats()
	require.EqualValues(t, 1, down.Dropped)
	up, down2 := ls[0].Queued()
	require.Zero(t, up)
	require.Equal(t, 10_000, down2)
	ls[0].ResetQueues()
	_, down = ls[0].QueueStats()
	require.Zero(t, down.Dropped)
	require.Equal(t, 10_000, down.PeakBytes)
}

// A packet is marked by what it finds on arrival, or by what waits behind it when it leaves; the
// queue is as long in both cases, with and without pauses, and nothing comes later.
func TestMarksByQueue(t *testing.T) {
	const w = 1000 + ib.BTHBytes + ib.ICRCBytes + 28 + ethernetBytes
	for _, pfc := range []PFC{{}, {XOFFBytes: 1 << 20}} {
		for departing, want := range map[bool][]int{false: {0, w, 2 * w, 3 * w}, true: {3 * w, 2 * w, w, 0}} {
			f := New(Config{PFC: pfc})
			var queues []int
			l, err := f.LinkWith(Pipe{
				BitsPerSecond: 8e9, MarkDeparting: departing, // a byte a nanosecond
				Mark: func(in MarkInput) bool { queues = append(queues, in.QueueBytes); return true },
			}, Pipe{}, addr(1))
			require.NoError(t, err)
			a, b := &host{Link: l}, newHost(t, f, 2)
			a.send(2, 4, 1000, edge.ECT0)
			run(f)
			require.Equal(t, want, queues, "%+v, departing %v", pfc, departing)
			require.Equal(t, []int64{w + 1000, 2*w + 1000, 3*w + 1000, 4*w + 1000}, b.times)
			up, _ := a.QueueStats()
			require.EqualValues(t, 4, up.Marked)
			busy := int64(0)
			for _, ns := range up.binsNs {
				busy += ns
			}
			require.EqualValues(t, 4*w, busy)
			require.InDelta(t, 4*w/float64(up.Observed), up.Utilization(), 1e-9)
		}
	}
}
