package cc

import (
	"math"
	"slices"
	"time"
)

// Round is what one round trip showed: of a packet that requested an answer, from its departure to
// the answer. One packet is timed at a time.
type Round struct {
	RTT      int64 // ns
	Arrived  int   // packets that the peer was found to have since departure
	ArriveNs int64 // time for these: since the last find before departure
	Sent     int   // packets that left since the packet of the round before did
	SendNs   int64 // time for these; 0 if unknown
	Bytes    int   // their mean length on an Ethernet cable
	GapNs    int64 // longest time without such a find
	Lost     int   // packets found lost since the round before
	Idle     bool  // sometimes there was nothing to send
	Late     bool  // the answer waited for a lost packet: the round trip is shorter
}

// Delay controls a QP by its round trips, and needs nothing from switches or the peer except
// acknowledgements. Like BBR (Cardwell et al., 2016) it models the path by two numbers: the highest
// rate at which packets arrive, and the shortest round trip. Their product must be in flight to
// keep the path busy. Delay admits that product and some spare packets, which form the queue.
//
// Most paths need no control: the window of a QP holds less than they carry within the target. So
// Delay begins free, and sets no limit while round trips are shorter than the target. The target
// must exceed the delay that hosts add, or their noise looks like a queue.
//
// A loss alone is no sign, or a path with random loss would never be full. More than one loss in
// fifty with long round trips means that a queue is full, so Delay reduces the packets in flight.
// If a tenth is lost without long round trips, the shortest one may include a full queue, which
// many flows that begin together never see empty; a long ebb tells.
//
//	free     round trips are shorter than the target: no limit
//	startup  doubles in each round, until that brings no more (BBR)
//	ebb      few packets in flight, so that round trips show the path without this QP's queue
//	         (BBR's probe): after startup, when no round trip was as short for a while, after
//	         heavy loss, and to detect rivals. A slow flow stays longer: there may be many, and
//	         the queue only empties if they ebb together
//	steady   cycles of 8 rounds: one admits an eighth beyond what the path holds, to drain the
//	         queue; the others add the spare packets, similar to FAST TCP: see spare
//	rival    as TCP: see rivalry
//
// Processes at both ends wait for processors. Meanwhile nothing comes, and the path is empty unless
// there is a queue. So Delay admits enough packets more to cover most of the longest recent wait.
type Delay struct {
	target  int64 // ns
	most    int   // packets of the window without control
	ceiling int   // most packets ever admitted

	rivalry

	mode   delayMode
	step   uint8 // round of the cycle, in steady
	rounds uint8 // rounds in this mode

	rates [rateRounds]float64 // of the last rounds, in packets per second
	rate  float64             // third largest of rates; in startup the largest
	next  uint8               // index in rates to replace next

	stallNs int64 // longest recent time that one end did nothing
	baseNs  int64 // shortest round trip; 0 if none was seen
	baseAt  int64 // when baseNs, or an equally short round trip, was last seen
	floorNs int64 // shortest round trip of all, until the path gets longer
	longer  uint8 // consecutive ebbs without a round trip near floorNs
	ebbNs   int64 // shortest round trip of this ebb
	ebbAt   int64 // when the ebb began
	ebbEnd  int64 // earliest end of the ebb
	lastNs  int64 // last round trip
	grown   float64
	plateau uint8 // rounds of startup that brought no more
	long    uint8 // consecutive rounds longer than the target, while free

	more  float64 // factor of what the path holds, in steady, while no queue is seen
	empty uint8   // consecutive rounds of that

	full    int // packets that a queue did not hold; 0 if unknown
	arrived int // since the last check of losses
	lost    int
	bytes   int  // length of a packet
	silent  bool // a timeout, and nothing came since
	deep    bool // the ebb leaves as few packets as possible
	anew    bool // the ebb learns the rate again: flows that begin together overestimate it
	deepAt  int64
	cutAt   int64
	cuts    uint64
}

type delayMode uint8

const (
	delayFree delayMode = iota
	delayStartup
	delayEbb
	delaySteady
	delayRival
)

// DefaultTarget is the default target of Delay. Shorter waits for a processor do not count as a
// queue.
const DefaultTarget = time.Millisecond

const (
	rateRounds   = 10 // rounds that count for the rate: more than a cycle
	rateRank     = 3  // rank of the rate among them, by size
	cycleRounds  = 8  // rounds of a cycle in steady
	leastPackets = 2  // least packets admitted
	spareFactor  = 2.5
	emptyRounds  = 2    // consecutive rounds without a queue that show room for more
	moreGain     = 1.25 // of the window in each such round
	seekTargets  = 4    // targets of a path that is long enough to seek room
	stallTargets = 2    // longest stall, in targets
	stallRounds  = 64   // rounds until a stall is forgotten, roughly
	stallPart    = 0.8  // part of a stall that is covered; the rest lets flows become equal
	gapPackets   = 8    // packets that come at once without a stall
	keptRate     = 0.75 // part of the rate kept after a deep ebb that does not learn it again
	longRounds   = 3    // consecutive long rounds that end freedom
	startupGain  = 2.0  // of rate and window in startup
	steadyGain   = 1.25 // of the rate: the window is what bounds
	cnpCut       = 0.85
	fullCut      = 0.85 // part still admitted when a queue is full
	lossPackets  = 64   // least packets between two checks of losses
	fullLoss     = 50   // with long round trips, one loss in this many shows a full queue
	longPackets  = 64   // a path that holds more would learn the rate again for too long
	longerEbbs   = 10   // ebbs without a round trip near the shortest; after that the path counts as longer
	heavyLoss    = 10   // one loss in this many shows that without long round trips
	ebbTargets   = 1000 // targets between two ebbs
	ebbPackets   = 128  // packets that could leave in an ebb
	ebbTrips     = 100  // or round trips between two ebbs, if that is longer
)

// NewDelay returns a controller for a QP that sends up to most packets without control and, on a
// long path, up to ceiling with it.
func NewDelay(target time.Duration, most, ceiling int) *Delay {
	if target == 0 {
		target = DefaultTarget
	}
	return &Delay{target: int64(target), most: most, ceiling: max(ceiling, most)}
}

// Begin sets the shortest round trip so far.
func (d *Delay) Begin(leastNs int64) { d.baseNs, d.floorNs = leastNs, leastNs }

// Free reports whether there is no limit.
func (d *Delay) Free() bool { return d.mode == delayFree }

// OnRound takes one round.
func (d *Delay) OnRound(now int64, r *Round) {
	rate := float64(r.Arrived) * 1e9 / float64(max(r.ArriveNs, 1))
	if r.SendNs > 0 { // answers that waited for each other come at once: not so many were sent
		rate = min(rate, float64(r.Sent)*1e9/float64(r.SendNs))
	}
	if r.Bytes > 0 {
		d.bytes = r.Bytes
	}
	if !r.Late {
		d.lastNs = r.RTT
	}
	d.rounds = min(d.rounds+1, 100)
	d.trip(now, r.RTT)
	if d.mode == delayFree {
		d.watch(now, r, rate)
		return
	}
	if d.mode != delayEbb || !d.deep || d.anew || rate > d.rate {
		d.sample(rate, r.Idle)
	}
	d.stall(r)
	d.lossOf(now, r)
	switch d.mode {
	case delayStartup:
		d.grow(now, r)
	case delayEbb:
		if d.rounds >= 2 && now >= d.ebbEnd {
			if d.foundRivals() {
				return
			}
			if d.deep && !d.anew {
				d.rate *= keptRate
				d.fill()
			}
			d.settle()
			d.enter(delaySteady)
			d.step = 2 + uint8(now>>10%(cycleRounds-2)) // spreads flows that begin together
		}
	case delaySteady:
		d.turn(now, r)
	case delayRival:
		d.compete(now, r)
	}
}

// settle takes the shortest round trip of an ebb for that of the path. It may include the queue of
// others who did not see the path empty either, so it counts for no more than a target above the
// shortest one of all. If that does not come back, the path has become longer.
func (d *Delay) settle() {
	if d.longer++; d.ebbNs <= d.floorNs+d.target {
		d.longer = 0
	} else if d.longer == longerEbbs {
		d.floorNs, d.longer = d.ebbNs, 0
	}
	d.baseNs, d.baseAt = min(d.ebbNs, d.floorNs+d.target), d.ebbAt
}

func (d *Delay) enter(m delayMode) { d.mode, d.rounds, d.step, d.more, d.empty = m, 0, 0, 1, 0 }

// trip updates the shortest round trips.
func (d *Delay) trip(now, rtt int64) {
	if d.floorNs == 0 || rtt < d.floorNs {
		d.floorNs = rtt
	}
	if d.ebbNs = min(d.ebbNs, rtt); d.baseNs == 0 || rtt < d.baseNs {
		d.baseNs = rtt
	}
	if rtt <= d.baseNs {
		d.baseAt = now
	}
}

// watch checks, while free, whether rounds take long.
func (d *Delay) watch(now int64, r *Round, rate float64) {
	d.rate = rate
	if r.RTT <= d.target {
		d.long = 0
		return
	}
	if r.Late {
		return
	}
	if d.long++; d.long >= longRounds {
		d.begin(now, delayStartup)
	}
}

// begin ends freedom.
func (d *Delay) begin(now int64, m delayMode) {
	d.long, d.full, d.arrived, d.lost, d.plateau = 0, 0, 0, 0, 0
	d.fill()
	d.grown = d.rate
	d.baseAt = now
	d.enter(m)
}

// stall notes how long nothing came because a process waited for a processor.
func (d *Delay) stall(r *Round) {
	if d.stallNs -= d.stallNs / stallRounds; r.Idle || r.Late || r.Lost > 0 {
		return
	}
	ordinary := int64(gapPackets * 1e9 / max(d.rate, 1))
	d.stallNs = max(d.stallNs, min(r.GapNs-ordinary, stallTargets*d.target))
}

// fill sets the rate of all rounds to the current one.
func (d *Delay) fill() {
	for i := range d.rates {
		d.rates[i] = d.rate
	}
}

// Doubt makes one long round trip enough to end freedom. It is for a window that grows for the
// first time, when nothing is known of the path.
func (d *Delay) Doubt() { d.long = longRounds - 1 }

// sample takes a rate. That of an idle sender shows what it sent, not what the path carries.
func (d *Delay) sample(rate float64, idle bool) {
	if idle && rate <= d.rate {
		return
	}
	d.rates[d.next] = rate
	d.next = (d.next + 1) % rateRounds
	if d.mode == delayStartup {
		d.rate = slices.Max(d.rates[:])
		return
	}
	// One or two high rates are noise, and make flows that share a path unequal.
	x := d.rates
	slices.Sort(x[:])
	d.rate = x[rateRounds-rateRank]
}

// lossOf checks whether heavy loss shows a full queue. If round trips are long, it reduces the
// packets in flight. Otherwise the path loses at random, or the shortest round trip includes a full
// queue, as when many flows begin at once: a deep ebb tells.
func (d *Delay) lossOf(now int64, r *Round) {
	d.arrived += r.Arrived
	d.lost += r.Lost
	n := d.arrived + d.lost
	if n < lossPackets && d.lost < lossPackets/8 {
		return
	}
	if d.mode == delayRival {
		d.full = 0
	} else if d.lost*fullLoss > n && d.lastNs > d.baseNs+d.slack()/2 {
		d.full = int(max(fullCut*float64(r.Arrived), d.packets(d.baseNs)))
	} else if d.lost*heavyLoss > n && d.mode == delaySteady && (d.deepAt == 0 || now-d.deepAt > ebbTargets/3*d.target) {
		d.ebb(now, true)
		d.anew = true
		d.deepAt, d.ebbEnd, d.full = now, now+ebbTargets/10*d.target, 0
	}
	d.arrived, d.lost = 0, 0
}

// grow handles a round of startup.
func (d *Delay) grow(now int64, r *Round) {
	if d.rate >= d.grown*1.25 {
		d.grown, d.plateau = d.rate, 0
	} else if !r.Idle {
		d.plateau++
	}
	if d.plateau >= 3 || !r.Late && r.RTT > d.baseNs+d.slack() || d.full != 0 {
		d.ebb(now, true)
	}
}

// ebb begins an ebb.
func (d *Delay) ebb(now int64, deep bool) {
	d.enter(delayEbb)
	d.deep, d.anew = deep, !d.doubt && d.packets(d.floorNs) < longPackets
	d.ebbNs = 1 << 62
	// Others that ebb began a little earlier or later. The slower a flow is, the more flows there
	// may be.
	d.ebbAt = now
	d.ebbEnd = now + max(2*d.lastNs+4*d.target, min(int64(ebbPackets*1e9/max(d.rate, 1)), ebbTargets/10*d.target))
}

// turn handles a round of steady.
func (d *Delay) turn(now int64, r *Round) {
	if d.baseNs < d.target && r.RTT <= d.target && d.packets(d.baseNs+d.target) >= float64(d.most) {
		d.enter(delayFree)
		return
	}
	if now-d.baseAt > max(ebbTargets*d.target, ebbTrips*d.baseNs) {
		d.ebb(now, false)
		return
	}
	if d.suspects(now, r) {
		d.ebb(now, true)
		return
	}
	d.seek(r)
	if d.step = (d.step + 1) % cycleRounds; d.step == 1 && d.full != 0 && r.Lost == 0 {
		d.full = min(d.full+max(d.full/4, 1), d.ceiling)
	}
}

// seek finds a long path that holds more than the rate says: although spare packets are admitted,
// no queue is seen. It admits a quarter more in each round, until one is. On a short path the spare
// packets find it soon enough.
func (d *Delay) seek(r *Round) {
	switch {
	case d.baseNs < seekTargets*d.target || r.Late || r.Idle || d.step == 1:
	case r.Lost > 0 || r.RTT > d.baseNs+d.slack()/4:
		d.more, d.empty = 1, 0
	default:
		if d.empty = min(d.empty+1, emptyRounds); d.empty == emptyRounds {
			d.more = min(d.more*moreGain, startupGain)
		}
	}
}

// spare returns how many packets are admitted beyond what the path holds: an eighth of that, as one
// answer covers several; and a number that hardly grows with the rate, like the constant of FAST
// TCP (Wei et al., 2006). Stalls raise the sum. A slower flow thus has more packets in the queue,
// relative to its rate, until all flows have equal rates, whatever their round trips are.
func (d *Delay) spare() float64 {
	n := d.packets(d.baseNs)/8 + spareFactor*math.Cbrt(d.packets(d.target))
	return n + stallPart*max(d.packets(d.stallNs)-n, 0)
}

// slack returns how long the spare packets wait.
func (d *Delay) slack() int64 { return int64(d.spare() * 1e9 / max(d.rate, 1)) }

// packets returns how many packets arrive in ns.
func (d *Delay) packets(ns int64) float64 { return d.rate * float64(ns) / 1e9 }

// Window returns how many packets may be in flight; 0 means no limit.
func (d *Delay) Window(now int64) int {
	if d.mode == delayFree {
		return 0
	}
	if d.silent {
		return leastPackets
	}
	n := 0.0
	switch base := d.packets(d.baseNs); {
	case d.mode == delayStartup:
		n = startupGain * base
	case d.mode == delayEbb && d.deep && now < d.ebbEnd+2*d.lastNs:
		return leastPackets // until then: resent packets give no round trip that ends it
	case d.mode == delayEbb:
		return min(int(base/2)+1, d.ceiling)
	case d.mode == delayRival:
		n = d.share
	case d.step == 1:
		n = base + base/8
	default:
		n = base*d.more + d.spare()
	}
	w := int(n) + 1
	if d.full != 0 {
		w = min(w, d.full)
	}
	return min(max(w, leastPackets), d.ceiling)
}

// Rate returns the rate at which packets leave; 0 means no limit.
func (d *Delay) Rate(int64) Rate {
	gain := steadyGain
	switch {
	case d.mode == delayFree:
		return 0
	case d.mode == delayStartup || d.mode == delayRival && d.seeks > 0:
		gain = startupGain
	case d.mode == delaySteady:
		gain *= d.more
	}
	return max(Rate(gain*d.rate*float64(8*d.bytes)), MinMinRate)
}

// OnCNP takes a CNP as a sign that the rate is too high, at most once per round trip.
func (d *Delay) OnCNP(now int64) {
	if d.rate == 0 || d.cuts != 0 && now-d.cutAt < d.lastNs {
		return
	}
	d.cutAt = now
	d.cuts++
	if d.mode == delayFree {
		d.begin(now, delaySteady)
	}
	for i := range d.rates {
		d.rates[i] *= cnpCut
	}
	d.rate *= cnpCut
}

// OnTimeout reduces the window to the least until something has come.
func (d *Delay) OnTimeout(int64) { d.silent = true }

// OnProgress ends that: something has come.
func (d *Delay) OnProgress() { d.silent = false }

// OnSend does nothing.
func (d *Delay) OnSend(int64, int) {}

// OnNAK does nothing, because rounds report losses.
func (d *Delay) OnNAK(int64) {}

// State returns the state at now.
func (d *Delay) State(now int64) State {
	return State{Current: d.Rate(now), Limiting: d.mode != delayFree, Cuts: d.cuts, BaseNs: d.baseNs,
		Window: d.Window(now)}
}
