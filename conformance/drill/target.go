package drill

import (
	"context"
	"net/netip"
	"time"

	"github.com/goroce/goroce/conformance/peer"
)

// Target is an implementation under test with a wire to it.
type Target interface {
	// Name says what it is: "engine", "udp", "rxe 6.12".
	Name() string
	// Profile is what is to be expected where implementations differ.
	Profile() Profile
	// Has reports whether a drill that needs a feature can run.
	Has(f Feature) bool
	// Open makes a place for one drill.
	Open(ctx context.Context) (Bench, error)
	// Close ends the target.
	Close() error
}

// Bench is a target during one drill. One goroutine uses it.
type Bench interface {
	// Session makes verbs objects at the peer under test. Objects of different sessions are of
	// different protection domains.
	Session() (peer.Session, error)
	// Peer and Local are the addresses of the peer and of the drill. Stranger is an address of
	// the drill that the peer has no connection to. They are invalid if there is none.
	Peer(f peer.Family) netip.Addr
	Local(f peer.Family) netip.Addr
	Stranger(f peer.Family) netip.Addr

	// Now is the time since Open.
	Now() time.Duration
	// Send puts a datagram on the wire.
	Send(d Datagram) error
	// Recv waits for the next datagram from the peer; false if none has come within the time.
	Recv(within time.Duration) (Datagram, bool, error)
	// Await calls done until it reports true, or the time is over, and lets time pass in between.
	// done itself may block for as long as it is told.
	Await(within time.Duration, done func(wait time.Duration) (bool, error)) error
	// Silence is how long to listen before it is believed that nothing comes, if a script
	// asks for a time: longer where the machines are slow.
	Silence(asked time.Duration) time.Duration
	// Listen has the peer accept connections (peer.RC) or lookups (peer.UD) of RDMA-CM, and
	// returns the port.
	Listen(t peer.Type) (port int, err error)
	// Uplink has the peer's own machine drop, as a full queue there does, the frames of more than
	// most bytes that are to leave; 0 lets all pass again, as does Close.
	Uplink(most int) error
	Close() error
}

// Datagram is a UDP datagram to or from port 4791.
type Datagram struct {
	At       time.Duration // when it was received or sent
	Late     time.Duration // At may be that much too late: there was no time stamp
	Src, Dst netip.Addr
	SrcPort  uint16
	TOS      uint8 // or traffic class
	// FlowLabel is that of IPv6, on what was received.
	FlowLabel uint32
	Payload   []byte
	// BadICRC is set on what was received with a wrong ICRC, and on what was sent with one.
	BadICRC bool
	// Sent is set on what the drill has sent.
	Sent bool
}
