package simreport

import (
	"math/rand/v2"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
)

// Noise is that of a process that waits for a processor: once in EveryNs on average it does
// nothing, for LeastNs to MostNs. What comes meanwhile is handled at the end, at once. The zero
// value has none.
type Noise struct {
	EveryNs, LeastNs, MostNs int64
}

// noisyLink is a host whose process stalls.
type noisyLink struct {
	*sim.Link
	noise    Noise
	rng      *rand.Rand
	progress func()
	until    int64 // of a stall
	missed   bool
	runs     bool // of packets are one datagram
}

// Capabilities are those of the host.
func (x *noisyLink) Capabilities() link.Capabilities {
	c := x.Link.Capabilities()
	c.GSO = x.runs
	return c
}

// noisy returns a host with noise.
func noisy(l *sim.Link, n Noise, seed uint64, host int) *noisyLink {
	x := &noisyLink{Link: l, noise: n, rng: rand.New(rand.NewPCG(seed, uint64(host)))}
	x.plan(0)
	return x
}

// plan has the next stall happen.
func (x *noisyLink) plan(now int64) {
	if x.noise.EveryNs == 0 {
		return
	}
	x.Fabric().At(now+int64(x.rng.ExpFloat64()*float64(x.noise.EveryNs)), func() {
		x.stallUntil(x.Now() + x.noise.LeastNs + x.rng.Int64N(x.noise.MostNs-x.noise.LeastNs+1))
		x.plan(x.until)
	})
}

// stallUntil has the process do nothing until then.
func (x *noisyLink) stallUntil(at int64) {
	x.until = at
	x.Fabric().At(at, func() {
		if x.missed && x.progress != nil {
			x.missed = false
			x.progress()
		}
	})
}

// stalls reports whether the process does nothing now.
func (x *noisyLink) stalls() bool { return x.Now() < x.until }

// Attach is that of the host, but for stalls.
func (x *noisyLink) Attach(progress func()) {
	x.progress = progress
	if progress == nil {
		x.Link.Attach(nil)
		return
	}
	x.Link.Attach(func() {
		if x.missed = x.stalls(); !x.missed {
			progress()
		}
	})
}
