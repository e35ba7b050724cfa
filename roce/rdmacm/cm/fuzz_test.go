package cm

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// FuzzHandleMAD sends arbitrary datagrams to connections in all states: no panic,
// and the accounts stay right.
func FuzzHandleMAD(f *testing.F) {
	f.Add(uint8(mad.AttrREQ), uint8(3), []byte("seed"))
	f.Add(uint8(mad.AttrREJ), uint8(5), make([]byte, 232))
	f.Fuzz(func(t *testing.T, at, state uint8, body []byte) {
		r := newRig(t)
		r.reach(State(state % uint8(numStates)))
		var b [mad.Bytes]byte
		h := mad.CMHeader(mad.Attribute(at), r.tid)
		data := h.Put(&b)
		copy(data[:], body)
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, body)
		r.out()
		for range 100 {
			at, ok := r.n.NextTimeout()
			if !ok {
				break
			}
			r.n.HandleTimeout(at)
			r.out()
		}
		for _, c := range r.n.byID {
			c.Destroy(r.now)
		}
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			r.n.HandleTimeout(at)
			r.out()
		}
		r.out()
		c := r.n.Counts()
		c.Listeners = 0
		require.Equal(t, Counts{}, c)
	})
}

// FuzzSequence plays arbitrary messages of a peer and moves of the owner against a listener with
// bounds: no panic, no bound exceeded, and nothing left at the end.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{0, 0, 12, 1, 14, 0, 13, 0, 0, 1, 16, 0})
	f.Add([]byte{0, 0, 0, 1, 4, 0, 4, 1, 12, 0, 17, 0})
	f.Add([]byte{0, 0, 12, 0, 13, 0, 5, 0, 16, 3, 5, 0, 6, 0, 8, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const maxConns, maxUntaken, backlog = 2, 2, 3
		r := newRig(t)
		l, err := r.n.Listen(service, r.n.addr, backlog)
		require.NoError(t, err)
		l.SetMaxConns(maxConns)
		l.SetMaxUntaken(maxUntaken)
		var owned []*Conn
		var c *Conn // what the messages and moves are about
		kinds := []mad.Attribute{
			mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrREJ, mad.AttrREJ, mad.AttrMRA, mad.AttrDREQ,
			mad.AttrDREP, mad.AttrREQ, mad.AttrLAP, mad.AttrSIDRReq, mad.AttrSIDRRep,
		}
		for ; len(ops) >= 2; ops = ops[2:] {
			op, arg := int(ops[0])%(len(kinds)+6), int(ops[1])
			r.c, r.id, r.qpn, r.tid = c, mad.CommID(1+arg%8), ib.QPN(100+arg%8), mad.TID(1+arg%8)
			if c != nil && arg%2 == 0 {
				r.id, r.qpn, r.tid = c.remoteID, c.remoteQPN, c.tid
			}
			switch op - len(kinds) {
			case 0:
				if e, ok := l.Next(); ok {
					c = e.Conn
					owned = append(owned, c)
				}
			case 1:
				if c != nil {
					_ = c.Accept(r.now, Accept{QPN: 555, Bytes: 1 << arg % 31}) // or it is over
				}
			case 2:
				if c != nil {
					c.Taken()
				}
			case 3:
				if c != nil {
					c.Destroy(r.now)
				}
			case 4:
				r.now += int64(arg) * 5e8
				r.n.HandleTimeout(r.now)
			case 5:
				if len(owned) > 0 {
					c = owned[arg%len(owned)]
				}
			default:
				at := kinds[op]
				m := r.good()[at]
				switch op {
				case 4: // of a sender that never had an answer
					m = &mad.REJ{LocalCommID: r.id, Rejected: mad.SubjectOther, Reason: mad.RejectTimeout,
						Info: []byte{7: byte(r.pu.guid)}, InfoLen: 8}
				case 5:
					m = &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP,
						ServiceTimeout: ib.TimeoutCode(arg % 32)}
				case 8: // with numbers of its own
					q := r.req()
					q.LocalCommID += 100
					m = q
				}
				var b [mad.Bytes]byte
				require.NoError(t, encode(&b, at, r.tid, m))
				r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
			}
			var p Packet
			for r.n.PollTransmit(&p) {
			}
			for _, ok := r.n.PollConnEvent(); ok; _, ok = r.n.PollConnEvent() {
			}
			require.LessOrEqual(t, l.queued, backlog)
			require.LessOrEqual(t, l.untakenRequests(), l.queued)
			require.LessOrEqual(t, l.open, maxConns)
			require.GreaterOrEqual(t, min(l.queued, l.open, l.untaken), 0)
		}
		for _, c := range owned {
			c.Destroy(r.now)
		}
		l.Close()
		require.Zero(t, l.queued+l.open+l.untaken)
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			r.n.HandleTimeout(at)
			r.out()
		}
		r.out()
		r.n.PollListener()
		require.Equal(t, Counts{}, r.n.Counts())
	})
}
