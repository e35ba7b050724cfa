package shard

// backOff decides whether to try something that pays only at times. The more attempts in succession
// did not pay, the fewer are made. The zero value tries.
type backOff struct {
	skip    uint32 // how many times not to try
	penalty uint32 // previous skip, which the next attempt that does not pay doubles
}

// due reports whether to try now.
func (b *backOff) due() bool {
	if b.skip == 0 {
		return true
	}
	b.skip--
	return false
}

// failed notes an attempt that did not pay: up to maxBackOff-1 chances after it are passed over.
func (b *backOff) failed() {
	b.penalty = min(2*b.penalty+1, maxBackOff-1)
	b.skip = b.penalty
}

// paid notes an attempt that paid.
func (b *backOff) paid() { b.penalty = 0 }
