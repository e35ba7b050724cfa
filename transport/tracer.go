package transport

import "github.com/goroce/goroce/ib"

// Tracer receives protocol events. The engine calls it with the shell's lock held; methods must not
// call back into the engine.
type Tracer interface {
	Trace(TraceEvent)
}

// TraceKind says what a TraceEvent reports.
type TraceKind uint8

// The kinds.
const (
	TraceTxPacket TraceKind = iota
	TraceRxPacket
	TraceDrop // Detail says why
	TraceRetransmit
	TraceTimeout
	TraceRNRWait
	TraceNAKSent
	TraceNAKReceived
	TraceState // QP changed its state
	TraceCompletion
	TraceRateCut // congestion control cut the rate of the QP
)

// TraceEvent is one protocol event.
type TraceEvent struct {
	Now    int64
	Kind   TraceKind
	QPN    ib.QPN
	Opcode ib.Opcode
	PSN    ib.PSN
	Detail string
}
