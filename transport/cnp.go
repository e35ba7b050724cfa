package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
	"github.com/goroce/goroce/transport/edge"
)

// cnpTrafficClass is the traffic class of CNPs, as seen from ConnectX-4: DSCP 48 and ECT(0).
const cnpTrafficClass = 48<<2 | ECT0

// cnpState is the CNP that a QP owes to its peer.
type cnpState struct {
	due  bool
	path *Path // the QP's path with the traffic class of CNPs; made for the first
}

// handleCE reacts to an accepted packet with the ECN mark CE: it sends the peer a CNP, no more
// often than Tuning.CNPGap allows (annex A17.9.4). A marked CNP never gets here, or two peers would
// notify each other of notifications. UD peers get none, because there is no path back to them. In
// ERR only the NAK that ended the QP is sent.
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
	// Source and destination of the marked packet.
	if e.notify.Allow(now, qp.num, qp.path.Dst, qp.path.Src) {
		qp.resp.cnp.due = true
		qp.markReady()
	}
}

// handleCNP handles a CNP: the peer saw congestion on this QP's path. Only the QP number makes one
// hard to forge. So a CNP counts only if it may be about a packet that has left. Then no flood
// makes more cuts than the QP sends packets, and the slower it is the more it recovers between two.
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

// buildCNP builds the due CNP (wire format 1.7).
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

// samePath compares two paths, ignoring the link's state.
func samePath(a, b *Path) bool {
	x, y := *a, *b
	x.LinkState, y.LinkState = edge.LinkState{}, edge.LinkState{}
	return x == y
}
