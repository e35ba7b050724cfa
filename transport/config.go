package transport

import (
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/cc"
)

// Config is what an Engine is made from.
type Config struct {
	// GIDs is the table of local addresses; SGIDIndex selects from it.
	GIDs []netip.Addr
	// MTU is the active MTU of the port, the bound of every path MTU and of UD
	// messages.
	MTU ib.MTU
	// Mem is the table of registered memory, which the engines of a device share.
	Mem *mem.Table
	// Rand supplies QP numbers; crypto/rand.Reader in production.
	Rand io.Reader
	// Slot is the part of the QP numbers that come to this engine; zero is all.
	Slot ib.Slot
	// Tracer receives protocol events; nil for none.
	Tracer Tracer
	// Room is what the link can hold of what arrives. It bounds what READs ask for,
	// and is the first guess of what peers can hold. Zero bounds nothing.
	Room Room
	// GSO says that the link sends packets of one length as one datagram. Short WRITEs then
	// leave as packets of one length, unless Tuning.WholeMessages: see requester.apart.
	GSO bool
	// Tuning overrides protocol defaults; zero fields mean the default.
	Tuning Tuning
}

// Tuning are the knobs of the protocol that do not show in verbs attributes.
// A zero field means its default, stated in limits.go.
type Tuning struct {
	MaxUnackedPackets  int           // send window of a QP, packets
	AckReqInterval     int           // AckReq at least every so many packets of a message
	LossProbe          time.Duration // least time without an answer before a loss probe; negative for none
	SeqNAKRearm        time.Duration // a NAK for the same gap is repeated no sooner
	FatalLinger        time.Duration // how long a fatal NAK is repeated for duplicates
	DisableAckCoalesce bool          // acknowledge every AckReq by a packet of its own
	WholeMessages      bool          // every WRITE as FIRST, MIDDLE, LAST, every READ one request, also where others are faster
	PatientRetries     bool          // the ACK timeout doubles with each retry but the first, to four times, which IBTA 9.7.6.1.3 permits
	GoBackN            bool          // RC goes back after a loss, and keeps nothing that comes before its turn
	EndToEndCredits    bool          // responders advertise their posted receives (IBTA 9.7.7.2)

	// CNPGap is the least time between two congestion notifications of one
	// CNPScope; negative for none at all.
	CNPGap   time.Duration
	CNPScope cc.Scope

	// Congestion selects the congestion control of RC and UC QPs; the default is
	// none.
	Congestion cc.Config
}
