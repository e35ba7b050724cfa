package endpoint

import (
	"net/netip"
	"os"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// Datagrams is where a link's receiving side gets datagrams.
type Datagrams interface {
	// Done tells that nothing of the last batch is in use any more.
	Done()
	// Take reads what has come, and reports whether it has found something.
	Take() (bool, error)
	// Advance starts, in the splitter, the next datagram of what was read; false if there is none.
	Advance() bool
}

// Receive prepares the receiving side of a link: what it reads from, and for what the packets are
// that come. handOn is called for each packet that may be for another device, and calls HandOn.
func (s *Share) Receive(b *Base, from Datagrams, reader *sockio.Reader, split *receive.Splitter,
	handOn func(p *edge.RxPacket) bool) {
	s.base, s.from, s.reader, s.split = b, from, reader, split
	if s.Lease != nil {
		split.Slot, split.HandOn = s.Lease.Slot(), handOn
	}
}

func (s *Share) recv(batch []edge.RxPacket, unverified bool) (int, error) {
	if err := s.base.Life.Err(); err != nil {
		return 0, err
	}
	if !s.split.Pending() {
		s.from.Done()
	}
	if len(batch) == 0 {
		return 0, nil // the loop below ends only with a packet, or when there is none
	}
	for {
		n := s.handedIn(batch)
		s.split.Batch(n, unverified)
		for n < len(batch) && !s.split.Ended() && (s.split.Pending() || s.from.Advance()) {
			n += s.split.Split(batch[n:])
		}
		s.split.Publish()
		s.flush()
		if n > 0 {
			return n, nil
		}
		// Reuse buffers only when the batch does not refer to them.
		if ok, err := s.from.Take(); !ok || err != nil {
			return 0, err
		}
	}
}

// ReadSocket makes one receive call on a socket, for up to limit datagrams, and notes what of its
// buffer is left. It skips pending errors, such as the ICMP error of an earlier send. later says
// that there may be datagrams although none was read.
func (s *Share) ReadSocket(fd, limit int, left *sockio.Unread) (n int, later bool, err error) {
	var errno unix.Errno
	for range sockio.ReadTries {
		if n, errno = s.reader.Read(fd, limit); !sockio.ReadAgain(errno) {
			break
		}
	}
	switch {
	case errno == 0:
	case errno == s.reader.Gone: // repeatedly
		left.Empty()
		return 0, false, nil
	case sockio.Passing(errno):
		left.Empty()
		return 0, errno != unix.EAGAIN, nil
	default:
		err := os.NewSyscallError("recvmmsg", errno)
		s.base.Fail(err)
		return 0, false, err
	}
	left.Took(s.reader)
	if n > 0 {
		s.split.Calls.Add(1)
		s.split.Received(n)
	}
	return n, false, nil
}

// Slotted returns the methods that links expose.
func (s *Share) Slotted() Slotted { return Slotted{s} }

// Slotted has the methods of a [link.Slotted] and a [link.Unverified] that are the same for all
// links with a Share. Links embed it.
type Slotted struct{ s *Share }

// Recv fills batch; see [link.Link].
func (l Slotted) Recv(batch []edge.RxPacket) (int, error) { return l.s.recv(batch, false) }

// RecvUnverified fills batch; see [link.Unverified].
func (l Slotted) RecvUnverified(batch []edge.RxPacket) (int, error) { return l.s.recv(batch, true) }

// Check checks a packet of the last batch; see [link.Unverified].
func (l Slotted) Check(i int, p *edge.RxPacket) bool { return l.s.split.Check(i, p) }

// Announce reserves a service; see [link.Slotted].
func (l Slotted) Announce(s mad.ServiceID, local netip.Addr) error { return l.s.announce(s, local) }

// Withdraw undoes one Announce.
func (l Slotted) Withdraw(s mad.ServiceID, local netip.Addr) { l.s.withdraw(s, local) }
