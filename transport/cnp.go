package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
	"github.com/goroce/goroce/transport/wire"
)

// cnpTrafficClass is that of CNPs: DSCP 48 and ECT(0), as seen from ConnectX-4.
const cnpTrafficClass = 48<<2 | ECT0

// cnpState is the CNP that a QP owes to its peer.
type cnpState struct {
	due  bool
	path *Path // the QP's path with the traffic class of CNPs; made at the first one
}

// handleCE is told of a packet that arrived with the ECN mark CE and was taken: a CNP has none, or two
// peers would notify each other of notifications. The peer is
// sent a CNP, no more often than Tuning.CNPGap allows (annex A17.9.4). UD
// peers are not: they have no path to go back on. In ERR nothing is sent but the
// NAK that ended the QP.
func (qp *QP) handleCE(now int64) {
	e := qp.e
	if qp.typ == ib.UD || qp.state == StateErr || e.cfg.Tuning.CNPGap < 0 {
		return
	}
	if e.notify == nil {
		gap := int64(e.cfg.Tuning.CNPGap)
		if gap == 0 {
			gap = DefaultCNPGapNs
		}
		e.notify = cc.NewNotificationPoint(gap, e.cfg.Tuning.CNPScope)
	}
	// Source and destination as in the marked packet.
	if e.notify.Allow(now, qp.num, qp.path.Dst, qp.path.Src) {
		qp.resp.cnp.due = true
		qp.markReady()
	}
}

// handleCNP takes a CNP: the peer saw congestion on what this QP sends. Nothing in it is hard to guess but the QP
// number. So it counts only if a packet has left that it may be about: then no flood of them makes more cuts than
// the QP sends packets, and the slower it is the more it recovers between two.
func (qp *QP) handleCNP(now int64, _ *ib.Packet) {
	qp.e.counters.CNPsHandled++
	c := qp.cc
	switch {
	case c == nil:
	case c.markable == 0:
		qp.e.counters.DropCNP++
	default:
		c.markable--
		c.ctl.OnCNP(now)
		qp.countCuts(now)
	}
}

// buildCNP builds the CNP that is owed (wire format 1.7).
func (r *responder) buildCNP(tx *TxPacket) {
	qp := r.qp
	c := &r.cnp
	c.due = false
	want := qp.path
	want.TrafficClass, want.Link = cnpTrafficClass, nil
	if c.path == nil {
		c.path = new(Path)
	}
	if have := *c.path; !samePath(&have, &want) {
		*c.path = want
	}
	tx.Reset(c.path, qp.num)
	p := ib.NewCNP(qp.attr.DestQPN)
	tx.HeaderLen = uint8(p.PutHeaders(tx.Header[:]))
	qp.e.counters.CNPsSent++
}

// samePath compares two paths but for what the link hung on them.
func samePath(a, b *Path) bool {
	x, y := *a, *b
	x.LinkState, y.LinkState = wire.LinkState{}, wire.LinkState{}
	return x == y
}
