package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// Round trips through an empty queue, one that is half full, and one that is full.
var (
	emptyTrip = rttEstimate{smoothed: 1, empty: true, short: true}
	halfTrip  = rttEstimate{smoothed: 1}
	fullTrip  = rttEstimate{smoothed: 1, waits: true}
)

func TestLossCause(t *testing.T) {
	// after counts packets of which one in part is lost.
	after := func(c *lossCause, e *rttEstimate, n, part int) {
		for i := range n {
			if part != 0 && i%part == part-1 {
				c.count(e, 0, 1)
			} else {
				c.acked(e, 1)
			}
		}
	}
	for _, x := range []struct {
		name       string
		calm, full int  // one in so many is lost while round trips are short, and while they are long
		now        bool // while they are long it lacked room
	}{
		{"no other loss", 0, 300, true},
		{"as many without a queue", 100, 100, false},
		{"a few more", 200, 150, false},
		{"far more", 1000, 100, true},
		{"too many for random loss", 40, 40, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			var c lossCause
			after(&c, &emptyTrip, 4000, x.calm)
			require.False(t, c.crowded(&emptyTrip), "a queue drops nothing while it is empty")
			after(&c, &fullTrip, 1200, x.full)
			require.Equal(t, x.now, c.crowded(&fullTrip))
			require.Equal(t, x.full < fullLoss, c.crowded(&halfTrip))
			require.False(t, c.crowded(&emptyTrip))
		})
	}
	var c lossCause
	require.True(t, c.crowded(&rttEstimate{}), "nothing is known")
	require.True(t, c.crowded(&fullTrip))
	require.False(t, c.crowded(&emptyTrip))
	after(&c, &emptyTrip, 2000, heavyLoss-1)
	require.True(t, c.crowded(&emptyTrip), "a queue that was never seen empty")

	// What a path loses is forgotten while no round trip is short.
	c = lossCause{}
	after(&c, &emptyTrip, 4000, 100)
	after(&c, &fullTrip, 1200, 100)
	require.False(t, c.crowded(&fullTrip))
	after(&c, &fullTrip, 8*calmPackets, 100)
	require.True(t, c.crowded(&fullTrip))
}

// A packet that came before its turn counts when it came, and not again when it is acknowledged.
func TestLossCauseAhead(t *testing.T) {
	var c lossCause
	c.count(&fullTrip, 0, 1)
	for range 20 {
		c.ahead(&fullTrip)
	}
	require.Equal(t, tally{20, 1}, c.lately)
	c.acked(&fullTrip, 21)
	require.Equal(t, tally{21, 1}, c.lately)
	c.acked(&fullTrip, 5)
	require.Equal(t, tally{26, 1}, c.lately)
}

// A packet that came early is counted once, also if what was known is forgotten in between.
func TestLossCauseForgetsNoEarlyPacket(t *testing.T) {
	var c lossCause
	c.ahead(&emptyTrip)
	c.forget()
	require.Equal(t, lossCause{early: 1}, c)
	c.acked(&emptyTrip, 2)
	require.Equal(t, tally{came: 1}, c.lately)
}

// Two answers for each window are few where they may be lost: after a loss there are more.
func TestAsksMoreWhereAnswersAreLost(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU1024, data: 1 << 20})
	sq := &l.a.qp.sq
	w := &sendWQE{npkts: 1000, length: 1000 << 10}
	require.Equal(t, DefaultAckReqInterval, sq.askEvery(w))
	sq.cause.count(&sq.rtt, 0, 1)
	require.Equal(t, sq.win.bound(w)>>lossyShift, sq.askEvery(w))
	sq.win.size = 1 << lossyShift
	require.Equal(t, 1, sq.askEvery(w), "in a small window each packet asks")
}

// A window that doubles fills the queue by itself, perhaps while the last round trip was short:
// what it loses then says nothing of the path.
func TestLossCauseForgetsTheBeginning(t *testing.T) {
	for _, doubling := range []bool{true, false} {
		sq := &newLoop(t, loopOptions{slowStart: true}).a.qp.sq
		require.True(t, sq.watchMissing())
		sq.peerKeeps = true
		sq.rtt = halfTrip
		if !doubling {
			sq.win.goal = 0
		}
		sq.cause.count(&emptyTrip, lossSample, lossSample)
		sq.onLost(0, &lostPackets{n: 1, other: true})
		require.Zero(t, sq.win.goal, "half of all is for want of room")
		require.Equal(t, doubling, sq.cause.calm == tally{})
	}
}

// A READ request that is lost did not lack room: requests are few, small, and go the other way. A
// loss of data while round trips are long did.
func TestLostReadRequestsLeaveTheWindow(t *testing.T) {
	for _, other := range []bool{false, true} {
		sq := &newLoop(t, loopOptions{slowStart: true}).a.qp.sq
		require.True(t, sq.watchMissing())
		sq.peerKeeps, sq.win.size = true, 64
		sq.rtt = rttEstimate{smoothed: 5e6, least: 1e6, waits: true}
		sq.onLost(0, &lostPackets{n: 1, other: other})
		require.Equal(t, other, sq.win.size < 64)
	}
}
