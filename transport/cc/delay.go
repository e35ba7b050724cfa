package cc

import (
	"math"
	"slices"
	"time"
)

// Round is what one round trip showed: of a packet that asked for an answer, from when it left
// until the answer came. One packet is timed at a time.
type Round struct {
	RTT      int64 // ns
	Arrived  int   // packets that the peer was found to have since the packet left
	ArriveNs int64 // and in what time: since what it was known to have when the packet left
	Sent     int   // packets that left since the packet of the round before had
	SendNs   int64 // and in what time; 0 if that is not known
	Bytes    int   // mean length of these on an Ethernet cable
	GapNs    int64 // the longest time without such an arrival
	Lost     int   // packets that were found lost since the round before
	Idle     bool  // there was not always something to send
	Late     bool  // the answer waited for what was lost before it: the round trip is shorter
}

// Delay controls a QP by what its round trips show, and needs nothing from a switch or the peer but
// acknowledgements. It is a model of the path of two numbers, as BBR's is (Cardwell et al., 2016):
// the rate at which packets arrive at most, and the shortest round trip. Their product is what has
// to be on its way for the path to be busy. Delay admits that and as much again: enough for a round
// trip more, or for the target, if that is longer.
//
// Most paths need no control: the window of a QP holds less than they carry in the target. So Delay
// begins free, and limits nothing as long as round trips are shorter than the target. The target is
// longer than what hosts add, or their noise is taken for a queue.
//
// What is lost is no sign by itself, or a path with random loss would never be full. If much is
// lost, and round trips are long as well, then a queue is full, and less is on its way. If one of
// ten is lost and round trips are not long, then the shortest may be one with a full queue, which
// many that begin together never see empty: a long ebb tells.
//
//	free     round trips are shorter than the target: no limit
//	startup  twice as much in each round, until that brings no more (BBR)
//	ebb      little is on its way, so that a round trip shows the path without the queue of this QP (BBR's
//	         probe): after startup, when none was as short for a while, and when much was lost. A slow flow stays for longer:
//	         there may be many, and the queue is empty only if they do so together
//	steady   cycles of 8 rounds: a quarter more (BBR); then what the path holds, to be rid of what that
//	         has queued; then six in between. What is admitted beyond what the path holds follows FAST TCP: see spare
//
//	rival    a packet more in each round, and less at a loss, as TCP does: beside others who fill the queue, who
//	         take all from a flow that gives way. It begins when round trips stay long, and are long in an ebb too;
//	         and ends with an ebb that finds the queue empty, as Copa's competitive mode does (Arun and
//	         Balakrishnan, 2018)
//
// Processes wait for processors, at both ends. While one does, nothing comes, and the path is empty unless there
// is a queue: as much more is admitted as lasts for the longest such wait of late.
type Delay struct {
	target  int64 // ns
	most    int   // packets of the window that there is without control
	ceiling int   // packets that are admitted at most

	mode   delayMode
	step   uint8 // of steady
	rounds uint8 // in this mode

	rates [rateRounds]float64 // of the last rounds, packets a second
	rate  float64             // the third of these, by size; in startup the first
	next  uint8               // of rates, to be replaced

	stallNs int64   // how long one end did nothing, of late
	baseNs  int64   // the shortest round trip; 0 if none was seen
	baseAt  int64   // when it, or one nearly as short, was seen
	floorNs int64   // the shortest for long
	rivalNs int64   // a round trip that is longer shows others who fill the queue
	above   uint8   // rounds in a row that were
	doubt   bool    // this ebb is to tell whether there are any
	share   float64 // packets: what is admitted beside them
	seeks   uint8   // losses until it is taken to be known
	vain    uint8   // ebbs in a row that found others
	ebbNs   int64   // the shortest of this ebb
	ebbAt   int64   // when it began
	ebbEnd  int64   // not before
	lastNs  int64   // the last round trip
	grown   float64
	plateau uint8 // rounds of startup that did not bring more
	long    uint8 // rounds in a row that took longer than the target, while free

	full    int // packets: what a queue did not hold; 0 if that is not known
	arrived int // since the last look at losses
	lost    int
	bytes   int  // of a packet
	silent  bool // a timeout, and nothing since
	deep    bool // the ebb leaves as little as can be
	anew    bool // the rate is learned anew meanwhile: of flows that begin together each has seen too much
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

// DefaultTarget is the target of Delay. A process that waits for a processor for less is not taken
// for a queue.
const DefaultTarget = time.Millisecond

const (
	rateRounds   = 10 // that count for the rate: more than a cycle
	rateRank     = 3  // the third of them, by size
	cycleRounds  = 8  // of steady
	leastPackets = 2  // that are admitted
	spareFactor  = 2.5
	stallTargets = 2    // that a stall lasts at most
	stallRounds  = 64   // until it is forgotten, about
	stallPart    = 0.8  // of it is covered: the rest is for flows to become equal
	gapPackets   = 8    // that come at once, without a stall
	keptRate     = 0.75 // of that of startup, after its ebb
	longRounds   = 3    // that take long end freedom
	startupGain  = 2.0  // of rate and window, in startup
	steadyGain   = 1.25 // of the rate: it is the window that bounds
	cnpCut       = 0.85
	fullCut      = 0.85 // of what is admitted when a queue is full
	lossPackets  = 64   // between two looks at what was lost, at least
	fullLoss     = 50   // one of so many packets lost, with long round trips, shows that it is
	rivalRounds  = 16   // in a row that take long show others
	rivalLeast   = 24   // packets, or there are too many flows for each to do as TCP does
	seekLosses   = 2    // until the share is taken to be known
	longPackets  = 64   // on a path that holds more the rate would be learned anew for too long
	rivalEbbs    = 10   // that find them; then the path is taken to be so long
	rivalCut     = 0.7  // of the share at a loss (RFC 9438)
	heavyLoss    = 10   // one of so many packets lost shows that whatever round trips are
	ebbTargets   = 1000 // there is an ebb after so many targets
	ebbPackets   = 128  // could leave in an ebb
	ebbTrips     = 100  // or round trips, if none was as short as the shortest
)

// NewDelay returns a controller for a QP that sends up to most packets without control, and up to
// ceiling with it, where the path is long.
func NewDelay(target time.Duration, most, ceiling int) *Delay {
	if target == 0 {
		target = DefaultTarget
	}
	return &Delay{target: int64(target), most: most, ceiling: max(ceiling, most)}
}

// Begin tells of the shortest round trip so far.
func (d *Delay) Begin(leastNs int64) { d.baseNs, d.floorNs = leastNs, leastNs }

// Free reports whether nothing is limited.
func (d *Delay) Free() bool { return d.mode == delayFree }

// OnRound takes a round trip.
func (d *Delay) OnRound(now int64, r *Round) {
	rate := float64(r.Arrived) * 1e9 / float64(max(r.ArriveNs, 1))
	if r.SendNs > 0 { // answers that waited for each other come at once: they were not sent so fast
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
			if d.doubt && d.vain < rivalEbbs && d.ebbNs > d.floorNs+d.others() {
				d.rival()
				return
			}
			if d.doubt && d.vain == rivalEbbs { // the path has become longer
				d.floorNs = d.ebbNs
			}
			d.doubt, d.vain = false, 0
			if d.deep && !d.anew {
				d.rate *= keptRate
				d.fill()
			}
			d.baseNs, d.baseAt = d.ebbNs, d.ebbAt
			d.enter(delaySteady)
			d.step = 2 + uint8(now>>10%(cycleRounds-2)) // flows that begin together do not probe together
		}
	case delaySteady:
		d.turn(now, r)
	case delayRival:
		d.compete(now, r)
	}
}

func (d *Delay) enter(m delayMode) { d.mode, d.rounds, d.step = m, 0, 0 }

// trip notes the shortest round trip.
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

// watch looks, while free, whether rounds take long.
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

// fill makes the rate that of all rounds.
func (d *Delay) fill() {
	for i := range d.rates {
		d.rates[i] = d.rate
	}
}

// Doubt lets one long round trip be enough to end freedom: while the window grows for the first
// time, nothing is known of the path.
func (d *Delay) Doubt() { d.long = longRounds - 1 }

// sample takes a rate. One of a sender that was idle says what it sent, not what the path carries.
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
	// One or two that are too high are noise, and make flows that share a path unequal.
	x := d.rates
	slices.Sort(x[:])
	d.rate = x[rateRounds-rateRank]
}

// lossOf looks whether so much was lost that a queue must be full. If round trips are long, less is
// on its way. If they are not, either the path loses at random, or the shortest round trip is one
// with a full queue, as when many flows begin at once: a deep ebb tells.
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

// grow is a round of startup.
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

// ebb begins one.
func (d *Delay) ebb(now int64, deep bool) {
	d.enter(delayEbb)
	d.deep, d.anew = deep, !d.doubt && d.packets(d.floorNs) < longPackets
	d.ebbNs = 1 << 62
	// Others that do so began a little earlier or later: the slower a flow is, the more there may
	// be.
	d.ebbAt = now
	d.ebbEnd = now + max(2*d.lastNs+4*d.target, min(int64(ebbPackets*1e9/max(d.rate, 1)), ebbTargets/10*d.target))
}

// turn is a round of steady.
func (d *Delay) turn(now int64, r *Round) {
	if d.baseNs < d.target && r.RTT <= d.target && d.packets(d.baseNs+d.target) >= float64(d.most) {
		d.enter(delayFree)
		return
	}
	if now-d.baseAt > max(ebbTargets*d.target, ebbTrips*d.baseNs) {
		d.ebb(now, false)
		return
	}
	if d.rivalNs = d.rivals(); r.RTT <= d.rivalNs {
		d.above = 0
	} else if d.above++; d.above >= rivalRounds && !r.Late && max(d.packets(r.RTT), d.share) >= rivalLeast {
		d.above, d.doubt, d.share, d.seeks = 0, true, max(d.packets(r.RTT), rivalCut*d.share), seekLosses
		d.ebb(now, true)
		return
	}
	if d.step = (d.step + 1) % cycleRounds; d.step == 1 && d.full != 0 && r.Lost == 0 {
		d.full = min(d.full+max(d.full/4, 1), d.ceiling)
	}
}

// others returns how long a queue shows in an ebb that there are others; that there are still, if there were.
func (d *Delay) others() int64 {
	if d.vain > 0 {
		return (d.rivalNs - d.floorNs) / 4
	}
	return (d.rivalNs - d.floorNs) / 4 * 3
}

// rivals returns how long a round trip is that shows others who fill the queue.
func (d *Delay) rivals() int64 { return d.floorNs + min(2*d.slack(), 2*d.target) + d.target/2 }

// rival begins to compete: the queue stays long whatever this flow does.
func (d *Delay) rival() {
	d.enter(delayRival)
	d.vain++
	d.baseNs, d.full = d.floorNs, 0
	d.fill()
}

// compete is a round beside those who fill the queue. It does as they do: a packet more in each round trip, and less when
// one was lost. At first it grows faster, as nothing is known of its share.
func (d *Delay) compete(now int64, r *Round) {
	switch {
	case r.Lost > 0:
		if now-d.cutAt > 2*d.lastNs {
			d.cutAt = now
			d.share = max(d.share*rivalCut, leastPackets)
			d.seeks = max(d.seeks, 1) - 1
		}
	case r.Idle || float64(r.Arrived) < d.share/2: // it is not what limits
	case d.seeks > 0:
		d.share += d.share / 4
	default:
		d.share++
	}
	d.share = min(d.share, float64(d.ceiling))
	if now-d.ebbAt > max(ebbTargets*d.target, ebbTrips*d.baseNs) {
		d.doubt, d.rivalNs = true, d.rivals()
		d.ebb(now, false)
	}
}

// spare is how many packets more are admitted than the path holds: an eighth of these, as an answer
// is for several; and a number that hardly grows with the rate, as that of FAST TCP (Wei et al.,
// 2006), which is constant, or more if processes stall. A flow with a smaller rate so has more packets in the queue, for its
// rate, than one with a larger: until they have the same, whatever their round trips are.
func (d *Delay) spare() float64 {
	n := d.packets(d.baseNs)/8 + spareFactor*math.Cbrt(d.packets(d.target))
	return n + stallPart*max(d.packets(d.stallNs)-n, 0)
}

// slack is the time that these wait.
func (d *Delay) slack() int64 { return int64(d.spare() * 1e9 / max(d.rate, 1)) }

// packets returns how many arrive in a time.
func (d *Delay) packets(ns int64) float64 { return d.rate * float64(ns) / 1e9 }

// Window returns how many packets may be on their way; 0 is without limit.
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
		return leastPackets // no longer: while what is missing is sent again, no round trip is timed that would end it
	case d.mode == delayEbb:
		return min(int(base/2)+1, d.ceiling)
	case d.mode == delayRival:
		n = d.share
	case d.step == 1:
		n = base + base/8
	default:
		n = base + d.spare()
	}
	w := int(n) + 1
	if d.full != 0 {
		w = min(w, d.full)
	}
	return min(max(w, leastPackets), d.ceiling)
}

// Rate returns the rate at which packets leave; 0 is without limit.
func (d *Delay) Rate(int64) Rate {
	gain := steadyGain
	switch {
	case d.mode == delayFree:
		return 0
	case d.mode == delayStartup || d.mode == delayRival && d.seeks > 0:
		gain = startupGain
	}
	return max(Rate(gain*d.rate*float64(8*d.bytes)), MinMinRate)
}

// OnCNP takes a congestion notification as a sign that the rate is too high: once in a round trip.
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

// OnTimeout lets little leave until something has come.
func (d *Delay) OnTimeout(int64) { d.silent = true }

// OnProgress tells that something has.
func (d *Delay) OnProgress() { d.silent = false }

// OnSend does nothing.
func (d *Delay) OnSend(int64, int) {}

// OnNAK does nothing: rounds tell what was lost.
func (d *Delay) OnNAK(int64) {}

// State returns the state as of now.
func (d *Delay) State(now int64) State {
	return State{Current: d.Rate(now), Limiting: d.mode != delayFree, Cuts: d.cuts, BaseNs: d.baseNs, Window: d.Window(now)}
}
