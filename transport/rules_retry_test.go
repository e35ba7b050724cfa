package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// Retry counts: with retry_cnt n the (n+1)th timeout fails the request, and
// an answer starts the count anew (IBTA 9.9.2.1.1, C9-140).
func TestRetryCounts(t *testing.T) {
	for n := range uint8(8) {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RetryCnt = n }})
		d.a.post(d.a.write(0, 0, 8))
		d.wait(second)
		d.a.wantWC("1 transport retry counter exceeded")
		require.Len(t, d.log, int(n)+1)
		for i := 1; i < len(d.log); i++ {
			require.GreaterOrEqual(t, d.log[i].sent-d.log[i-1].sent, ib.TimeoutCode(8).Ns())
		}
	}
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RetryCnt = 1 }})
	for range 5 {
		d.a.post(d.a.write(0, 0, 8))
	}
	d.pump()
	for i := range 5 {
		d.wait(3 * ms / 2) // one timeout each
		d.send(ib.RCAcknowledge, i, nil)
	}
	require.Len(t, d.a.poll(), 5)
}

func TestRNRRetryCounts(t *testing.T) {
	for n := range uint8(8) {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RNRRetry = n }})
		d.a.post(d.a.send(0, 8))
		tries := 0
		for range 50 {
			d.pump()
			d.drain()
			if len(d.log) == 0 {
				break
			}
			d.log = nil
			tries++
			d.send(ib.RCAcknowledge, 0, nil, syndrome(ib.RNRNAK(1)))
			d.wait(20 * us)
		}
		if n == transport.RNRRetryForever {
			require.Equal(t, 50, tries)
			require.Empty(t, d.a.poll())
			continue
		}
		require.Equal(t, int(n)+1, tries)
		d.a.wantWC("1 RNR retry counter exceeded")
		require.EqualValues(t, 1, d.a.eng.Counters().RetryRNRExceededErr)
	}
}

// Timeout 0 is no timer at all.
func TestTimeoutZero(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.Timeout = 0 }})
	d.a.post(d.a.write(0, 0, 8))
	d.wait(1000 * second)
	require.Len(t, d.log, 1)
	require.Empty(t, d.a.poll())
}

// SQD: what was begun is finished, nothing new starts (IBTA 10.3.1.6).
func TestSQDrain(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxUnackedPackets = 2 }})
	d.a.post(d.a.write(0, 0, 4096))
	d.a.post(d.a.write(0, 0, 8))
	d.want(`
		a> WRITE FIRST 0 1024B +0x0/4096 A
		a> WRITE MIDDLE 1 1024B A`)
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateSQD, EnSQDAsyncNotify: true},
		transport.AttrState|transport.AttrEnSQDNotify))
	d.a.post(d.a.write(0, 0, 8))
	at, _ := d.a.qp.Query()
	require.True(t, at.SQDraining)
	d.send(ib.RCAcknowledge, 1, nil)
	d.want(`
		a> WRITE MIDDLE 2 1024B A
		a> WRITE LAST 3 1024B A`)
	d.a.wantEvents()
	d.send(ib.RCAcknowledge, 3, nil)
	d.want("")
	d.a.wantEvents(transport.EventSQDrained)
	d.a.wantWC("1 success")
	// As responder it goes on.
	d.send(ib.RCWriteOnly, 0, make([]byte, 8))
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	d.a.wantEvents()
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateRTS}, transport.AttrState))
	d.want(`
		a> WRITE ONLY 4 8B +0x0/8 A
		a> WRITE ONLY 5 8B +0x0/8 A`)
	d.send(ib.RCAcknowledge, 5, nil)
	d.a.wantWC("2 success", "3 success")
}

// Modify to ERR flushes both queues, each in its order, whatever their state.
func TestModifyToErrFlushesInOrder(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for i := range 5 {
		d.a.recv(uint64(100+i), 2048*i, 2048)
	}
	d.send(ib.RCSendFirst, 0, make([]byte, 1024))
	d.a.post(d.a.write(0, 0, 8))
	d.a.post(d.a.read(0, 0, 4000))
	d.pump()
	wr := d.a.write(0, 0, 8)
	wr.ID = 44
	require.NoError(t, d.a.qp.PostSend(d.now, &wr), "not signaled")
	d.pump()
	d.drain()
	d.log = nil
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState))
	const flushed = " Work Request Flushed Error"
	d.a.wantWC("1"+flushed, "2"+flushed, "44"+flushed,
		"100"+flushed, "101"+flushed, "102"+flushed, "103"+flushed, "104"+flushed)
	d.a.post(d.a.write(0, 0, 8))
	d.a.recv(105, 0, 8)
	d.a.wantWC("3"+flushed, "105"+flushed)
	d.send(ib.RCSendMiddle, 1, make([]byte, 1024))
	d.wait(second)
	d.want("")
	d.a.wantEvents()
	// RESET, and the QP can be used anew.
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
	d.a.bringUp(transport.StateRTS)
	d.a.recv(106, 0, 8)
	d.send(ib.RCSendOnly, 0, []byte("again"))
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	d.a.post(d.a.write(0, 0, 8))
	d.want("a> WRITE ONLY 0 8B +0x0/8 A")
	d.a.wantWC("106 success")
}

// Where a round trip takes longer than the ACK timeout, each packet would be sent twice, so that
// none would ever measure it (Karn), and all would be sent twice for ever. The time since the first
// of two bounds it, until one measures it: also if the path has become that long.
func TestRoundTripBeyondTimeout(t *testing.T) {
	timeout := ib.TimeoutCode(8).Ns()
	for _, c := range []struct {
		before, then int64 // one way
		most         uint64
	}{{3 * timeout / 4, 3 * timeout / 4, 1}, {3 * timeout / 2, 3 * timeout / 2, 2}, {10 * us, 3 * timeout / 4, 2}} {
		p := newPair(t, pairConfig{})
		a, _ := p.connect(linkConfig{})
		for i := range 40 {
			if p.delay = c.before; i > 3 {
				p.delay = c.then
			}
			a.post(a.write(0, 0, 8))
			a.post(a.write(0, 0, 8))
			p.run()
			require.Len(t, a.poll(), 2)
		}
		require.LessOrEqual(t, a.eng.Counters().Timeouts, c.most, c)
		require.InDelta(t, 2*c.then, a.qp.Stats().SmoothedRTTNs, float64(c.then/5))
	}
}
