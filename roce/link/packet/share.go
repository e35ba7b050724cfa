package packet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/wire"
)

// leaseSlot leases a slot of the addresses, and returns its UDP sockets. They are nil if the
// addresses cannot be shared. Link-local ones are not: if their interface is made anew, the socket
// that reserves the port has to go there, and the others of its group could not.
func (l *Link) leaseSlot(addrs []netip.Addr, _ []int) ([]int, error) {
	if l.opts.Exclusive {
		l.alone = errors.New("the link was opened for itself")
		return nil, nil
	}
	if slices.ContainsFunc(addrs, netip.Addr.IsLinkLocalUnicast) {
		l.alone = errors.New("link-local addresses are not shared on this link")
		return nil, nil
	}
	var of []slots.Address
	for _, a := range addrs {
		of = append(of, slots.Address{Addr: a, Port: l.local.Port()})
	}
	open := slots.Open
	if l.spare {
		open = slots.OpenSpare
	}
	lease, err := open(of)
	var at *slots.AddressError
	switch {
	case errors.Is(err, slots.ErrUnsupported), errors.Is(err, slots.ErrForeign):
		l.alone = err
		return nil, nil
	case errors.As(err, &at):
		return nil, sockio.PortError(at.Addr, at.Err, l.local.Port())
	case err != nil:
		return nil, &link.OpenError{Err: err}
	}
	l.lease = lease
	var fds []int
	for i := range addrs {
		fds = append(fds, lease.Socket(i))
	}
	return fds, nil
}

func (l *Link) slot() ib.Slot {
	if l.lease == nil {
		return ib.Slot{}
	}
	return l.lease.Slot()
}

// ServeRequests has requests come to this link; see [link.Slotted]. All links see all of
// them.
func (l *Link) ServeRequests() error {
	if l.lease == nil {
		return nil
	}
	for i := range l.local.Addrs() {
		if err := l.lease.Serve(i); err != nil {
			return err
		}
	}
	return nil
}

// Announce reserves a service; see [link.Slotted].
func (l *Link) Announce(s mad.ServiceID, local netip.Addr) error {
	if l.lease == nil {
		return nil
	}
	switch err := l.lease.AnnounceAt(s, l.local.Addrs(), local); {
	case errors.Is(err, slots.ErrInUse):
		return link.ErrServiceInUse
	case err != nil:
		return os.NewSyscallError("announce", err)
	}
	return nil
}

// Withdraw undoes one Announce.
func (l *Link) Withdraw(s mad.ServiceID, local netip.Addr) {
	if l.lease != nil {
		l.lease.WithdrawAt(s, l.local.Addrs(), local)
	}
}

// seenByAll reports whether the filters of all links at the address let a datagram through: each
// then takes what is for it, and there is nothing to hand on.
func seenByAll(d *receive.Datagram) bool {
	if len(d.Data) < ib.BTHBytes {
		return true
	}
	qpn := ib.QPN(binary.BigEndian.Uint32(d.Data[4:])) & ib.QPNMask
	return qpn == ib.QPNGSI || qpn == ib.QPNMulticast
}

// handOn disposes of a packet that may be for another device. It returns false if it is for
// this one.
func (r *receiver) handOn(p *wire.RxPacket) bool {
	lease := r.l.lease
	own := int(lease.Slot().Index)
	i := max(slices.Index(r.l.local.Addrs(), p.Dst), 0) // groups are joined at any
	switch to := lease.For(i, p); {
	case to == own:
		return false
	case to == slots.Anyone:
		return !lease.Refuses(i)
	case to == slots.Nobody:
		if lease.Refuses(i) {
			r.split.Unasked.Add(1) // one of all that see it
		}
	case !r.all:
		lost, ok := lease.HandOn(i, to, p)
		r.lost(lost)
		if ok {
			r.split.On.Add(1)
		} else {
			r.split.Nobody.Add(1)
		}
	}
	return true
}

func (r *receiver) lost(n int) {
	if n > 0 {
		r.split.Lost.Add(uint64(n))
	}
}

// flushStrays sends on what was handed on.
func (r *receiver) flushStrays() {
	if r.l.lease != nil {
		r.lost(r.l.lease.Flush())
	}
}

// receiveAside reads what other devices have handed on, of which there rarely is any. It looks when
// a poll has said that there is, and now and then.
func (r *receiver) receiveAside() bool {
	r.turn++
	if !r.look && r.turn%asideTurns != 0 {
		return false
	}
	r.look = false
	for _, fd := range r.inboxes {
		if r.inbox == nil {
			r.inbox = make([]byte, slots.MaxStrays)
		}
		if n, err := unix.Read(fd, r.inbox); err == nil {
			r.look = true
			r.turn = 1 // frames are next
			r.strays = slots.ParseStrays(r.inbox[:n])
			return true
		}
	}
	return false
}

// handedIn fills a batch with what another device has handed on.
func (r *receiver) handedIn(batch []wire.RxPacket) (n int) {
	for n < len(batch) && r.strays.Next(&batch[n]) {
		if to := slots.Steer(batch[n].Data); to == slots.Requests || to == int(r.l.lease.Slot().Index) {
			r.split.HandedIn(&batch[n])
			n++
		}
	}
	return n
}

// noteAside notes after a poll what came aside.
func (r *receiver) noteAside() {
	for _, p := range r.fds[r.asideFrom:] {
		r.look = r.look || p.Revents != 0
	}
}
