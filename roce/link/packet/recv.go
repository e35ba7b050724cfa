package packet

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// fullFD is the index, among the descriptors of a poll, of the socket that is full.
const fullFD = 2

// receiver is the receiving side of the link.
type receiver struct {
	l     *Link
	socks []*rxSocket
	fds   []unix.PollFd // the poller's, sending socket, receiving sockets
	next  int           // socket to look at first

	from   *rxSocket // the current source
	reader *sockio.Reader
	// inUse says that packets of the reader's buffers were handed up or will be: the buffers must
	// not be overwritten.
	inUse bool
	// later says that a frame in the queue could not be read, for a reason that passes.
	later bool
	split receive.Splitter

	// inboxes, in fds from asideFrom on, are for packets that other devices hand on.
	asideFrom int
	asideFDs  []unix.PollFd // the same
	inboxes   []int         // those that had some at the last look
	awaits    bool          // they wait for what had come to socks before
	turn      int
	all       bool // other devices at the address see the frame, too

	overflow atomic.Uint64
	// statsMu guards open: reading the kernel's counters resets them.
	statsMu sync.Mutex
	open    bool
}

func (r *receiver) init(l *Link) error {
	r.l = l
	r.split.Init(l.local.Port())
	r.reader = sockio.NewReader(rxBufferBytes, l.opts.RxBuffers)
	r.reader.Gone = unix.EINVAL // a frame that the virtio header cannot express
	for _, ip6 := range []bool{false, true} {
		used := false
		for _, a := range l.local.Addrs() {
			used = used || a.Is6() == ip6
		}
		if !used {
			continue
		}
		s, err := l.openReceive(ip6)
		if err != nil {
			return err
		}
		r.socks = append(r.socks, s)
	}
	r.fds = append(l.local.Waker.First(), unix.PollFd{Fd: -1, Events: unix.POLLOUT}) // at fullFD
	for _, s := range r.socks {
		r.fds = append(r.fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	r.asideFrom = len(r.fds)
	l.share.Receive(&l.local.Base, r, r.reader, &r.split, r.handOn)
	for _, fd := range l.share.Inboxes() {
		r.asideFDs = append(r.asideFDs, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	r.fds = append(r.fds, r.asideFDs...)
	r.open = true
	return nil
}

func (r *receiver) close(shut func(fd int)) {
	r.statsMu.Lock()
	defer r.statsMu.Unlock()
	r.open = false
	for _, s := range r.socks {
		_ = s.ring.close()
		shut(s.fd)
	}
}

func (r *receiver) readStats(o *link.Stats) {
	r.statsMu.Lock()
	if r.open {
		for _, s := range r.socks {
			if k, errno := statistics(s.fd); errno == 0 {
				r.overflow.Add(uint64(k.drops))
			}
		}
	}
	r.statsMu.Unlock()
	r.split.Read(o)
	o.RxOverflow = r.overflow.Load()
}

// Done gives the slots of the rings back.
func (r *receiver) Done() {
	r.inUse = false
	for _, s := range r.socks {
		s.ring.giveBack()
	}
}

// Take takes frames, and packets that others have handed on.
func (r *receiver) Take() (bool, error) {
	r.inUse = false
	if r.later {
		r.later = false
		return false, nil // the frame is still there, and Wait ends at once
	}
	r.turn++
	if !r.awaits && len(r.asideFDs) > 0 && (r.l.share.Look || r.turn%asideTurns == 0) {
		r.lookAside()
	}
	if r.awaits && r.drained() && r.receiveAside() {
		return true, nil
	}
	if ok, err := r.receive(); ok || err != nil {
		return ok, err
	}
	return r.awaits && r.receiveAside(), nil
}

// receive finds the next socket that has frames. It takes them from its queue, or leaves them in
// its ring.
func (r *receiver) receive() (bool, error) {
	for range r.socks {
		s := r.socks[r.next]
		if r.next++; r.next == len(r.socks) {
			r.next = 0
		}
		r.from = s
		if s.ring != nil {
			s.ring.giveBack()
			if kind, _ := s.ring.look(0); kind != slotEmpty {
				return true, nil
			}
			r.emptied()
			continue
		}
		n, _, err := r.l.share.ReadSocket(s.fd, sockio.MaxReadBatch, &s.marked.queue)
		if n > 0 {
			s.before.queue.Took(r.reader)
		} else {
			s.before.queue.Empty()
		}
		if n > 0 || err != nil {
			return n > 0, err
		}
	}
	return false, nil
}

// Advance moves to the next frame that may hold packets.
func (r *receiver) Advance() bool {
	for {
		if _, h, b, ok := r.reader.Next(); ok {
			if h.Flags&unix.MSG_TRUNC != 0 {
				r.split.Truncated.Add(1)
			} else if r.begin(b) {
				r.inUse = true
				return true
			}
			continue
		}
		if r.from == nil || r.from.ring == nil {
			return false
		}
		ring := r.from.ring
		switch kind, b := ring.look(0); kind {
		case slotEmpty:
			r.emptied()
			return false
		case slotLost:
			r.overflow.Add(1)
			r.take(1)
		case slotWhole:
			r.take(1)
			r.split.Received(1)
			if r.begin(b) {
				return true
			}
		case slotQueued:
			if r.inUse {
				return false // in the next batch
			}
			// Read only those, to hand them up in the order of arrival. A frame that cannot be read
			// any more still has its slot.
			n, later, err := r.l.share.ReadSocket(r.from.fd, ring.queued(sockio.MaxReadBatch), &r.from.marked.queue)
			if later || err != nil {
				r.from.marked.slots, r.later = 0, true // timers do not wait for it
				return false
			}
			r.take(max(n, 1))
		}
	}
}

// take consumes n slots of the ring.
func (r *receiver) take(n int) {
	r.from.ring.take(n)
	r.from.marked.slots -= n
	r.from.before.slots -= n
}

// emptied notes that the ring was empty.
func (r *receiver) emptied() { r.from.marked.slots, r.from.before.slots = 0, 0 }

// Mark remembers what is in the sockets; see [link.Link].
func (l *Link) Mark() {
	for _, s := range l.rx.socks {
		s.marked.mark(s)
	}
	l.checkSockets() // nothing else would tell a caller that only polls
}

// checkSockets ends the link if a socket with a ring no longer exists: reading the ring would not
// notice.
func (l *Link) checkSockets() {
	for _, s := range l.rx.socks {
		if s.ring == nil {
			continue
		}
		if errno := sockio.Check(s.fd); errno != 0 {
			l.local.Fail(os.NewSyscallError("getsockopt", errno))
		}
	}
}

// CaughtUp reports whether that was handed up.
func (l *Link) CaughtUp() bool {
	r := &l.rx
	for _, s := range r.socks {
		if !s.marked.none() {
			return false
		}
	}
	return !r.split.Pending() && !r.reader.Pending() && !l.share.Pending()
}

// begin moves to the packets of a frame.
func (r *receiver) begin(b []byte) bool {
	var d receive.Datagram
	if !parseFrame(&d, b, r.from.vnet, r.l.local.Port()) {
		r.split.Malformed.Add(1)
		return false
	}
	r.all = seenByAll(&d)
	return r.mine(&d) && r.split.Begin(&d)
}

// mine reports whether a frame is for an address of the link. The filter has checked it unless
// there are too many addresses.
func (r *receiver) mine(d *receive.Datagram) bool {
	dst := d.Source.Dst
	checked := maxFilterAddrs4
	if dst.Is6() {
		checked = maxFilterAddrs6
	}
	return len(r.l.local.Addrs()) <= checked || dst.IsMulticast() || slices.Contains(r.l.local.Addrs(), dst)
}
