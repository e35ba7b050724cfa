package cc

// rivalry is how Delay finds flows that fill every queue, as TCP's do, and competes with them. They
// take everything from a flow that gives way.
//
// Round trips that stay long for a second, and in an ebb, show rivals, as in Copa's competitive
// mode (Arun and Balakrishnan, 2018). Beside them Delay admits a packet more in three targets, at
// least one in a round, and less at a loss, similar to TCP. It stops after an ebb that finds the
// queue empty, or when the share is so small that there must be many flows.
type rivalry struct {
	rivalNs int64   // longer round trips show rivals
	above   uint16  // rounds since they are longer than that
	dips    uint16  // of these, rounds that are not
	aboveAt int64   // when the first of these was
	doubt   bool    // this ebb tells whether there are rivals
	share   float64 // packets admitted beside rivals
	seeks   uint8   // losses until share counts as known
	vain    uint8   // consecutive ebbs that found rivals
}

const (
	rivalRounds  = 16   // long rounds that show rivals
	dipPart      = 8    // one short round in so many is no end of that
	rivalLeast   = 24   // least share; with less there are too many flows to act as TCP does
	seekLosses   = 2    // losses until share counts as known
	rivalEbbs    = 10   // ebbs that find rivals; after that the path counts as longer
	ebbTimes     = 4    // times as long until the next ebb, if so many found rivals
	rivalWait    = 1000 // targets of long rounds that show rivals: flows that begin together need as long to settle
	rivalTargets = 3    // targets in which the share grows by a packet
	rivalCut     = 0.8  // factor of the share at a loss
)

// rivals returns the round trip above which rivals must be filling the queue.
func (d *Delay) rivals() int64 { return d.floorNs + min(2*d.slack(), 2*d.target) + d.target/2 }

// suspects reports whether a round of steady raises the doubt that there are rivals: an ebb tells.
func (d *Delay) suspects(now int64, r *Round) bool {
	if d.rivalNs = d.rivals(); r.RTT <= d.rivalNs {
		if d.dips++; d.dips*dipPart > d.above {
			d.above, d.dips = 0, 0
		}
	} else if d.above = min(d.above+1, 1000); d.above == 1 { // before they have taken all
		d.aboveAt, d.share = now, max(d.packets(r.RTT), rivalCut*d.share)
	} else if d.above >= rivalRounds && now-d.aboveAt >= rivalWait*d.target && !r.Late {
		d.share = max(d.share, d.packets(r.RTT))
		d.above, d.dips, d.doubt, d.seeks = 0, 0, true, seekLosses
		return true
	}
	return false
}

// others returns how long a queue in an ebb shows rivals: shorter if there were some before.
func (d *Delay) others() int64 {
	if d.vain > 0 {
		return (d.rivalNs - d.floorNs) / 4
	}
	return (d.rivalNs - d.floorNs) / 4 * 3
}

// foundRivals reports whether an ebb that ends has found rivals; then it has begun to compete.
func (d *Delay) foundRivals() bool {
	if d.doubt && d.vain < rivalEbbs && d.ebbNs > d.floorNs+d.others() {
		d.rival()
		return true
	}
	if d.doubt && d.vain == rivalEbbs { // the path has become longer
		d.floorNs = d.ebbNs
	}
	d.doubt, d.vain = false, 0
	return false
}

// rival begins to compete: the queue stays long whatever this flow does.
func (d *Delay) rival() {
	d.enter(delayRival)
	d.vain++
	d.baseNs, d.full = d.floorNs, 0
	d.fill()
}

// compete handles a round beside rivals. It does as they do: a packet more in each round trip, and
// less after a loss. At first it grows faster, since its share is unknown.
func (d *Delay) compete(now int64, r *Round) {
	switch {
	case r.Lost > 0:
		if now-d.cutAt > 2*d.lastNs {
			d.cutAt = now
			d.share = max(d.share*rivalCut, leastPackets)
			d.seeks = max(d.seeks, 1) - 1
		}
	case r.Idle || float64(r.Arrived) < d.share/2: // the share is not what limits
	case d.seeks > 0:
		d.share += d.share / 4
	default: // in equal times equally much, whatever the round trip is
		d.share += max(1, float64(r.RTT)/float64(rivalTargets*d.target))
	}
	d.share = min(d.share, float64(d.ceiling))
	if d.seeks == 0 && d.share < rivalLeast {
		d.share, d.vain = 0, 0
		d.enter(delaySteady)
	} else if now-d.ebbAt > max(ebbTargets*d.target, ebbTrips*d.baseNs)*int64(min(d.vain, ebbTimes)) {
		d.doubt, d.rivalNs = true, d.rivals()
		d.ebb(now, false)
	}
}
