package cc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = int64(1e6)

// delayTest is a transcript of rounds of a path with rate packets a millisecond and a shortest
// round trip of base: each round has as much on its way as was admitted, and takes as long as that
// needs.
type delayTest struct {
	*testing.T
	d    *Delay
	now  int64
	rate float64 // packets a millisecond
	base int64
	busy int // packets of others in the queue
}

func newDelayTest(t *testing.T, rate float64, base int64) *delayTest {
	return &delayTest{T: t, d: NewDelay(time.Millisecond, 1024, 4096), rate: rate, base: base}
}

// round plays a round with n packets on their way.
func (x *delayTest) round(n int, edit ...func(*Round)) {
	x.Helper()
	rtt := max(x.base, int64(float64(n+x.busy)/x.rate*1e6))
	x.now += rtt
	r := &Round{RTT: rtt, Arrived: n, ArriveNs: rtt, Sent: n, SendNs: rtt, Bytes: 1250}
	for _, f := range edit {
		f(r)
	}
	x.d.OnRound(x.now, r)
}

// admitted plays n rounds with what is admitted.
func (x *delayTest) admitted(n int, edit ...func(*Round)) {
	x.Helper()
	for range n {
		x.round(x.d.Window(x.now), edit...)
	}
}

func (x *delayTest) wantFree(free bool) {
	x.Helper()
	require.Equal(x, free, x.d.Free())
	require.Equal(x, free, x.d.Rate(x.now) == 0)
	require.Equal(x, free, x.d.Window(x.now) == 0)
}

func (x *delayTest) want(mode delayMode, window int) {
	x.Helper()
	require.Equal(x, mode, x.d.mode, "mode")
	require.Equal(x, window, x.d.Window(x.now), "window")
}

// began is a flow that has just had its first long round trip, with n packets on their way.
func (x *delayTest) began(n int) *delayTest {
	x.Helper()
	x.d.Doubt()
	x.round(n)
	return x
}

// Round trips that are shorter than the target, or long now and then, are those of hosts.
func TestDelayStaysOutOfTheWay(t *testing.T) {
	x := newDelayTest(t, 1000, 20*us)
	for range 100 {
		x.round(1000)
		x.wantFree(true)
		x.round(5000)
		x.round(5000)
		x.wantFree(true)
	}
	x.round(1000)
	for range 2 {
		x.round(5000)
		x.wantFree(true)
	}
	x.round(5000)
	x.wantFree(false)
}

// While the window grows for the first time one long round trip is enough.
func TestDelayDoubt(t *testing.T) {
	newDelayTest(t, 20, ms).began(40).wantFree(false)
}

// 20 packets a millisecond, 10 ms: twice as much in each round, until that brings no more; then an
// ebb, then what the path holds, an eighth of it, and 2.5 times the cube root of 20.
func TestDelayTranscript(t *testing.T) {
	x := newDelayTest(t, 20, 10*ms).began(32)
	x.want(delayStartup, 65)
	x.admitted(1)
	x.want(delayStartup, 131)
	x.admitted(1)
	x.want(delayStartup, 263)
	require.InDelta(t, 2*13.1*1e3*1250*8, float64(x.d.Rate(x.now)), 1e4)
	x.admitted(1) // 200 fill the path, and 61 more are too many
	x.want(delayEbb, leastPackets)
	x.admitted(3) // two of the long round trip before, and four targets
	x.want(delayEbb, leastPackets)
	x.admitted(1)
	require.Equal(t, delaySteady, x.d.mode)
	for range 10 * cycleRounds { // it has learned the rate anew from what little was on its way
		x.admitted(1)
	}
	for x.d.step != 0 {
		x.want(delaySteady, 200+25+6+1)
		x.admitted(1)
	}
	require.InDelta(t, 1.25*20*1e3*1250*8, float64(x.d.Rate(x.now)), 1e4)
	x.admitted(1)
	x.want(delaySteady, 226)
	x.admitted(1)
	x.want(delaySteady, 232)
	require.EqualValues(t, 10*ms, x.d.State(x.now).BaseNs)
}

// A path that has become faster shows no queue: a quarter more is admitted in each round, until one
// is seen.
func TestDelaySeeks(t *testing.T) {
	x := newDelayTest(t, 20, 10*ms).began(32)
	for x.d.mode != delaySteady {
		x.admitted(1)
	}
	x.rate *= 4
	n := 0
	for ; x.d.rate < 0.8*x.rate*1000; n++ {
		require.Less(t, n, 30)
		x.d.baseAt = x.now // no ebb
		x.admitted(1)
	}
	require.Less(t, n, 20)
	for range 2 * cycleRounds {
		x.d.baseAt = x.now
		x.admitted(1)
	}
	require.EqualValues(t, 1, x.d.more)
	require.Equal(t, delaySteady, x.d.mode)
	require.InDelta(t, 1.125*x.rate*1000*float64(x.base)/1e9+x.d.spare()/2, float64(x.d.Window(x.now)),
		0.2*float64(x.d.Window(x.now)))
}

// Three rounds that bring no more end startup, too: a policer has no queue.
func TestDelayPlateau(t *testing.T) {
	x := newDelayTest(t, 20, 10*ms).began(32)
	same := func(r *Round) { r.RTT, r.Arrived, r.ArriveNs, r.SendNs = 10*ms, 50, 10*ms, 10*ms }
	x.round(100, same)
	for range 2 {
		x.round(100, same)
		require.Equal(t, delayStartup, x.d.mode)
		x.round(100, same, func(r *Round) { r.Idle = true })
		require.Equal(t, delayStartup, x.d.mode)
	}
	x.round(100, same)
	require.Equal(t, delayEbb, x.d.mode)
}

// steady is a flow of 20 packets a millisecond and 1 ms, which is 20 packets, that has settled.
func steady(t *testing.T) *delayTest {
	x := newDelayTest(t, 20, ms).began(64)
	for i := 0; x.d.mode != delaySteady; i++ {
		require.Less(t, i, 20)
		x.admitted(1)
	}
	for range 4 * cycleRounds { // it learns the rate anew
		x.admitted(1)
	}
	for x.d.step != 1 {
		x.admitted(1)
	}
	x.admitted(1)
	require.EqualValues(t, ms, x.d.baseNs, "the ebb has shown the path without the queue")
	x.want(delaySteady, 20+2+7+1)
	x.d.arrived, x.d.lost = 0, 0
	return x
}

// A base that is not seen any more is looked for after a second: others fill the queue, and then as
// much more is admitted.
func TestDelayEbbFindsOthers(t *testing.T) {
	x := steady(t)
	at := x.d.baseAt
	x.busy = 60
	for x.d.mode == delaySteady {
		require.LessOrEqual(t, x.now, at+ms*1000+10*ms)
		x.admitted(1)
	}
	require.Greater(t, x.now, at+ms*1000)
	x.admitted(1)
	require.LessOrEqual(t, x.d.Window(x.now), 11)
	for x.d.mode != delaySteady {
		x.admitted(1)
	}
	require.EqualValues(t, 2*ms, x.d.baseNs, "no more than a target above the shortest round trip of all")
	// They stop, and it sees the path again at once.
	x.busy = 0
	x.admitted(2)
	require.Less(t, x.d.baseNs, 2*ms)
}

// Random loss changes nothing; loss while the queue is long makes less admitted, once in 64
// packets, down to what the path holds; and it comes back, in cycles without loss.
func TestDelayLoss(t *testing.T) {
	x := steady(t)
	for range 100 { // 5 %, round trips of 1 ms
		x.round(20, func(r *Round) { r.Lost = 1 })
		require.Zero(t, x.d.full)
	}
	x = steady(t)
	for range 100 { // 2 %, and long round trips
		x.round(49, func(r *Round) { r.Lost = 1; r.Arrived = 49 })
		require.Zero(t, x.d.full)
	}
	x = steady(t)
	x.round(60, func(r *Round) { r.Lost = 3; r.Arrived = 57 })
	require.Zero(t, x.d.full, "few packets")
	x.round(60, func(r *Round) { r.Lost = 3; r.Arrived = 57 })
	require.Equal(t, 48, x.d.full)
	x.round(20)
	x.round(20, func(r *Round) { r.Lost = 5 })
	x.round(38, func(r *Round) { r.Lost = 5 })
	require.Equal(t, 32, x.d.full)
	x.want(delaySteady, 30)
	for x.d.step != 1 {
		x.round(20)
	}
	require.Equal(t, 40, x.d.full)
}

// One packet of ten lost, and no long round trips: the path may lose at random, or the shortest
// round trip may be one with a full queue. It lets the queue run empty for 100 ms, in which others
// do so, too, and looks again.
func TestDelayHeavyLoss(t *testing.T) {
	x := steady(t)
	x.round(20, func(r *Round) { r.Lost = 8 })
	x.want(delayEbb, leastPackets)
	for at := x.now; x.now < at+100*ms; x.admitted(1) {
		x.want(delayEbb, leastPackets)
	}
	require.Equal(t, delaySteady, x.d.mode)
	require.InDelta(t, 2e3, x.d.rate, 1, "what it was meanwhile")
	for at := x.d.deepAt; x.now-at <= ebbTargets/3*ms-ms; {
		x.round(20, func(r *Round) { r.Lost = 8 })
		require.Equal(t, delaySteady, x.d.mode, "not again soon")
	}
}

// After a timeout little leaves, until the peer was found to have more.
func TestDelayTimeout(t *testing.T) {
	x := steady(t)
	x.d.OnTimeout(x.now)
	require.Equal(t, leastPackets, x.d.Window(x.now))
	x.d.OnProgress()
	x.want(delaySteady, 30)
}

// A sender that had nothing to send shows nothing of the path, unless it was faster than all was.
func TestDelayIdle(t *testing.T) {
	x := steady(t)
	idle := func(r *Round) { r.Idle = true }
	for range 30 {
		x.round(5, idle)
	}
	require.InDelta(t, 20e3, x.d.rate, 1)
	x.rate = 40
	for range 2 { // two are noise
		x.round(40, idle)
		require.InDelta(t, 20e3, x.d.rate, 1)
	}
	x.round(40, idle)
	require.InDelta(t, 40e3, x.d.rate, 1)
	x.rate = 20
	for range rateRounds {
		x.round(20)
	}
	require.InDelta(t, 20e3, x.d.rate, 1, "forgotten after ten rounds")
}

// Answers that come at once, as they waited for each other, do not count as faster than what was
// asked left.
func TestDelayBurst(t *testing.T) {
	x := steady(t)
	x.round(20, func(r *Round) { r.ArriveNs = ms / 10 })
	require.InDelta(t, 20e3, x.d.rate, 1)
	for range rateRank {
		x.round(20, func(r *Round) { r.SendNs = ms / 2; r.ArriveNs = ms / 2 })
	}
	require.InDelta(t, 40e3, x.d.rate, 1)
}

// An answer that waited for what was lost says nothing of how long the way is.
func TestDelayLate(t *testing.T) {
	x := newDelayTest(t, 1000, 20*us)
	late := func(r *Round) { r.Late = true }
	for range 10 {
		x.round(5000, late)
		x.wantFree(true)
	}
	x = steady(t)
	last := x.d.lastNs
	x.round(200, late)
	require.Equal(t, last, x.d.lastNs)
}

// A path that carries the whole window within the target needs no control.
func TestDelayFreeAgain(t *testing.T) {
	x := steady(t)
	x.rate, x.base = 2000, 20*us
	for i := 0; !x.d.Free(); i++ {
		require.Less(t, i, 50)
		x.admitted(1)
	}
	x.wantFree(true)
}

// A notification takes 15 %, once in a round trip, and ends freedom.
func TestDelayCNP(t *testing.T) {
	x := newDelayTest(t, 1000, 20*us)
	x.d.OnCNP(0)
	x.wantFree(true)
	x.round(500)
	x.d.OnCNP(x.now)
	x.wantFree(false)
	require.InDelta(t, 0.85*1e6, x.d.rate, 1)
	x.d.OnCNP(x.now + 499*us)
	require.InDelta(t, 0.85*1e6, x.d.rate, 1)
	x.d.OnCNP(x.now + 500*us)
	require.InDelta(t, 0.85*0.85*1e6, x.d.rate, 1)
	require.EqualValues(t, 2, x.d.State(x.now).Cuts)
}

// A process that waits for a processor is covered by what is admitted, for two targets at most;
// that is forgotten.
func TestDelayStalls(t *testing.T) {
	x := steady(t)
	spare := x.d.spare()
	stall := func(ns int64) func(*Round) { return func(r *Round) { r.GapNs = ns + 400*us } }
	x.round(20, stall(ms), func(r *Round) { r.Lost = 1 })
	x.round(20, stall(ms), func(r *Round) { r.Idle = true })
	require.InDelta(t, spare, x.d.spare(), 0.1, "not of a loss, nor without anything to send")
	x.round(20, stall(ms))
	require.InDelta(t, spare+stallPart*(20-spare), x.d.spare(), 0.1)
	x.round(20, stall(5*ms))
	require.InDelta(t, spare+stallPart*(40-spare), x.d.spare(), 0.1)
	for range 3 * stallRounds {
		x.round(20, stall(0))
	}
	require.InDelta(t, spare, x.d.spare(), 0.1)
}

// rivals is a flow that competes, and has found its share.
func rivals(t *testing.T) *delayTest {
	x := steady(t)
	x.busy = 120
	at := x.now
	for x.d.mode != delayRival {
		require.Less(t, x.now, at+rivalWait*ms+500*ms)
		if x.d.mode == delaySteady {
			x.round(60)
		} else {
			x.admitted(1)
		}
	}
	require.Greater(t, x.now, at+rivalWait*ms)
	n := x.d.Window(x.now)
	x.admitted(2)
	require.Greater(t, x.d.Window(x.now), n*3/2-2, "a quarter more in each round")
	for x.d.seeks > 0 {
		x.admitted(3)
		x.admitted(1, func(r *Round) { r.Lost = 1 })
	}
	return x
}

// An ebb in which no round trip ends, because what was lost before is sent again, does not keep it
// at two packets at a time.
func TestDelayEbbWithoutRounds(t *testing.T) {
	x := newDelayTest(t, 20, 10*ms).began(32)
	for x.d.mode != delayEbb {
		x.admitted(1)
	}
	end := x.d.ebbEnd + 2*x.d.lastNs
	require.Equal(t, leastPackets, x.d.Window(end-1))
	require.Equal(t, int(x.d.packets(x.d.baseNs)/2)+1, x.d.Window(end))
	require.Greater(t, x.d.Window(end), 10*leastPackets)
}

// Others who fill the queue: round trips stay long, also in an ebb. It takes a packet more in each
// round, and less at a loss.
func TestDelayRival(t *testing.T) {
	x := rivals(t)
	more := func(n float64) float64 { // after a round with a share of n
		return n + (n+1+float64(x.busy))/x.rate/rivalTargets
	}
	n := x.d.share
	x.admitted(1)
	require.InDelta(t, more(n), x.d.share, 1)
	n = x.d.share
	x.admitted(1, func(r *Round) { r.Lost = 1 })
	require.InDelta(t, n, x.d.share, 0, "soon after the last cut: of the same queue")
	x.admitted(1)
	n = x.d.share
	x.admitted(1, func(r *Round) { r.Lost = 1 })
	require.InDelta(t, rivalCut*n, x.d.share, 0.1)
	x.admitted(1, func(r *Round) { r.Idle = true })
	x.want(delayRival, x.d.Window(x.now))
	// An ebb after a second, then after two, three and four: they are still there.
	for i := range 6 {
		at := x.d.ebbAt
		for x.d.mode == delayRival {
			x.admitted(1, func(r *Round) { r.Lost = r.Arrived / 200 })
		}
		require.Equal(t, delayEbb, x.d.mode)
		require.InDelta(t, float64(min(i+1, ebbTimes)), float64(x.d.ebbAt-at)/float64(ebbTargets*ms), 0.1)
		n = x.d.share
		for x.d.mode == delayEbb {
			x.admitted(1)
		}
		x.want(delayRival, int(n)+1)
	}
	// They stop.
	x.busy = 0
	for x.d.mode == delayRival {
		x.round(20)
	}
	for x.d.mode == delayEbb {
		x.admitted(1)
	}
	require.Equal(t, delaySteady, x.d.mode)
	require.EqualValues(t, ms, x.d.baseNs)
}

// A short round trip now and then is no end of rivals; more of them are.
func TestDelayDips(t *testing.T) {
	for _, apart := range []int{10, 4} {
		x := steady(t)
		x.busy = 100
		for i := 0; x.d.mode != delayEbb && i < 400; i++ {
			x.d.baseAt = x.now // no ebb for another reason
			x.admitted(1, func(r *Round) {
				if i%apart == apart-1 {
					r.RTT = ms
				}
			})
		}
		require.Equal(t, apart == 10, x.d.mode == delayEbb, "one in %d", apart)
	}
}

// With a small share there must be many flows, that do not compete: it gives way again.
func TestDelayRivalGivesUp(t *testing.T) {
	x := rivals(t)
	for x.d.share >= rivalLeast {
		require.Equal(t, delayRival, x.d.mode)
		x.now = x.d.cutAt + 2*x.d.lastNs
		x.round(1, func(r *Round) { r.Lost = 1 })
	}
	require.Equal(t, delaySteady, x.d.mode)
}

// A path that has become longer by less than what rivals queue is known after ten ebbs.
func TestDelayLittleLongerPath(t *testing.T) {
	x := steady(t)
	x.base = 3 * ms
	for at := x.now; x.d.floorNs != 3*ms; x.admitted(1) {
		require.Less(t, x.now, at+(longerEbbs+1)*1100*ms)
		require.NotEqual(t, delayRival, x.d.mode)
		require.LessOrEqual(t, x.d.baseNs, 2*ms)
	}
	x.admitted(1)
	require.EqualValues(t, 3*ms, x.d.baseNs)
}

// A path that has become longer is not taken for others for ever.
func TestDelayLongerPath(t *testing.T) {
	x := rivals(t)
	x.busy, x.base = 0, 6*ms
	for at := x.now; x.d.floorNs != 6*ms; x.admitted(1) {
		require.Less(t, x.now, at+40000*ms)
	}
	require.NotEqual(t, delayRival, x.d.mode)
	for at := x.now; x.now < at+3000*ms; x.admitted(1) {
		require.NotEqual(t, delayRival, x.d.mode)
	}
}
