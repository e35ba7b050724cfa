package transport

import (
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/cc"
)

// Config configures an Engine.
type Config struct {
	// GIDs is the table of local addresses; SGIDIndex selects from it.
	GIDs []netip.Addr
	// MTU is the active MTU of the port. It bounds every path MTU and the length of UD messages.
	MTU ib.MTU
	// Mem is the table of registered memory, shared by all engines of a device.
	Mem *mem.Table
	// Rand supplies random QP numbers; use crypto/rand.Reader in production.
	Rand io.Reader
	// Slot is this engine's part of the QP numbers; the zero value is all of them.
	Slot ib.Slot
	// Tracer receives protocol events; nil for none.
	Tracer Tracer
	// Room says how much arriving data the link can hold. It bounds what READs request, and is the
	// first guess of what peers can hold. Zero bounds nothing.
	Room Room
	// GSO says that the link sends packets of equal length as one datagram. Short WRITEs then leave
	// as packets of equal length, unless Tuning.WholeMessages is set: see requester.apart.
	GSO bool
	// Tuning overrides protocol defaults; zero fields select the default.
	Tuning Tuning
}

// Tuning holds the protocol settings that verbs attributes do not cover. A zero field selects the
// default of limits.go.
type Tuning struct {
	MaxUnackedPackets  int           // send window of a QP, packets, also at first
	AckReqInterval     int           // most packets of a message without AckReq
	LossProbe          time.Duration // least silence before a loss probe; negative: none
	SeqNAKRearm        time.Duration // least time between two NAKs of the same gap
	FatalLinger        time.Duration // how long duplicates get the fatal NAK again
	DisableAckCoalesce bool          // acknowledge every AckReq with a packet of its own
	WholeMessages      bool          // never split WRITEs and READs into messages of a packet
	PatientRetries     bool          // retries after the first double the ACK timeout, to 4x
	GoBackN            bool          // RC goes back after a loss and keeps no early packets
	EndToEndCredits    bool          // responders advertise their posted receives (IBTA 9.7.7.2)

	// CNPGap is the least time between two congestion notifications of one CNPScope; negative turns
	// them off.
	CNPGap   time.Duration
	CNPScope cc.Scope

	// Congestion selects the congestion control of RC and UC QPs; the default is none.
	Congestion cc.Config
}
