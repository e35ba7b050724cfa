package link

import (
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/wire"
)

// Link carries packets between a device and its peers.
type Link interface {
	// Now is the clock of the link in nanoseconds, monotonic, from an arbitrary
	// start. All times of the device are on this clock.
	Now() int64

	// Addrs returns the local addresses, in the order of the GID table.
	Addrs() []netip.Addr

	// MTU returns the largest path MTU that fits all interfaces of the addresses.
	MTU() ib.MTU

	// Send sends the packets in order. The descriptors are the link's to read
	// until it returns. See the package comment for what becomes of a packet
	// that cannot be sent now.
	//
	// A payload is registered memory, which may not be there any more (a mapped file
	// that was truncated). The device has an access to it panic; Send lets the panic pass. It
	// is then done with the packets before that one, and has not begun with those
	// after it; it may be called again at once.
	Send(batch []wire.TxPacket)

	// Blocked reports that packets wait in the link because the network would
	// not take more: the device should not make more until Wait has returned.
	Blocked() bool

	// Recv fills batch with packets that have arrived, and returns how many; 0
	// means that nothing is left of what had arrived when it was called. Their
	// Data is valid until the next call of Recv. The error is ErrClosed or fatal.
	Recv(batch []wire.RxPacket) (int, error)

	// Wait blocks until a packet may have arrived, the backlog can go out, Wake
	// is called, or timeout has passed; negative waits without bound.
	// Wakes that happened since the last Wait count. Only the receiving side
	// calls it. The error is ErrClosed or fatal.
	Wait(timeout time.Duration) error

	// Wake makes the current or the next Wait return.
	Wake()

	// Mark notes what has arrived, though more may keep coming. Only the receiving side calls it,
	// and CaughtUp.
	Mark()

	// CaughtUp reports whether Recv has handed up all that had arrived at the
	// last Mark: each queue of the link was found empty since, or as much was
	// taken out of it as it has room for.
	CaughtUp() bool

	// Join starts receiving what is sent to a multicast group on the interface of the local
	// address; Leave ends it. Joins are counted. The error wraps ErrUnsupported if the link has no
	// multicast.
	Join(group, local netip.Addr) error
	Leave(group, local netip.Addr) error

	// Watch has f called with the state of the interfaces at once, and again whenever it changes,
	// from a goroutine of the link. It replaces the f before; nil ends it. When
	// Watch or Close has returned, no earlier f is running.
	Watch(f func(PortState))

	// Returned takes the next datagram to queue pair 1 of a peer that has come back, since no
	// socket has the port at the peer's address (ICMP port unreachable): where it was sent to, and
	// its beginning from the BTH on, as far as it is quoted, which is valid until the next call.
	// The quote is nil if there is none. Anybody can make up such a message who knows the
	// addresses: what it quotes says whether it is one (package cm). Only the receiving side
	// calls it.
	Returned() (from netip.Addr, quote []byte)

	// SourcePort returns the UDP port that packets on the path leave from. Only the sending side
	// calls it.
	SourcePort(p *wire.Path) uint16

	// Capabilities says what the link does and which accelerations are on.
	Capabilities() Capabilities

	// Stats returns the counters.
	Stats() Stats

	// Close releases everything. Neither side is in use, nor later; closing again does
	// nothing. What may be called from anywhere still may.
	Close() error
}

// Driven is a link with a clock that moves only when it is driven: a
// simulation. The device then has no goroutine; whoever waits calls Step.
type Driven interface {
	Link

	// Attach gives the link the function by which it makes the device handle
	// what has arrived and run its timers. It is called once, before traffic,
	// and with nil when the device closes.
	Attach(progress func())

	// SetTimer says when the device wants progress to be called for its timers;
	// ok is false if it has none. It replaces the time said before.
	SetTimer(at int64, ok bool)

	// Step moves the clock to the next thing that happens anywhere in the
	// simulation, and lets it happen. It returns false if nothing will happen
	// by itself any more.
	Step() bool

	// Changed returns a channel that is closed when something new is to happen.
	// Taken before Step, it tells whoever got false from Step when to try again.
	Changed() <-chan struct{}
}

// Unverified is a link that can leave the check of the ICRC to who takes the packets, so that the
// payload is copied right after it was read for the check. That is less work than two passes over a
// batch.
type Unverified interface {
	Link
	// RecvUnverified is Recv, except that packets behind the first of a datagram may be
	// wire.ICRCUnknown.
	RecvUnverified(batch []wire.RxPacket) (int, error)
	// Checker checks those of the last batch, until the next call of RecvUnverified.
	wire.Checker
}

// Slotted is a link at whose addresses there may be others: those of other devices, of this process
// or of other processes of the same user, and more of the same device, so that it can do its work
// on as many CPUs. Each has a slot, which Capabilities tells.
type Slotted interface {
	// Another opens a link at the same addresses, with the same options, in another slot. The
	// caller owns it. An error says why there cannot be one more.
	Another() (Link, error)

	// ServeRequests has requests to queue pair 1, which name no slot, come to this link,
	// too: those for services that it has announced, and such for services that
	// nobody has, which are to be refused.
	ServeRequests() error

	// Announce reserves a service at a local address; an unspecified or invalid
	// one stands for all of them. The error wraps [ErrServiceInUse] if another device has it.
	// Announcements are counted; Withdraw undoes one.
	Announce(s mad.ServiceID, local netip.Addr) error
	Withdraw(s mad.ServiceID, local netip.Addr)
}

// PortState is what a link knows of the network interfaces under it.
type PortState struct {
	Up  bool   // at least one of the interfaces can carry packets
	MTU ib.MTU // largest path MTU that fits all of them; 0 if none does
}

// Wrapper is a middleware around another link. One whose Recv keeps packets for a
// later call has a CaughtUp of its own.
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

// Capabilities is what a link can do.
type Capabilities struct {
	Name string // "udp", "sim", "packet", "xdp"

	// Mode says by which of several ways the link is attached ("native zero-copy
	// multi-buffer"); empty for links that have but one.
	Mode string

	// ICRCBits is the strength of the check of received packets in bits: 32, or
	// 16 if the IPv4 identification is not seen and has to be solved for.
	// IPv6 is always checked with 32.
	ICRCBits int

	GSO       bool // sends runs of packets as one segmented datagram
	GRO       bool // receives runs of packets as one datagram
	ECN       bool // sends the traffic class of the path, reads that of packets
	Virtual   bool // the clock is virtual
	Scheduled bool // goroutines take turns: see Scheduler

	// Slot is the part of the queue pair numbers and communication IDs that a device on this link
	// uses: packets to others go to other devices at the same addresses, see [Slotted]. The
	// zero value is all numbers.
	Slot ib.Slot

	// Alone says why the link has its addresses for itself, though links of its kind share them: a
	// process that may not open as many files, a policy, another user. A second device at one of
	// them will not open. Empty if they are shared, or if links of this kind never share.
	Alone string

	SendBufferBytes int // socket buffers as granted, 0 if there are none
	RecvBufferBytes int

	// Room is what the link holds of what arrives until Recv takes it, and what
	// packets take of that; zero if there is no telling.
	Room wire.Room
}

// Stats are the counters of a link.
type Stats struct {
	TxPackets   uint64
	TxBytes     uint64 // BTH through ICRC
	TxDatagrams uint64 // what the packets were sent as; fewer with segmentation offload
	TxCalls     uint64 // system calls
	TxBlocked   uint64 // times the network would not take more
	TxDropped   uint64 // packets given up: no route, too long, no buffers
	// TxUnreachable are those of TxDropped for which there was no route, the
	// neighbour did not answer, or the interface was down.
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
	// RxOverflow counts datagrams that the kernel dropped because the receive
	// buffer was full (links that are told).
	RxOverflow uint64

	// RxHandedOn counts packets that had come in a datagram with some of this device, or were
	// requests, and were handed on to another device at the same address; RxHandedIn
	// those of RxPackets that came that way. RxHandedLost were to be handed on, but they were
	// requests beyond 10,000 a second, or the other device did not take more.
	RxHandedOn   uint64
	RxHandedIn   uint64
	RxHandedLost uint64
	// RxNobody counts packets for queue pairs of slots that no device at the address has. Most the
	// kernel drops, and every device there counts these (one link of each).
	RxNobody uint64
	// RxUnasked counts messages (REJ) about requests that no device at the address has got.
	RxUnasked uint64

	GSOFallbacks uint64 // times segmentation offload was refused and switched off
}
