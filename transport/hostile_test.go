package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
)

// checkInvariants says what always holds of a requester between two calls.
func (sq *requester) checkInvariants(t testing.TB) {
	q := &sq.q
	require.LessOrEqual(t, q.cur-q.head, q.tail-q.head, "head, cur, tail")
	require.LessOrEqual(t, q.len(), sq.qp.caps.MaxSendWR)
	require.LessOrEqual(t, span(sq.una, sq.psn), span(sq.una, sq.end), "una, psn, end")
	require.LessOrEqual(t, span(sq.una, sq.end), ib.MaxPSNSpan)
	if sq.una != sq.end {
		w := q.at(q.head)
		require.NotEqual(t, q.head, q.tail)
		require.Equal(t, wqeBegun, w.state, "head owns una")
		require.Less(t, span(w.psn, sq.una), int(w.npkts))
		if !sq.retry.rnrWait && sq.psn == sq.end && sq.qp.attr.Timeout != 0 {
			require.True(t, sq.qp.timerSet(timerAck), "something is outstanding and no timer runs")
		}
	} else {
		require.False(t, sq.qp.timerSet(timerAck), "nothing is outstanding and a timer runs")
	}
	if q.cur != q.tail && sq.curPkt != 0 {
		w := q.at(q.cur)
		require.Equal(t, wqeBegun, w.state)
		require.Equal(t, sq.psn, w.psn.Add(int(sq.curPkt)))
		require.Less(t, sq.curPkt, w.npkts)
	}
	require.LessOrEqual(t, sq.reads.len(), max(int(sq.qp.attr.MaxRdAtomic), 0))
	require.LessOrEqual(t, sq.reads.next-sq.reads.head, sq.reads.tail-sq.reads.head)
	require.GreaterOrEqual(t, sq.win.size, 1)
	require.LessOrEqual(t, sq.win.size, sq.win.max)
	require.Equal(t, sq.retry.rnrWait, sq.qp.timerSet(timerRNR))
}

// hostile drives a requester with actions from data: the peer answers anything, at any time. It is
// the body of the fuzz target and of a seeded test.
func hostile(t testing.TB, data []byte) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	o := loopOptions{
		mtu: ib.MTU256, psn: ib.PSN(0xFFFFF0).Add(1 + next()%32), tuning: Tuning{MaxUnackedPackets: 1 + next()%16},
		data: 8192, caps: QPCaps{MaxSendWR: 20, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: 16}, cqe: 64,
	}
	if next()%2 == 0 { // a window of places, not of packets
		o.tuning.MaxUnackedPackets = 0
	}
	depth, retries := uint8(1+next()%4), uint8(next()%8)
	o.attr = func(a *QPAttr) { a.MaxRdAtomic, a.RetryCnt, a.RNRRetry = depth, retries, 7-retries }
	s := newScript(t, o)
	sq := &s.a.qp.sq
	posted, completed := uint64(0), uint64(0)
	flushing := false
	payload := make([]byte, 300)
	for len(data) > 0 {
		switch next() % 8 {
		case 0, 1:
			wr := SendWR{ID: posted, Opcode: WROpcode(next()) % numWROpcodes,
				Flags: SendSignaled | SendFlags(next())&(SendFence|SendSolicited)}
			n := next() * 8
			switch wr.Opcode {
			case WRCompareSwap, WRFetchAdd, WRAtomicWrite:
				n = 8
			case WRFlush:
				wr.FlushType = ib.FlushPersistence
			case WRLocalInv:
				wr.Opcode = WRWrite
			case WRBindMW:
				mw, err := s.a.mem.AllocMW(s.a.pd, mem.Type2B)
				require.NoError(t, err)
				wr.Bind = BindMW{
					MW: mw, Region: s.a.region, NewRKey: mem.NextRKey(mw.RKey()),
					Addr: s.a.region.IOVA(), Length: 8, Access: mem.RemoteRead,
				}
			}
			wr.SGList = []SGE{s.a.at(0, n/2), s.a.at(4096, n-n/2)}
			if s.a.qp.PostSend(s.now, &wr) == nil {
				posted++
			}
		case 2:
			s.a.e.PollTransmit(s.now, s.batch[:1+next()%8])
		case 3:
			s.advance(int64(next()) * 1e6)
		case 4:
			if next()%16 == 0 {
				states := [...]QPState{StateSQD, StateRTS, StateErr}
				st := states[next()%len(states)]
				_ = s.a.qp.Modify(s.now, QPAttr{State: st}, AttrState)
			}
		default:
			ops := [...]ib.Opcode{
				ib.RCAcknowledge, ib.RCAcknowledge, ib.RCAcknowledge, ib.RCReadRespFirst,
				ib.RCReadRespMiddle, ib.RCReadRespLast, ib.RCReadRespOnly, ib.RCAtomicAck,
			}
			p := ib.Packet{BTH: ib.BTH{Opcode: ops[next()%len(ops)]}}
			// Mostly PSNs that mean something.
			psn := sq.una.Add(next()%24 - 4)
			if next()%8 == 0 {
				psn = psn.Add(next() << 15)
			}
			p.PSN = ib.PSN(psn.Diff(s.psn0)) & ib.PSNMask
			p.AETH.Syndrome = ib.ACKNoCredits
			switch next() % 8 {
			case 0:
				p.AETH.Syndrome = ib.NAKSequence
			case 1:
				p.AETH.Syndrome = ib.RNRNAK(ib.RNRCode(next()))
			case 2:
				p.AETH = ib.AETH{Syndrome: ib.ACKCredit(ib.CreditCode(next())), MSN: ib.MSN(next())}
			case 3:
				if next()%4 == 0 {
					p.AETH.Syndrome = ib.Syndrome(next())
				}
			}
			if p.Opcode.Info().Op == ib.OpReadResponse {
				n := 256
				if sq.una != sq.end && next()%4 != 0 {
					w := sq.q.at(sq.q.head)
					n = min(256, int(w.length)-256*span(w.psn, sq.una))
					n = max(n, 0)
				}
				if next()%32 == 0 {
					n = next()
				}
				p.Payload = payload[:n]
			}
			s.respond(p)
		}
		if len(sq.q.slots) > 0 {
			sq.checkInvariants(t)
		}
		for _, wc := range completions(s.a.scq) {
			require.Equal(t, completed, wc.ID, "each request completes once, in order")
			completed++
			if flushing {
				require.Equal(t, WCFlushErr, wc.Status)
			}
			flushing = wc.Status != WCSuccess
		}
	}
	// Whatever happened, time alone brings every request to an end: the peer is
	// silent now, and retries run out.
	if s.a.qp.State() == StateSQD {
		_ = s.a.qp.Modify(s.now, QPAttr{State: StateErr}, AttrState)
	}
	for range 100 {
		for s.a.e.PollTransmit(s.now, s.batch) > 0 {
		}
		at, ok := s.a.e.NextTimeout()
		if !ok {
			break
		}
		s.advance(at - s.now)
	}
	completed += uint64(len(completions(s.a.scq)))
	require.Equal(t, posted, completed, "a request is stuck")
}

// hostileSeeds have found something once: a local operation that was executed
// and then retired while the queue had gone back to before it.
var hostileSeeds = []uint64{3687152365446050923, 6748}

func TestHostilePeer(t *testing.T) {
	for _, seed := range hostileSeeds {
		hostile(t, hostileData(seed))
	}
	seeds.Run(t, seeds.Fewer(600), func(t *testing.T, seed uint64) { hostile(t, hostileData(seed)) })
}

func hostileData(seed uint64) []byte {
	data := make([]byte, 400)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(data)
	return data
}

func FuzzHostilePeer(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 0, 0, 0, 40, 2, 7, 5, 0, 4, 0, 0, 7})
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1000 {
			t.Skip("long inputs find nothing that short ones do not")
		}
		hostile(t, data)
	})
}
