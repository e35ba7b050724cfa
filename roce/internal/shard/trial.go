package shard

// trial decides whether to try something that pays only at times. The more attempts in succession
// did not pay, the fewer are made. The zero value tries.
type trial struct {
	skip    uint32 // how many times not to try
	penalty uint32 // previous skip, which the next attempt that does not pay doubles
}

// due reports whether to try now.
func (t *trial) due() bool {
	if t.skip == 0 {
		return true
	}
	t.skip--
	return false
}

// inVain notes an attempt that did not pay, after which up to maxBackOff-1 chances are passed over.
func (t *trial) inVain() {
	t.penalty = min(2*t.penalty+1, maxBackOff-1)
	t.skip = t.penalty
}

// paid notes an attempt that paid.
func (t *trial) paid() { t.penalty = 0 }
