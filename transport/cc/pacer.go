package cc

// Pacer spreads packets over time at a given rate. It is a bucket that fills continuously, up to
// one burst, so a QP sends batches sized by the rate instead of one packet per timer tick. The zero
// value has bursts of [BurstNs].
type Pacer struct {
	nextAt int64   // when the bytes sent so far are paid off
	owed   float64 // fraction of a nanosecond beyond nextAt
	burst  int64   // ns; 0 means BurstNs, negative one packet
	held   bool    // waiting for NextAt with something to send
}

// BurstNs is how much sending time a pacer saves up: the length of a batch. Below about 50 us a
// batch at common rates would be a packet or two, and each batch costs a system call.
const BurstNs = 64e3

// MaxLateNs is how late a timer may wake a held QP without costing it rate. An operating system
// adds at least 50 us to a sleep, and a millisecond when others want the processor. A QP that had
// nothing to send saves up no more than a burst.
const MaxLateNs = 1e6

func (p *Pacer) burstNs() int64 {
	if p.burst == 0 {
		return BurstNs
	}
	return max(p.burst, 0)
}

// Budget returns how many bytes may be sent at now; 0 means none before [Pacer.NextAt]. At rate 0
// there is no limit and Budget returns MaxBudget.
func (p *Pacer) Budget(now int64, r Rate) int {
	if r == 0 {
		p.nextAt, p.owed, p.held = now, 0, false
		return MaxBudget
	}
	burst := p.burstNs()
	late := burst
	if p.held && burst > 0 {
		late = max(burst, MaxLateNs)
	}
	if earliest := now - late; p.nextAt < earliest {
		p.nextAt, p.owed = earliest, 0
	}
	if p.nextAt > now {
		return 0
	}
	p.held = false
	// A batch may borrow one more burst from the future: it is sent whole, and the pause after it
	// pays.
	return max(1, int(min(float64(MaxBudget), float64(now-p.nextAt+burst)*float64(r)/8e9)))
}

// MaxBudget is the budget in bytes of an unlimited pacer.
const MaxBudget = 1 << 30

// Hold notes that there is more to send at NextAt.
func (p *Pacer) Hold() { p.held = true }

// OnSend charges bytes sent at rate r.
func (p *Pacer) OnSend(bytes int, r Rate) {
	if r <= 0 {
		return
	}
	p.owed += float64(bytes) * 8e9 / float64(r)
	ns := int64(p.owed)
	p.nextAt += ns
	p.owed -= float64(ns)
}

// NextAt returns when the next batch may be sent.
func (p *Pacer) NextAt() int64 { return p.nextAt }
