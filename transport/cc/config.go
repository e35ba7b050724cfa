package cc

import (
	"fmt"
	"time"
)

// Algorithm identifies a controller and its parameters.
type Algorithm uint8

// The algorithms.
const (
	None          Algorithm = iota // only a window
	DCQCNPaper                     // DCQCN with the profile of its paper
	DCQCNMellanox                  // DCQCN with the defaults of ConnectX
	ByDelay                        // Delay; for RC
	numAlgorithms
)

var algorithmNames = [numAlgorithms]string{"none", "dcqcn-paper", "dcqcn-mellanox", "delay"}

// String returns the name that [ParseAlgorithm] accepts.
func (a Algorithm) String() string {
	if a < numAlgorithms {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Algorithms returns the names of all algorithms.
func Algorithms() []string { return algorithmNames[:] }

// ParseAlgorithm returns the algorithm named s.
func ParseAlgorithm(s string) (Algorithm, error) {
	for i, n := range algorithmNames {
		if n == s {
			return Algorithm(i), nil
		}
	}
	return None, fmt.Errorf("%q is not a congestion control: there are %v", s, Algorithms())
}

// DefaultLineRate is assumed for a port of unknown rate. A rate that is too high costs a few more
// cuts at the first congestion; one that is too low bounds a QP while it recovers.
const DefaultLineRate = 10 * Gbps

// Config selects the congestion control of QPs. The zero value selects none.
type Config struct {
	Algorithm Algorithm
	// LineRate is the rate of the port; 0 means DefaultLineRate.
	LineRate Rate
	// StartRate limits a QP from its first packet on; 0 means no limit until the first CNP, as in
	// DCQCN.
	StartRate Rate
	// Capped paces a QP at LineRate when nothing else limits it, as a NIC's port does. Otherwise a
	// QP hands over all that its window admits: a socket needs fewer calls for that, but the queue
	// before the wire is deep.
	Capped bool
	// CutOnNAK makes a sequence NAK, received or implied, cut the rate as a CNP does, whatever the
	// profile says. ConnectX-5 and 6 do that.
	CutOnNAK bool
	// Burst is the sending time of a batch; 0 means BurstNs. Negative sends packet by packet, for
	// simulations, where timers are exact and cost no system call.
	Burst time.Duration
	// Profile replaces the parameters of the algorithm; nil keeps them.
	Profile *Profile
	// Target is how long packets may wait on the way, for ByDelay; 0 means DefaultTarget. It
	// must exceed what hosts add to a round trip.
	Target time.Duration
}

// Check reports what is wrong with c.
func (c *Config) Check() error {
	switch {
	case c.Algorithm >= numAlgorithms:
		return fmt.Errorf("%v is unknown", c.Algorithm)
	case c.LineRate < 0:
		return fmt.Errorf("line rate %d is negative", c.LineRate)
	case c.StartRate < 0:
		return fmt.Errorf("start rate %d is negative", c.StartRate)
	case c.Target < 0 || c.Target > maxBurst:
		return fmt.Errorf("target of %v is not in 0..%v", c.Target, maxBurst)
	case c.Burst > maxBurst:
		return fmt.Errorf("burst of %v exceeds %v", c.Burst, maxBurst)
	case c.Profile != nil:
		return c.Profile.check()
	}
	return nil
}

// maxBurst bounds a batch, and the target: more than a second's worth is no pacing.
const maxBurst = time.Second

// ByRoundTrips reports whether NewDelay makes the controllers of RC QPs.
func (c *Config) ByRoundTrips() bool { return c.Algorithm == ByDelay }

// New returns the DCQCN controller of one QP, or nil for other algorithms. c must have passed
// Check.
func (c *Config) New() Controller {
	if c.Algorithm == None || c.ByRoundTrips() {
		return nil
	}
	p := Paper()
	if c.Algorithm == DCQCNMellanox {
		p = Mellanox()
	}
	if c.Profile != nil {
		p = *c.Profile
	}
	p.CutOnNAK = p.CutOnNAK || c.CutOnNAK
	d := NewDCQCN(p, c.line())
	if c.StartRate > 0 {
		d.startAt(min(c.StartRate, c.line()))
	}
	return d
}

func (c *Config) line() Rate {
	if c.LineRate == 0 {
		return DefaultLineRate
	}
	return c.LineRate
}

// Cap returns the rate of a QP that its controller does not limit; 0 means no limit.
func (c *Config) Cap() Rate {
	if c.Capped {
		return c.line()
	}
	return 0
}

// NewPacer returns the pacer of one QP.
func (c *Config) NewPacer() Pacer { return Pacer{burst: int64(c.Burst)} }
