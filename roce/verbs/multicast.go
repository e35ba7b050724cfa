package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link"
)

// membership is a group that the link has joined for a queue pair.
type membership struct {
	group ib.GID
	local netip.Addr
}

// AttachMulticast makes a UD queue pair receive datagrams for group, an IPv4 (as ::ffff:a.b.c.d) or
// IPv6 multicast address, on the interface of the local address gidIndex (ibv_attach_mcast). The
// link joins the group until DetachMulticast or Close. Attaching again changes nothing.
func (qp *QP) AttachMulticast(group ib.GID, gidIndex int) error {
	return qp.multicast("attach multicast", group, gidIndex, func(m membership, joined int) error {
		if err := qp.t.AttachMcast(group); err != nil || joined >= 0 {
			return err
		}
		if err := qp.s.Link().Join(group.Addr(), m.local); err != nil {
			qp.detachUnjoined(group)
			return multicastError("attach multicast", err)
		}
		qp.groups = append(qp.groups, m)
		return nil
	})
}

// DetachMulticast undoes AttachMulticast.
func (qp *QP) DetachMulticast(group ib.GID, gidIndex int) error {
	return qp.multicast("detach multicast", group, gidIndex, func(m membership, joined int) error {
		if joined < 0 {
			return qp.t.DetachMcast(group)
		}
		qp.groups = slices.Delete(qp.groups, joined, joined+1)
		qp.detachUnjoined(group)
		return multicastError("detach multicast", qp.s.Link().Leave(group.Addr(), m.local))
	})
}

// multicast calls f with the lock held, with what to join or leave, and its place in qp.groups.
func (qp *QP) multicast(op string, group ib.GID, gidIndex int, f func(m membership, joined int) error) error {
	switch {
	case qp.d.unmade():
		return access.ErrZero
	case !group.IsMulticast():
		return argError(op, "group", group.String()+" is not a multicast address")
	case gidIndex < 0 || gidIndex >= len(qp.d.s.Addrs()):
		return argError(op, "gidIndex", fmt.Sprintf("%d, of %d addresses", gidIndex, len(qp.d.s.Addrs())))
	case qp.d.s.Addrs()[gidIndex].Is4() != group.Addr().Is4():
		return argError(op, "gidIndex", "address of another family than the group")
	}
	m := membership{group, qp.d.s.Addrs()[gidIndex]}
	return doOn(qp.s, func(int64) error { return f(m, slices.Index(qp.groups, m)) })
}

// detachUnjoined detaches from a group in the engine, unless the link has joined it on an
// interface.
func (qp *QP) detachUnjoined(group ib.GID) {
	if !slices.ContainsFunc(qp.groups, func(m membership) bool { return m.group == group }) {
		_ = qp.t.DetachMcast(group) // it is attached
	}
}

// leaveGroups has the link leave the groups of a queue pair that has ended. The lock is held.
func (qp *QP) leaveGroups() {
	for _, m := range qp.groups {
		_ = qp.s.Link().Leave(m.group.Addr(), m.local) // it was joined
	}
	qp.groups = nil
}

func multicastError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, link.ErrUnsupported):
		err = ErrMulticast
	}
	return &OpError{Op: op, Err: err}
}
