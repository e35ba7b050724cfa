package cc

import "math"

// DCQCN is DCQCN's reaction point for one QP. It evaluates its timers lazily: each call first does
// what fell due since the last one, so that no timer event is needed and an idle QP costs nothing.
type DCQCN struct {
	p    Profile
	line Rate // rate of the port, the upper bound

	limiting bool // false until the first CNP, and again at line rate
	current  float64
	target   float64
	alpha    float64

	nextAlphaAt    int64
	nextIncreaseAt int64
	lastCutAt      int64
	cutEver        bool
	cnpInPeriod    bool // a CNP came since the last alpha update
	cutPending     bool // a CNP came inside the decrease gap

	sent      int64 // bytes since the last step of the byte counter
	timeSteps int   // increase steps by time since the last cut
	byteSteps int   // increase steps by bytes since the last cut
	cuts      uint64

	startPending bool // StartRate was set: the first event starts the increase timer
}

// NewDCQCN returns a controller for a port of the given line rate. It sets no limit before the
// first CNP.
func NewDCQCN(p Profile, line Rate) *DCQCN {
	return &DCQCN{p: p, line: line, current: float64(line), target: float64(line), alpha: p.InitialAlpha}
}

// startAt limits the QP to r until the increase reaches line rate.
func (d *DCQCN) startAt(r Rate) {
	d.current, d.target = float64(r), float64(r)
	d.limiting, d.startPending = true, true
}

// gain returns g, the weight of the newest period in alpha.
func (d *DCQCN) gain() float64 { return float64(d.p.GainNum) / float64(d.p.GainDen) }

// advance runs the timers that are due at now.
func (d *DCQCN) advance(now int64) {
	if d.startPending {
		d.startPending = false
		d.nextIncreaseAt = now + int64(d.p.IncreasePeriod)
	}
	if d.cutPending {
		if at := d.lastCutAt + int64(d.p.DecreaseGap); now >= at {
			d.cutPending = false
			d.advanceAlpha(at)
			d.cut(at)
		}
	}
	d.advanceAlpha(now)
	for d.limiting && now >= d.nextIncreaseAt {
		d.timeSteps++
		d.nextIncreaseAt += int64(d.p.IncreasePeriod)
		d.increase()
	}
}

// advanceAlpha decays alpha for each full period without a CNP.
func (d *DCQCN) advanceAlpha(now int64) {
	if !d.cutEver || now < d.nextAlphaAt {
		return
	}
	periods := (now-d.nextAlphaAt)/int64(d.p.AlphaPeriod) + 1
	d.nextAlphaAt += periods * int64(d.p.AlphaPeriod)
	if d.cnpInPeriod {
		d.cnpInPeriod = false
		periods--
	}
	d.alpha *= math.Pow(1-d.gain(), float64(periods))
}

// leastGapNs is half of the paper's gap between a receiver's CNPs, which may arrive closer than
// sent.
const leastGapNs = 25e3

// OnCNP cuts the rate or, within the decrease gap of the last cut, notes that the next cut is due.
// With no decrease gap it ignores a CNP that comes sooner than any receiver sends two.
func (d *DCQCN) OnCNP(now int64) {
	d.advance(now)
	if d.p.DecreaseGap == 0 && d.cutEver && now < d.lastCutAt+leastGapNs {
		return
	}
	if d.cutEver && now < d.lastCutAt+int64(d.p.DecreaseGap) {
		d.cutPending = true
		d.raiseAlpha(now)
		return
	}
	d.cut(now)
}

// raiseAlpha counts the CNP in alpha. The paper does so for each CNP, and then restarts the period.
// With a decrease gap (ConnectX) alpha averages over fixed periods, each of which counts once.
func (d *DCQCN) raiseAlpha(now int64) {
	if d.p.DecreaseGap == 0 {
		d.alpha = (1-d.gain())*d.alpha + d.gain()
		d.nextAlphaAt = now + int64(d.p.AlphaPeriod)
		return
	}
	if !d.cnpInPeriod {
		d.alpha = (1-d.gain())*d.alpha + d.gain()
		d.cnpInPeriod = true
	}
}

// cut reduces the rate (paper, equation 1) and restarts the recovery.
func (d *DCQCN) cut(now int64) {
	if !d.cutEver {
		d.cutEver = true
		d.nextAlphaAt = now + int64(d.p.AlphaPeriod)
	}
	d.limiting = true
	d.cuts++
	d.target = d.current
	d.current = max(d.current*(1-min(d.alpha/2, d.p.MaxCut)), float64(d.p.MinRate))
	d.raiseAlpha(now)
	d.lastCutAt = now
	d.timeSteps, d.byteSteps, d.sent = 0, 0, 0
	d.nextIncreaseAt = now + int64(d.p.IncreasePeriod)
}

// increase is one step of recovery. Fast recovery halves the distance to the target; later steps
// raise the target as well (paper, equations 3 and 4).
func (d *DCQCN) increase() {
	f := d.p.FastRecovery
	switch {
	case max(d.timeSteps, d.byteSteps) <= f:
		// fast recovery: the target stays
	case min(d.timeSteps, d.byteSteps) > f && d.p.HyperIncrease > 0:
		d.target += float64(d.p.HyperIncrease)
	default:
		d.target += float64(d.p.AdditiveIncrease)
	}
	d.target = min(d.target, float64(d.line))
	d.current = min((d.target+d.current)/2, float64(d.line))
	// Within an eighth of an additive step of line rate the limit no longer has any effect.
	if d.target >= float64(d.line) && float64(d.line)-d.current < float64(d.p.AdditiveIncrease)/8 {
		d.current = float64(d.line)
		d.limiting = false
	}
}

// OnSend counts bytes towards increase steps.
func (d *DCQCN) OnSend(now int64, bytes int) {
	if !d.limiting {
		return
	}
	d.advance(now)
	d.sent += int64(bytes)
	for d.limiting && d.sent >= d.p.ByteCounter {
		d.sent -= d.p.ByteCounter
		d.byteSteps++
		d.increase()
	}
}

// OnNAK cuts the rate if the profile has CutOnNAK.
func (d *DCQCN) OnNAK(now int64) {
	if d.p.CutOnNAK {
		d.OnCNP(now)
	}
}

// OnTimeout does nothing, because go-back-N has already emptied the wire.
func (d *DCQCN) OnTimeout(int64) {}

// Rate returns the current rate, or 0 without a limit.
func (d *DCQCN) Rate(now int64) Rate {
	d.advance(now)
	if !d.limiting {
		return 0
	}
	return Rate(d.current)
}

// State returns the state at now.
func (d *DCQCN) State(now int64) State {
	d.advance(now)
	return State{
		Current: Rate(d.current), Target: Rate(d.target), Alpha: d.alpha,
		TimeSteps: d.timeSteps, ByteSteps: d.byteSteps, Limiting: d.limiting, Cuts: d.cuts,
	}
}
