package paths

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A datagram of so many bytes, to a port that nobody counts.
func datagram(n int) []byte {
	b := make([]byte, n)
	b[0], b[9] = 0x45, protoUDP
	return b
}

// numbered is a packet that says which it is.
func numbered(i, bytes int) []byte {
	b := datagram(bytes)
	be.PutUint32(b[24:], uint32(i))
	return b
}

// arrived is a packet that has come through a lane.
type arrived struct {
	i  int
	at int64
}

// through sends packets of 1,462 bytes, which take 1,500 on the cable, at times, and returns what
// comes.
func through(l *lane, times []int64) (all []arrived) {
	take := func(until int64) {
		for {
			due, ok := l.next()
			if !ok || due > until {
				return
			}
			b, late := l.leave(due)
			if late != 0 {
				panic("leave returned a packet before its time")
			}
			all = append(all, arrived{int(be.Uint32(b[24:])), due})
			l.release(b)
		}
	}
	for i, at := range times {
		take(at)
		l.enter(at, numbered(i, 1500-frameOverhead))
	}
	take(1 << 62)
	return all
}

// every is n times, so far apart.
func every(ns int64, n int) []int64 {
	t := make([]int64, n)
	for i := range t {
		t[i] = int64(i) * ns
	}
	return t
}

const packetNs = 60_000 // of 1,500 bytes at 200 Mb/s

// What is sent at once leaves one after the other at the rate of the link, a delay later.
func TestLaneRateAndDelay(t *testing.T) {
	got := through(newLane(Path{Mbps: 200, Delay: time.Millisecond}, 1, 0), every(0, 50))
	require.Len(t, got, 50)
	for i, x := range got {
		require.Equal(t, arrived{i, int64(i+1)*packetNs + 1e6}, x)
	}
}

// A packet that finds no room is dropped, and takes no time of the link.
func TestLaneQueue(t *testing.T) {
	l := newLane(Path{Mbps: 200, Queue: 10}, 1, 0)
	got := through(l, every(0, 50))
	fit := (10*fullFrame + 1499) / 1500
	require.Len(t, got, fit)
	require.Equal(t, 50-fit, l.book.counts[Other].Overflow)
	require.Equal(t, int64(fit)*packetNs, got[fit-1].at)
	// At the rate of the link nothing has to wait, and at twice that half of it has no room.
	l = newLane(Path{Mbps: 200, Queue: 10}, 1, 0)
	require.Len(t, through(l, every(packetNs, 10_000)), 10_000)
	require.Zero(t, l.book.counts[Other].Overflow)
	l = newLane(Path{Mbps: 200, Queue: 10}, 1, 0)
	require.InDelta(t, 5000, len(through(l, every(packetNs/2, 10_000))), float64(fit))
}

// The share that is lost is what was asked for, one by one or in bursts of the length that was
// asked for.
func TestLaneLoss(t *testing.T) {
	const n = 400_000
	for _, burst := range []float64{0, 8} {
		l := newLane(Path{Loss: 0.01, Burst: burst}, 7, 0)
		lost, runs, next := 0, 0, 0
		for _, x := range through(l, every(1000, n)) {
			if x.i > next {
				lost += x.i - next
				runs++
			}
			next = x.i + 1
		}
		require.Equal(t, l.book.counts[Other].Lost, lost+n-next)
		require.InDelta(t, 0.01*n, lost, 0.1*0.01*n, "burst %v", burst)
		require.InDelta(t, max(1, burst), float64(lost)/float64(runs), 0.1*max(1, burst))
	}
}

// Packets that come at the rate of the link are overtaken by three, and all others keep their
// order.
func TestLaneLate(t *testing.T) {
	const n = 20_000
	l := newLane(Path{Mbps: 200, Delay: time.Millisecond, Late: 0.01}, 3, 0)
	got := through(l, every(packetNs, n))
	require.Len(t, got, n)
	place := make([]int, n)
	for p, x := range got {
		place[x.i] = p
	}
	overtaken := map[int]int{}
	for i := range place {
		by := 0
		for k := i + 1; k < min(i+6, n); k++ {
			if place[k] < place[i] {
				by++
			}
		}
		overtaken[by]++
	}
	late := l.book.counts[Other].Late
	require.InDelta(t, 0.01*n, late, 0.2*0.01*n)
	// Where two are late within three packets one of them may be overtaken by the other as well.
	require.InDelta(t, late, overtaken[3], 0.1*float64(late))
	require.InDelta(t, n-late, overtaken[0], 0.1*float64(late))
}

// Jitter changes when packets come, and not their order; duplicates follow at once; the same seed
// gives the same, another one does not.
func TestLaneJitterAndDuplicates(t *testing.T) {
	p := Path{Mbps: 200, Jitter: time.Millisecond, Double: 0.01}
	l := newLane(p, 5, 0)
	got := through(l, every(packetNs, 20_000))
	doubled := l.book.counts[Other].Doubled
	require.InDelta(t, 200, doubled, 50)
	require.Len(t, got, 20_000+doubled)
	twice, waited := 0, int64(0)
	for k := 1; k < len(got); k++ {
		require.GreaterOrEqual(t, got[k].i, got[k-1].i)
		if got[k].i == got[k-1].i {
			require.Equal(t, got[k].at, got[k-1].at)
			twice++
		}
		waited = max(waited, got[k].at-int64(got[k].i+1)*packetNs)
	}
	require.Equal(t, doubled, twice)
	require.InDelta(t, 1e6, waited, 1e5)
	require.Equal(t, got, through(newLane(p, 5, 0), every(packetNs, 20_000)))
	require.NotEqual(t, got, through(newLane(p, 6, 0), every(packetNs, 20_000)))
	require.NotEqual(t, got, through(newLane(p, 5, 1), every(packetNs, 20_000)))
}

// Packets that say that they may be marked are, from the length of the queue on that was asked for,
// and their checksum is right again.
func TestLaneMarks(t *testing.T) {
	l := newLane(Path{Mbps: 200, Mark: 5}, 1, 0)
	sum := func(b []byte) (s uint32) {
		for i := 0; i < 20; i += 2 {
			s += uint32(be.Uint16(b[i:]))
		}
		for s>>16 != 0 {
			s = s>>16 + s&0xFFFF
		}
		return s
	}
	for i := range 20 {
		b := numbered(i, 1500)
		b[1] = 2 // ECT(0)
		if i%2 == 1 {
			b[1] = 0
		}
		be.PutUint16(b[10:], ^uint16(sum(b)))
		l.enter(0, b)
	}
	for i := range 20 {
		b, _ := l.leave(1 << 40)
		require.Equal(t, uint32(0xFFFF), sum(b), "the checksum of packet %d", i)
		want := byte(0)
		if i%2 == 0 {
			want = 2
			if i >= 5 {
				want = 3
			}
		}
		require.Equal(t, want, b[1]&3, "packet %d", i)
	}
	require.Equal(t, 7, l.book.counts[Other].Marked)
}

// What is late is known.
func TestLateness(t *testing.T) {
	var h lateness
	for i := range 1000 {
		h.add(int64(i) * 1000)
	}
	require.Equal(t, 500.0, h.below(0.5))
	require.Equal(t, 990.0, h.below(0.99))
	require.Equal(t, int64(999_000), h.worst)
	h.add(1 << 40)
	require.Equal(t, int64(1<<40), h.worst)
}
