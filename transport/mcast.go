package transport

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/ib"
)

// mcastTable lists the QPs attached to each group.
type mcastTable struct {
	groups map[ib.GID][]*QP
}

// AttachMcast makes a UD QP receive datagrams sent to the group gid. The shell must join the group
// on the host (IGMP, MLD). Attaching again changes nothing.
func (qp *QP) AttachMcast(gid ib.GID) error {
	const op = "attach multicast"
	switch {
	case qp.gone:
		return &EngineError{Op: op, Err: ErrDestroyed}
	case qp.typ != ib.UD:
		return argError(op, "qp_type", fmt.Sprintf("%v, and only UD has multicast", qp.typ))
	case !gid.IsMulticast():
		return argError(op, "gid", fmt.Sprintf("%v is not a multicast group", gid))
	}
	t := &qp.e.mcast
	qps := t.groups[gid]
	switch {
	case slices.Contains(qps, qp):
		return nil
	case len(qps) >= MaxMcastQPs:
		return opErr(op, ErrLimit, "%d QPs in the group", len(qps))
	case len(qps) == 0 && len(t.groups) >= MaxMcastGroups:
		return opErr(op, ErrLimit, "%d groups", len(t.groups))
	}
	if t.groups == nil {
		t.groups = make(map[ib.GID][]*QP)
	}
	t.groups[gid] = append(qps, qp)
	return nil
}

// DetachMcast undoes AttachMcast. Destroy detaches from all groups.
func (qp *QP) DetachMcast(gid ib.GID) error {
	if !qp.e.mcast.detach(gid, qp) {
		return argError("detach multicast", "gid", fmt.Sprintf("not attached to %v", gid))
	}
	return nil
}

func (t *mcastTable) detach(gid ib.GID, qp *QP) bool {
	qps := t.groups[gid]
	i := slices.Index(qps, qp)
	if i < 0 {
		return false
	}
	if len(qps) == 1 {
		delete(t.groups, gid)
	} else {
		// A copy: the list may be in use by the delivery of a datagram.
		t.groups[gid] = slices.Delete(slices.Clone(qps), i, i+1)
	}
	return true
}

// detachAll removes qp from every group.
func (t *mcastTable) detachAll(qp *QP) {
	if qp.typ != ib.UD {
		return
	}
	for gid := range t.groups {
		t.detach(gid, qp)
	}
}

// handleMulticast delivers a datagram to every QP attached to its group. admit checks each QP's
// state, P_Key and Q_Key. p was decoded from rx once, and its ICRC verified once.
func (e *Engine) handleMulticast(now int64, p *ib.Packet, rx *RxPacket) {
	info := p.Opcode.Info()
	qps := e.mcast.groups[ib.GIDFromAddr(rx.Dst)]
	if len(qps) == 0 || info.Transport != ib.UD {
		e.drop(now, p, &e.counters.DropNoQP, "no QP in the group")
		return
	}
	taken := false
	for _, qp := range qps {
		if e.admit(now, qp, p, info, rx) {
			taken = true
			e.handleContained(now, qp, p, rx)
		}
	}
	if taken {
		e.counters.RcvdPkts++
		e.counters.RcvdBytes += uint64(len(rx.Data))
	}
}
