package cc

// Rate is a sending rate in bits per second; 0 means no limit.
type Rate int64

// Multiples for writing rates.
const (
	Mbps Rate = 1e6
	Gbps Rate = 1e9
)

// Gbit returns the rate in Gb/s.
func (r Rate) Gbit() float64 { return float64(r) / float64(Gbps) }

// Controller limits one QP. The engine reports events in order of time, and calls Rate before it
// sends.
type Controller interface {
	// OnSend reports that bytes, counted as on an Ethernet cable, were sent in packets to which the
	// rate applies.
	OnSend(now int64, bytes int)
	// OnCNP reports a congestion notification for the QP.
	OnCNP(now int64)
	// OnNAK reports a sequence NAK or an implied one.
	OnNAK(now int64)
	// OnTimeout reports an ACK timeout.
	OnTimeout(now int64)

	// Rate returns the rate permitted now; 0 means no limit.
	Rate(now int64) Rate

	// State returns a snapshot at now, for tests, plots and counters.
	State(now int64) State
}

// State is the state of a controller. Fields that it does not use are 0.
type State struct {
	Current, Target      Rate
	Alpha                float64
	TimeSteps, ByteSteps int    // increase steps since the last cut
	Limiting             bool   // false: the QP may send as fast as it can
	Cuts                 uint64 // rate cuts so far
	BaseNs               int64  // shortest round trip
	Window               int    // packets
}
