package endpoint

import (
	"errors"
	"net/netip"
	"os"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// Share is how a [link.Slotted] shares its addresses with other devices. It shares nothing if that
// is impossible or unwanted.
type Share struct {
	Lease *slots.Lease // nil: the link does not share its addresses
	Alone error        // why not
	Spare bool         // the link was made by Another

	addrs []netip.Addr

	// Of the receiving side. Look says that others may have handed something on.
	Look   bool
	base   *Base
	from   Datagrams
	reader *sockio.Reader
	split  *receive.Splitter
	inbox  []byte // a message that was handed on
	strays slots.Strays
}

// Open leases a slot of the addresses of a link, which are on the interfaces with the indexes.
func (s *Share) Open(b *Base, indexes []int) error {
	s.addrs = b.addrs
	var of []slots.Address
	for i, a := range b.addrs {
		at := slots.Address{Addr: a, Port: b.port}
		if a.IsLinkLocalUnicast() && a.Is6() {
			at.Scope = indexes[i]
		}
		of = append(of, at)
	}
	open := slots.Open
	if s.Spare {
		open = slots.OpenSpare
	}
	lease, err := open(of)
	var at *slots.AddressError
	switch {
	case err == nil:
		s.Lease = lease
	case errors.Is(err, slots.ErrUnsupported), errors.Is(err, slots.ErrForeign):
		s.Alone = err
	case errors.As(err, &at):
		return sockio.PortError(at.Addr, at.Err, b.port)
	default:
		return &link.OpenError{Err: err}
	}
	return nil
}

// More returns why Another cannot open more links at the addresses, nil if it can.
func (s *Share) More() error {
	if s.Lease == nil {
		return &link.OpenError{Err: s.Alone}
	}
	return nil
}

// Slot returns the slot; the zero value if the link does not share its addresses.
func (s *Share) Slot() ib.Slot {
	if s.Lease == nil {
		return ib.Slot{}
	}
	return s.Lease.Slot()
}

// Describe adds the sharing to the capabilities.
func (s *Share) Describe(c *link.Capabilities) {
	c.Slot = s.Slot()
	if s.Alone != nil {
		c.Alone = s.Alone.Error()
	}
}

// Read adds the count of packets for slots that no device has.
func (s *Share) Read(o *link.Stats) {
	if s.Lease != nil && !s.Spare {
		o.RxNobody += s.Lease.Unheld()
	}
}

func (s *Share) announce(service mad.ServiceID, local netip.Addr) error {
	if s.Lease == nil {
		return nil
	}
	switch err := s.Lease.AnnounceAt(service, s.addrs, local); {
	case errors.Is(err, slots.ErrInUse):
		return link.ErrServiceInUse
	case err != nil:
		return os.NewSyscallError("announce", err)
	}
	return nil
}

func (s *Share) withdraw(service mad.ServiceID, local netip.Addr) {
	if s.Lease != nil {
		s.Lease.WithdrawAt(service, s.addrs, local)
	}
}

// Close releases the slot.
func (s *Share) Close() {
	if s.Lease != nil {
		s.Lease.Close()
	}
}

// Inboxes returns the sockets by which others hand packets on, one for each address.
func (s *Share) Inboxes() (fds []int) {
	if s.Lease != nil {
		for i := range s.addrs {
			fds = append(fds, s.Lease.Inbox(i))
		}
	}
	return fds
}

// HandOn gives a packet for address i to the device in another slot.
func (s *Share) HandOn(i, slot int, p *edge.RxPacket) {
	lost, ok := s.Lease.HandOn(i, slot, p)
	s.lost(lost)
	if ok {
		s.split.On.Add(1)
	} else {
		s.split.Nobody.Add(1)
	}
}

// flush sends the packets handed on.
func (s *Share) flush() {
	if s.Lease != nil {
		s.lost(s.Lease.Flush())
	}
}

func (s *Share) lost(n int) {
	if n > 0 {
		s.split.Lost.Add(uint64(n))
	}
}

// ReadInboxes reads a message of another device, if there is one, for Recv.
func (s *Share) ReadInboxes(fds []int) bool {
	for _, fd := range fds {
		if s.inbox == nil {
			s.inbox = make([]byte, slots.MaxStrays)
		}
		if n, err := unix.Read(fd, s.inbox); err == nil {
			s.Look = true
			s.strays = slots.ParseStrays(s.inbox[:n])
			return true
		}
	}
	return false
}

// handedIn fills a batch with packets that another device has handed on.
func (s *Share) handedIn(batch []edge.RxPacket) (n int) {
	for n < len(batch) && s.strays.Next(&batch[n]) {
		if to := slots.Steer(batch[n].Data); to == slots.Requests || to == int(s.Lease.Slot().Index) {
			s.split.HandedIn(&batch[n])
			n++
		}
	}
	return n
}

// Pending reports whether more packets were handed on.
func (s *Share) Pending() bool { return s.strays.Pending() }
