package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// keeperPair is an event-driven end and one that begins as cfg says. On a slow machine
// nothing is sent again before 4 s.
func keeperPair(t *testing.T, cfg Config) (a, b *end) {
	a, b = newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{}), newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{})
	connect(t, a, b, withTimeout(23, 7))
	return a, b
}

func (e *end) write(t *testing.T, to *end) {
	require.NoError(t, e.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{e.mr.SGE(0, 64)}, RemoteAddr: to.mr.Addr(),
		RKey: to.mr.RKey(),
	}))
}

// pollUntil polls the queue, which has nothing, until something is so.
func (e *end) pollUntil(t *testing.T, so func() bool) {
	var wcs [1]WC
	for ctx := testContext(t); !so(); {
		n, err := e.cq.Poll(wcs[:])
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, ctx.Err())
	}
}

// A device that is meant to be polled, and is not, serves its peers all the same. Whenever
// somebody polls again it is polled.
func TestNobodyPolls(t *testing.T) {
	ctx := testContext(t)
	a, b := keeperPair(t, Config{Polling: true})
	for range 3 {
		a.write(t, b)
		a.wait(t, ctx) // nobody polls b
		require.True(t, b.d.s.Background())
		b.pollUntil(t, b.d.s.Polled)
		b.write(t, a)
		b.wait(t, ctx)
	}
	require.Zero(t, a.d.Counters().Timeouts)
}

// An event-driven device that is polled again and again leaves the work to those who do; a
// wait brings it back.
func TestPolledAllTheTime(t *testing.T) {
	ctx := testContext(t)
	a, b := keeperPair(t, Config{})
	for range 3 {
		b.pollUntil(t, b.d.s.Polled)
		a.write(t, b)
		b.pollUntil(t, func() bool { return a.cq.any() })
		a.wait(t, ctx)
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
		got := make(chan WC)
		go func() { got <- b.wait(t, ctx) }()
		a.send(t)
		require.Equal(t, WCRecv, (<-got).Opcode)
		a.wait(t, ctx)
	}
	// Nobody polls any more, nor waits: it goes on.
	b.pollUntil(t, b.d.s.Polled)
	a.write(t, b)
	a.wait(t, ctx)
	require.Zero(t, a.d.Counters().Timeouts)
}
