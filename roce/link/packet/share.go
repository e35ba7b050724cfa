package packet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/transport/edge"
)

// leaseSlot leases a slot of the addresses, and returns its UDP sockets; they are nil if the
// addresses cannot be shared. Link-local addresses are not shared: if their interface is made anew,
// the socket that reserves the port must move there, and the others of its group could not.
func (l *Link) leaseSlot(addrs []netip.Addr, indexes []int) (fds []int, err error) {
	switch {
	case l.opts.Exclusive:
		l.share.Alone = errors.New("the link was opened for itself")
	case slices.ContainsFunc(addrs, netip.Addr.IsLinkLocalUnicast):
		l.share.Alone = errors.New("link-local addresses are not shared on this link")
	default:
		err = l.share.Open(&l.local.Base, indexes)
	}
	if l.share.Lease != nil {
		for i := range addrs {
			fds = append(fds, l.share.Lease.Socket(i))
		}
	}
	return fds, err
}

// ServeRequests makes requests come to this link; see [link.Slotted]. All links see all of them.
func (l *Link) ServeRequests() error {
	if l.share.Lease == nil {
		return nil
	}
	for i := range l.local.Addrs() {
		if err := l.share.Lease.Serve(i); err != nil {
			return err
		}
	}
	return nil
}

// seenByAll reports whether the filters of all links at the address pass a datagram: then each
// takes its own packets, and nothing is handed on.
func seenByAll(d *receive.Datagram) bool {
	if len(d.Data) < ib.BTHBytes {
		return true
	}
	qpn := ib.QPN(binary.BigEndian.Uint32(d.Data[4:])) & ib.QPNMask
	return qpn == ib.QPNGSI || qpn == ib.QPNMulticast
}

// handOn handles a packet that may be for another device. It returns false if the packet is for
// this one.
func (r *receiver) handOn(p *edge.RxPacket) bool {
	lease := r.l.share.Lease
	own := int(lease.Slot().Index)
	i := max(slices.Index(r.l.local.Addrs(), p.Dst), 0) // groups are joined at any
	switch to := lease.For(i, p); {
	case to == own:
		return false
	case to == slots.Anyone:
		return !lease.Refuses(i)
	case to == slots.Nobody:
		if lease.Refuses(i) {
			r.split.Unasked.Add(1) // counted by only one of the links that see it
		}
	case !r.all:
		r.l.share.HandOn(i, to, p)
	}
	return true
}

// lookAside looks at what other devices have handed on, which is rare: when a poll has announced
// some, and now and then. What it finds waits until all that had come to the sockets by then is
// handled, as in package udp.
func (r *receiver) lookAside() {
	r.l.share.Look = false
	r.inboxes = r.inboxes[:0]
	if n, err := unix.Poll(r.asideFDs, 0); n == 0 || err != nil {
		return
	}
	for _, p := range r.asideFDs {
		if p.Revents != 0 {
			r.inboxes = append(r.inboxes, int(p.Fd))
		}
	}
	r.awaits = true
	for _, s := range r.socks {
		s.before.mark(s)
	}
}

// drained reports whether what waits aside has waited long enough.
func (r *receiver) drained() bool {
	return !slices.ContainsFunc(r.socks, func(s *rxSocket) bool { return !s.before.none() })
}

// receiveAside takes a message that lookAside has found.
func (r *receiver) receiveAside() bool {
	r.awaits = false
	return r.l.share.ReadInboxes(r.inboxes)
}

// noteAside records after a poll that something came aside.
func (r *receiver) noteAside() {
	for _, p := range r.fds[r.asideFrom:] {
		r.l.share.Look = r.l.share.Look || p.Revents != 0
	}
}
