package transport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// A window is bound, used by the peer, and invalidated, all by work requests in one queue.
func TestBindAndInvalidate(t *testing.T) {
	l := newLoop(t, loopOptions{})
	w, err := l.b.mem.AllocMW(l.b.pd, mem.Type2B)
	require.NoError(t, err)
	key := mem.NextRKey(w.RKey())
	bind := SendWR{ID: 1, Opcode: WRBindMW, Flags: SendSignaled, Bind: BindMW{
		MW: w, Region: l.b.region, NewRKey: key, Addr: l.b.region.IOVA() + 64, Length: 64, Access: mem.RemoteWrite,
	}}
	require.NoError(t, l.b.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.b.at(0, 8)}, RemoteAddr: l.a.region.IOVA(), RKey: l.a.region.RKey(),
	}))
	require.NoError(t, l.b.qp.PostSend(l.now, &bind))
	l.carry(l.b, l.a)
	require.True(t, w.Bound(), "a bind does not wait for what precedes it")
	require.Empty(t, completions(l.b.scq), "but completes in its turn")
	l.run()
	require.Equal(t, []WC{{ID: 1, Opcode: WCBindMW, QPN: l.b.qp.Number()}}, completions(l.b.scq))

	write := SendWR{Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 64)},
		RemoteAddr: l.b.region.IOVA() + 64, RKey: key}
	fill(l.a.data[:64], 8)
	require.NoError(t, l.a.qp.PostSend(l.now, &write))
	l.run()
	require.Equal(t, l.a.data[:64], l.b.data[64:128])
	require.Equal(t, WCSuccess, completions(l.a.scq)[0].Status)

	// LOCAL_INV waits for the WRITE before it.
	require.NoError(t, l.b.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.b.at(0, 8)}, RemoteAddr: l.a.region.IOVA(), RKey: l.a.region.RKey(),
	}))
	require.NoError(t,
		l.b.qp.PostSend(l.now, &SendWR{ID: 2, Opcode: WRLocalInv, Flags: SendSignaled, InvalidateKey: key}))
	l.carry(l.b, l.a)
	require.True(t, w.Bound())
	l.run()
	require.False(t, w.Bound())
	require.Equal(t, []WC{{ID: 2, Opcode: WCLocalInv, QPN: l.b.qp.Number()}}, completions(l.b.scq))
	require.NoError(t, l.a.qp.PostSend(l.now, &write))
	l.run()
	require.Equal(t, WCRemoteAccessErr, completions(l.a.scq)[0].Status)
}

func TestLocalOperationsFail(t *testing.T) {
	for name, wr := range map[string]SendWR{
		"bind nothing":     {Opcode: WRBindMW},
		"invalidate a key": {Opcode: WRLocalInv, InvalidateKey: 12345},
	} {
		l := newLoop(t, loopOptions{})
		wr.ID = 7
		require.NoError(t, l.a.qp.PostSend(l.now, &wr))
		l.run()
		wcs := completions(l.a.scq)
		require.Len(t, wcs, 1, name)
		require.Equal(t, WCMWBindErr, wcs[0].Status)
		require.Equal(t, StateErr, l.a.qp.State())
	}
}

// Local operations that were executed are not executed again when the requests
// around them are sent again.
func TestGoBackOverLocalOperations(t *testing.T) {
	s := newScript(t, loopOptions{})
	w, err := s.a.mem.AllocMW(s.a.pd, mem.Type2B)
	require.NoError(t, err)
	s.post(WRSend, 1)
	s.post(WRBindMW, 0, func(wr *SendWR) {
		wr.Bind = BindMW{
			MW: w, Region: s.a.region, NewRKey: mem.NextRKey(w.RKey()),
			Addr: s.a.region.IOVA(), Length: 8, Access: mem.RemoteRead,
		}
	})
	s.post(WRSend, 1)
	s.sends("SEND ONLY 0 A", "SEND ONLY 1 A")
	s.nak(0, ib.NAKSequence)
	s.sends("SEND ONLY 0 A", "SEND ONLY 1 A")
	s.ack(0)
	s.done("0 success", "1 success")
	s.nak(1, ib.NAKSequence)
	s.sends("SEND ONLY 1 A")
	s.ack(1)
	s.done("2 success")
	require.True(t, w.Bound())
}

// A slot of the ring keeps what the last lap left there. An ACK that empties
// the queue before it is sent again must not take that for a request.
func TestLastLapIsForgotten(t *testing.T) {
	s := newScript(t, loopOptions{})
	bind := func() {
		w, err := s.a.mem.AllocMW(s.a.pd, mem.Type2B)
		require.NoError(t, err)
		s.post(WRBindMW, 0, func(wr *SendWR) {
			wr.Bind = BindMW{
				MW: w, Region: s.a.region, NewRKey: mem.NextRKey(w.RKey()),
				Addr: s.a.region.IOVA(), Length: 8, Access: mem.RemoteRead,
			}
		})
	}
	for range minSendSlots {
		bind()
		s.silent()
	}
	require.Len(t, completions(s.a.scq), minSendSlots)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 0 A")
	s.advance(ackTimeoutNs)
	s.ack(0) // after the timeout, before the repetition
	s.done(fmt.Sprintf("%d success", minSendSlots))
	s.silent()
}
