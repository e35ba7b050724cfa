package roce

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/cm"
	"github.com/goroce/goroce/roce/link"
)

func errPrivate(n, limit int) string { return fmt.Sprintf("%d bytes, at most %d fit", n, limit) }

// lookup sends the SIDR_REQ.
func (id *CMID) lookup(now int64, a *cmAgent, p *ConnParam) error {
	private, err := id.private(p.PrivateData, MaxConnectPrivateUD)
	if err != nil {
		return err
	}
	id.conn, err = a.core.Resolve(now, cm.Lookup{
		Local: id.local.Addr(), Remote: id.remote.Addr(),
		Service: mad.NewServiceID(id.ps, id.remote.Port()), Private: private,
		Tries: id.tries, RetryNs: id.retryNs,
	}, id)
	return err
}

// answerLookup sends the SIDR_REP.
func (id *CMID) answerLookup(now int64, p *ConnParam) error {
	if len(p.PrivateData) > MaxAcceptPrivateUD {
		return &ArgError{"accept", "private data", errPrivate(len(p.PrivateData), MaxAcceptPrivateUD)}
	}
	r := cm.LookupAnswer{QPN: p.QPN, QKey: p.QKey, Private: p.PrivateData}
	if id.qp != nil {
		r.QPN = id.qp.num
	}
	if r.QPN == 0 {
		return &ArgError{"accept", "QP", "missing"}
	}
	if r.QKey == 0 {
		r.QKey = UDQKey
	}
	if err := id.conn.AnswerLookup(now, r); err != nil {
		return err
	}
	id.state = idConnected
	return nil
}

// onResolved takes the answer to the lookup.
func (id *CMID) onResolved(now int64, e *cm.Event) {
	m := e.SIDRRep
	if m.Status != mad.SIDRValid {
		id.over(now, CMEvent{
			Type: CMRejected, PrivateData: e.Private,
			Err: &RejectedError{SIDRStatus: m.Status, Info: m.Info, PrivateData: e.Private, Remote: id.remote, datagram: true},
		})
		return
	}
	id.state = idConnected
	id.event(CMEvent{Type: CMEstablished, PrivateData: e.Private, UD: UDParam{
		AV: AddressVector{
			DGID: dgid(id.remote.Addr()), SGIDIndex: id.sgid, TrafficClass: id.tos, HopLimit: defaultHopLimit,
			FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()),
		},
		QPN: m.QPN, QKey: m.QKey,
	}})
}

// JoinMulticast joins a multicast group (rdma_join_multicast) on the interface
// of the ID's local address: the queue pair, if there is one, receives what is
// sent to it. On RoCE the group needs no management beyond IGMP or MLD; the GID is the address. An event
// CMMulticastJoin follows, which says how to send to the group.
func (id *CMID) JoinMulticast(group netip.Addr) error { return id.join(group, true) }

// JoinMulticastSendOnly is JoinMulticast for an ID that only sends to the group.
func (id *CMID) JoinMulticastSendOnly(group netip.Addr) error { return id.join(group, false) }

func (id *CMID) join(group netip.Addr, receive bool) error {
	const op = "join multicast"
	group = group.Unmap().WithZone("")
	if !group.IsMulticast() {
		return &ArgError{op, "group", group.String() + " is not a multicast address"}
	}
	return id.do(func(int64, *cmAgent) error {
		if err := id.need(op, idAddrResolved, idRouteResolved, idBound, idConnected); err != nil {
			return err
		}
		if id.ps != PortSpaceUDP {
			return &ArgError{op, "ID", "of port space " + id.ps.String()}
		}
		sgid := id.sgid
		if id.state == idBound {
			if sgid = id.d.addrIndex(id.local.Addr().WithZone("")); sgid < 0 {
				return &ArgError{op, "ID", "is bound to no particular address"}
			}
		}
		if !sameFamily(id.d.addrs[sgid], group) {
			return &ArgError{op, "group", "of another family than the local address"}
		}
		gid := dgid(group)
		if receive && id.qp != nil {
			if err := id.attachGroup(gid, sgid); err != nil {
				return err
			}
		}
		id.event(CMEvent{Type: CMMulticastJoin, UD: UDParam{
			AV:  AddressVector{DGID: gid, SGIDIndex: sgid, HopLimit: defaultHopLimit, TrafficClass: id.tos},
			QPN: ib.QPNMulticast, QKey: UDQKey,
		}})
		return nil
	})
}

// attachGroup makes engine and link receive the group.
func (id *CMID) attachGroup(gid ib.GID, sgid int) error {
	if slices.Contains(id.groups, gid) {
		return nil
	}
	m, ok := link.As[link.Multicaster](id.d.link)
	if !ok {
		return ErrMulticast
	}
	if err := id.qp.t.AttachMcast(gid); err != nil {
		return err
	}
	if err := m.Join(gid.Addr(), id.d.addrs[sgid]); err != nil {
		_ = id.qp.t.DetachMcast(gid) // which has just been attached
		return err
	}
	id.groups = append(id.groups, gid)
	id.sgid = sgid
	return nil
}

// leaveGroup undoes attachGroup. The lock is held.
func (id *CMID) leaveGroup(gid ib.GID) {
	if m, ok := link.As[link.Multicaster](id.d.link); ok {
		_ = m.Leave(gid.Addr(), id.d.addrs[id.sgid]) // joined before
	}
	if id.qp != nil {
		_ = id.qp.t.DetachMcast(gid) // fails if the queue pair is gone
	}
}

// LeaveMulticast leaves a group (rdma_leave_multicast).
func (id *CMID) LeaveMulticast(group netip.Addr) error {
	gid := dgid(group.Unmap().WithZone(""))
	return id.do(func(int64, *cmAgent) error {
		i := slices.Index(id.groups, gid)
		if i < 0 {
			return &ArgError{"leave multicast", "group", group.String() + " was not joined"}
		}
		id.leaveGroup(gid)
		id.groups = slices.Delete(id.groups, i, i+1)
		return nil
	})
}
