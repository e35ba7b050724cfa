package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

func errPrivate(n, limit int) string { return fmt.Sprintf("%d bytes, at most %d fit", n, limit) }

// lookup sends the SIDR_REQ.
func (id *ID) lookup(now int64, a *agent, p *ConnParam) error {
	private, err := id.private(p.PrivateData, MaxConnectPrivateUD)
	if err != nil {
		return err
	}
	id.conn, err = a.core.Resolve(now, cm.Lookup{
		Local: id.local.Addr(), Remote: id.remote.Addr(),
		Service: mad.NewServiceID(id.ps, id.remote.Port()), Private: private,
		Tries: id.tries, RetryNs: id.retryNs, ListenNs: int64(p.ListenWait),
	}, id)
	return err
}

// answerLookup sends the SIDR_REP.
func (id *ID) answerLookup(now int64, p *ConnParam) error {
	if len(p.PrivateData) > MaxAcceptPrivateUD {
		return argError("accept", "private data", errPrivate(len(p.PrivateData), MaxAcceptPrivateUD))
	}
	r := cm.LookupAnswer{QPN: p.QPN, QKey: p.QKey, Private: p.PrivateData}
	if id.qp != nil {
		r.QPN = id.qp.Num()
	}
	if r.QPN == 0 {
		return argError("accept", "QP", "missing")
	}
	if r.QKey == 0 {
		r.QKey = UDQKey
	}
	if err := id.conn.AnswerLookup(now, r); err != nil {
		return err
	}
	id.met = true
	return nil
}

// onResolved handles the answer to the lookup.
func (id *ID) onResolved(now int64, e *cm.Event) {
	m := e.SIDRRep
	if m.Status != mad.SIDRValid {
		id.over(now, Event{
			Type: EventRejected, PrivateData: e.Private,
			Err: &RejectedError{SIDRStatus: m.Status, Info: m.Info, PrivateData: e.Private, Remote: id.remote,
				datagram: true},
		})
		return
	}
	id.met = true
	id.event(Event{Type: EventEstablished, PrivateData: e.Private, UD: UDParam{
		AV: verbs.AddressVector{
			DGID: dgid(id.remote.Addr()), SGIDIndex: id.sgid, TrafficClass: id.tos, HopLimit: defaultHopLimit,
			FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()),
		},
		QPN: m.QPN, QKey: m.QKey,
	}})
}

// JoinMulticast joins a multicast group (rdma_join_multicast) on the interface of the ID's local
// address: the queue pair, if there is one, receives what is sent to the group. On RoCE the group
// needs no management beyond IGMP or MLD; the GID is the address. EventMulticastJoin follows, and
// says how to send to the group.
func (id *ID) JoinMulticast(group netip.Addr) error { return id.join(group, true) }

// JoinMulticastSendOnly is JoinMulticast for an ID that only sends to the group.
func (id *ID) JoinMulticastSendOnly(group netip.Addr) error { return id.join(group, false) }

func (id *ID) join(group netip.Addr, receive bool) error {
	const op = "join multicast"
	group = group.Unmap().WithZone("")
	if !group.IsMulticast() {
		return argError(op, "group", group.String()+" is not a multicast address")
	}
	return id.do(func(now int64, _ *agent) error {
		if err := id.requireState(op, idAddrResolved, idRouteResolved, idBound, idConnected); err != nil {
			return err
		}
		if id.ps != PortSpaceUDP {
			return argError(op, "ID", "of port space "+id.ps.String())
		}
		sgid := id.sgid
		if id.state() == idBound {
			if sgid = id.s.AddrIndex(id.local.Addr().WithZone("")); sgid < 0 {
				return argError(op, "ID", "is bound to no particular address")
			}
		}
		if !sameFamily(id.s.Addrs()[sgid], group) {
			return argError(op, "group", "of another family than the local address")
		}
		gid := dgid(group)
		if receive && id.qp != nil {
			if err := id.attachGroup(now, gid, sgid); err != nil {
				return err
			}
		}
		id.event(Event{Type: EventMulticastJoin, UD: UDParam{
			AV:  verbs.AddressVector{DGID: gid, SGIDIndex: sgid, HopLimit: defaultHopLimit, TrafficClass: id.tos},
			QPN: ib.QPNMulticast, QKey: UDQKey,
		}})
		return nil
	})
}

// attachGroup makes engine and link receive the group.
func (id *ID) attachGroup(now int64, gid ib.GID, sgid int) error {
	if slices.Contains(id.groups, gid) {
		return nil
	}
	l := core.Open(id.qp).Shard().Link()
	if err := id.onQP(now, func(int64) error {
		if err := core.Open(id.qp).QP().AttachMcast(gid); err != nil {
			return err
		}
		if err := l.Join(gid.Addr(), id.s.Addrs()[sgid]); err != nil {
			if errors.Is(err, link.ErrUnsupported) {
				err = verbs.ErrMulticast
			}
			_ = core.Open(id.qp).QP().DetachMcast(gid) // it has just been attached
			return err
		}
		return nil
	}); err != nil {
		return err
	}
	id.groups = append(id.groups, gid)
	id.sgid = sgid
	return nil
}

// leaveGroup undoes attachGroup. The lock is held.
func (id *ID) leaveGroup(now int64, gid ib.GID) {
	_ = core.Open(id.qp).Shard().Link().Leave(gid.Addr(), id.s.Addrs()[id.sgid]) // it was joined before
	// Fails if the queue pair is gone.
	_ = id.onQP(now, func(int64) error { return core.Open(id.qp).QP().DetachMcast(gid) })
}

// LeaveMulticast leaves a group (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	gid := dgid(group.Unmap().WithZone(""))
	return id.do(func(now int64, _ *agent) error {
		i := slices.Index(id.groups, gid)
		if i < 0 {
			return argError("leave multicast", "group", group.String()+" was not joined")
		}
		id.leaveGroup(now, gid)
		id.groups = slices.Delete(id.groups, i, i+1)
		return nil
	})
}
