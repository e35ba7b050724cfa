package verbs

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// AttachMulticast makes a UD queue pair receive datagrams for group, an IPv4 (as ::ffff:a.b.c.d) or
// IPv6 multicast address, on the interface of the local address gidIndex (ibv_attach_mcast). The
// link joins the group.
func (qp *QP) AttachMulticast(group ib.GID, gidIndex int) error {
	return qp.multicast("attach multicast", group, gidIndex, (*transport.QP).AttachMcast, link.Link.Join)
}

// DetachMulticast undoes AttachMulticast.
func (qp *QP) DetachMulticast(group ib.GID, gidIndex int) error {
	return qp.multicast("detach multicast", group, gidIndex, (*transport.QP).DetachMcast, link.Link.Leave)
}

func (qp *QP) multicast(op string, group ib.GID, gidIndex int,
	engine func(*transport.QP, ib.GID) error,
	net func(link.Link, netip.Addr, netip.Addr) error,
) error {
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
	return doOn(qp.s, func(int64) error {
		if err := engine(qp.t, group); err != nil {
			return err
		}
		if err := net(qp.s.Link(), group.Addr(), qp.d.s.Addrs()[gidIndex]); err != nil {
			if errors.Is(err, link.ErrUnsupported) {
				err = ErrMulticast
			}
			return &OpError{Op: op, Err: err}
		}
		return nil
	})
}
