package paths

import (
	"fmt"
	"strings"
	"time"
)

// frameOverhead is what a packet costs on an Ethernet cable beyond its IP bytes: preamble, header,
// check sequence and gap. Rates are those of the cable.
const frameOverhead = 8 + 14 + 4 + 12

// linkMTU is that of the devices, and fullFrame what the longest packet takes.
const (
	linkMTU   = 1500
	fullFrame = linkMTU + frameOverhead
)

// Path is what each direction of a link is like. Zero is a link that only hands packets on.
type Path struct {
	Mbps   float64       // rate; 0 is without limit
	Delay  time.Duration // one way, after the last bit was sent
	Jitter time.Duration // up to so much more, at random; packets keep their order
	// Queue is how many packets of 1,500 bytes fit before the link; shorter ones take less. 0 is
	// without limit.
	Queue int
	Mark  int     // packets in the queue from which on those are marked that may be; 0 is never
	Loss  float64 // share of packets that are lost
	// Burst is how many packets in a row a loss takes on average, if more than 1; Loss stays the
	// share of all.
	Burst  float64
	Late   float64 // share of packets that three others overtake, if they come at the rate of the link
	Double float64 // share of packets that come twice
}

// String is the path in words.
func (p Path) String() string {
	var s []string
	add := func(is bool, format string, args ...any) {
		if is {
			s = append(s, fmt.Sprintf(format, args...))
		}
	}
	add(p.Mbps > 0, "%g Mb/s", p.Mbps)
	add(true, "%v round trip", 2*p.Delay)
	add(p.Jitter > 0, "up to %v more", p.Jitter)
	add(p.Queue > 0, "queue %d", p.Queue)
	add(p.Mark > 0, "marks from %d on", p.Mark)
	add(p.Loss > 0, "loss %g %%", p.Loss*100)
	add(p.Burst > 1, "in bursts of %g", p.Burst)
	add(p.Late > 0, "%g %% overtaken by three", p.Late*100)
	add(p.Double > 0, "%g %% twice", p.Double*100)
	return strings.Join(s, ", ")
}

// full is how long a round trip takes if the queue of one direction is full.
func (p *Path) full() time.Duration {
	rt := 2*p.Delay + 2*p.Jitter
	if p.Mbps > 0 {
		rt += time.Duration(float64(p.Queue*fullFrame*8) * 1e3 / p.Mbps)
	}
	return rt
}
