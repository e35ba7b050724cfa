package link

import (
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
)

// Link carries packets between a device and its peers.
type Link interface {
	// Now returns the link's time in nanoseconds: monotonic, from an arbitrary start. All times of
	// the device are on this clock.
	Now() int64

	// Addrs returns the local addresses, in the order of the GID table.
	Addrs() []netip.Addr

	// MTU returns the largest path MTU that fits all interfaces of the addresses.
	MTU() ib.MTU

	// Send sends the packets in order. The link may read the descriptors until it returns. See the
	// package comment for what happens to a packet that cannot be sent now.
	//
	// A payload is registered memory, which may have gone away (a mapped file that was truncated).
	// The device makes an access to it panic; Send lets the panic pass. It has then finished with
	// the packets before that one, and not begun with those after it; it may be called again at
	// once.
	Send(batch []edge.TxPacket)

	// Blocked reports that packets wait in the link because the network would not take more: the
	// device should not make more until Wait has returned.
	Blocked() bool

	// Recv fills batch with packets that have arrived, and returns how many; 0 means that nothing
	// is left of what had arrived at the call. Their Data is valid until the next call of Recv. The
	// error is ErrClosed or fatal.
	Recv(batch []edge.RxPacket) (int, error)

	// Wait blocks until a packet may have arrived, the backlog can go out, Wake is called, or
	// timeout has passed; a negative timeout is unlimited. A Wake since the last Wait counts. Only
	// the receiving side calls it. The error is ErrClosed or fatal.
	Wait(timeout time.Duration) error

	// Wake makes the current or the next Wait return.
	Wake()

	// Mark remembers what has arrived so far. Only the receiving side calls Mark and CaughtUp.
	Mark()

	// CaughtUp reports whether Recv has handed up everything that had arrived at the last Mark:
	// since then, each queue of the link was found empty, or as much was taken out of it as it can
	// hold.
	CaughtUp() bool

	// Join starts receiving packets for a multicast group on the interface of the local address;
	// Leave ends it. Joins are counted. The error wraps ErrUnsupported if the link has no
	// multicast.
	Join(group, local netip.Addr) error
	Leave(group, local netip.Addr) error

	// Watch calls f with the state of the interfaces, at once and whenever it changes, from a
	// goroutine of the link. It replaces the previous f; nil ends it. When Watch or Close has
	// returned, no earlier f is running.
	Watch(f func(PortState))

	// Returned returns the next datagram to queue pair 1 of a peer that came back because no
	// socket has the port at the peer's address, or because no way leads to that address: ICMP
	// destination unreachable, also from this host's own kernel when nobody answers ARP. The quote
	// is valid until the next call, and nil if there is none. Anyone who knows the addresses can
	// forge such a message; the content of the quote tells whether it is genuine (package cm).
	// Only the receiving side calls it.
	Returned() edge.Returned

	// SourcePort returns the UDP source port of packets on the path. Only the sending side calls
	// it.
	SourcePort(p *edge.Path) uint16

	// Capabilities says what the link can do and which accelerations are on.
	Capabilities() Capabilities

	// Stats returns the counters.
	Stats() Stats

	// Close releases everything. Neither side may be in use, then or later; closing again does
	// nothing. The methods that may be called from anywhere still may.
	Close() error
}

// Driven is a link whose clock moves only when it is driven: a simulation. The device then has no
// goroutine; callers that wait call Step.
type Driven interface {
	Link

	// Attach sets the function that makes the device handle what has arrived and run its timers. It
	// is called once, before traffic, and with nil when the device closes.
	Attach(progress func())

	// SetTimer sets the time at which progress must be called for the device's timers; ok is false
	// if there is none. It replaces the previous time.
	SetTimer(at int64, ok bool)

	// Step moves the clock to the next event anywhere in the simulation, and lets it happen. It
	// returns false if no event is left.
	Step() bool

	// Changed returns a channel that is closed when a new event is added. Taken before Step, it
	// tells a caller whose Step returned false when to try again.
	Changed() <-chan struct{}
}

// Pollable is a link for whose packets a thread can wait by descriptors, in place of Wait.
type Pollable interface {
	Link
	// Descriptors returns them: one can be read when Recv may find something, or Wake was called.
	// Only the receiving side calls Descriptors and Attend.
	Descriptors() []int
	// Attend comes before Recv where there is no Wait.
	Attend()
}

// Unverified is a link that can leave the check of the ICRC to the caller of Recv, so that the
// payload is copied right after the check has read it. That takes less time than two passes over a
// batch.
type Unverified interface {
	Link
	// RecvUnverified is Recv, except that packets after the first of a datagram may be
	// edge.ICRCUnknown.
	RecvUnverified(batch []edge.RxPacket) (int, error)
	// Checker checks those of the last batch, until the next call of RecvUnverified.
	edge.Checker
}

// Slotted is a link that can share its addresses with others: those of other devices, of this
// process or of other processes of the same user, and more of the same device, which can then use
// as many CPUs. Each has a slot, see Capabilities.
type Slotted interface {
	// Another opens a link at the same addresses, with the same options, in another slot. The
	// caller owns it. The error says why one more is impossible.
	Another() (Link, error)

	// ServeRequests makes requests to queue pair 1, which name no slot, also come to this link:
	// those for services that it has announced, and those for services that no link has announced,
	// which must be refused.
	ServeRequests() error

	// Announce reserves a service at a local address; an unspecified or invalid one stands for all
	// of them. The error wraps [ErrServiceInUse] if another device has it. Announcements are
	// counted; Withdraw undoes one.
	Announce(s mad.ServiceID, local netip.Addr) error
	Withdraw(s mad.ServiceID, local netip.Addr)
}

// PortState is the state of the network interfaces under a link.
type PortState struct {
	Up  bool   // at least one of the interfaces can carry packets
	MTU ib.MTU // largest path MTU that fits all of them; 0 if none does
}

// Wrapper is a middleware around another link. If its Recv keeps packets for a later call, it must
// have its own CaughtUp.
type Wrapper interface {
	Unwrap() Link
}

// As finds the first link in the chain of wrappers that is a T.
func As[T any](l Link) (T, bool) {
	for l != nil {
		if t, ok := l.(T); ok {
			return t, true
		}
		w, ok := l.(Wrapper)
		if !ok {
			break
		}
		l = w.Unwrap()
	}
	var zero T
	return zero, false
}

// Capabilities describes what a link can do.
type Capabilities struct {
	Name string // "udp", "sim", "packet", "xdp"

	// Mode says how the link is attached, if there are several ways ("native zero-copy
	// multi-buffer"); otherwise empty.
	Mode string

	// ICRCBits is the strength of the check of received packets in bits: 32, or 16 if the link
	// cannot see the IPv4 identification and must solve for it. IPv6 is always checked with 32.
	ICRCBits int

	GSO       bool // sends runs of packets as one segmented datagram
	GRO       bool // receives runs of packets as one datagram
	ECN       bool // sends the traffic class of the path, reads that of packets
	Virtual   bool // the clock is virtual
	Scheduled bool // goroutines take turns: see Scheduler

	// Slot is the range of queue pair numbers and communication IDs for a device on this link:
	// packets to others go to other devices at the same addresses, see [Slotted]. The zero value is
	// all numbers.
	Slot ib.Slot

	// Alone says why the link does not share its addresses, although links of its kind do: a limit
	// of open files, a policy, another user. A second device at one of them will not open. Empty if
	// they are shared, or if links of this kind never share.
	Alone string

	SendBufferBytes int // socket buffers as granted, 0 if there are none
	RecvBufferBytes int

	// Room is how much the link holds of what arrives until Recv takes it, and how much packets
	// take of that; zero if unknown.
	Room edge.Room
}

// Stats are the counters of a link.
type Stats struct {
	TxPackets   uint64
	TxBytes     uint64 // BTH through ICRC
	TxDatagrams uint64 // datagrams or frames that carried the packets; fewer with segmentation offload
	TxCalls     uint64 // system calls
	TxBlocked   uint64 // times that the network would not take more
	TxDropped   uint64 // packets given up: no route, too long, no buffers
	// TxUnreachable counts those of TxDropped for lack of a route or a neighbour's answer, or
	// because the interface was down.
	TxUnreachable uint64

	RxPackets   uint64 // packets handed up
	RxBytes     uint64
	RxDatagrams uint64
	RxCalls     uint64 // system calls that received something
	RxICRC      uint64 // dropped: ICRC wrong
	RxSolved    uint64 // IPv4 identification was solved for (16-bit check)
	RxShort     uint64 // dropped: too short to hold a BTH and an ICRC
	RxTruncated uint64 // dropped: longer than any packet
	RxMalformed uint64 // dropped: IP or UDP header wrong (links that see them)
	// RxOverflow counts datagrams that the kernel dropped because the receive buffer was full (on
	// links that can tell).
	RxOverflow uint64

	// RxHandedOn counts packets that were handed on to another device at the same address; they had
	// come in a datagram with packets of this device, or were requests. RxHandedIn counts those of
	// RxPackets that came like that. RxHandedLost counts packets to be handed on that were lost:
	// requests beyond 10,000 a second, or more than the other device took.
	RxHandedOn   uint64
	RxHandedIn   uint64
	RxHandedLost uint64
	// RxNobody counts packets for queue pairs of slots that no device at the address has. The
	// kernel drops most of them, and every device there counts these (one link of each).
	RxNobody uint64
	// RxUnasked counts messages (REJ) about requests that no device at the address has received.
	RxUnasked uint64

	GSOFallbacks uint64 // times that segmentation offload was refused and switched off
}
