package shard

// Trial decides whether to do something that pays at times: the more often in succession it was in vain, the less often it is tried.
// The zero value tries.
type Trial struct {
	skip    uint16 // how many times not to try
	penalty uint16 // skip after the next one in vain
}

// Due reports whether to try now.
func (t *Trial) Due() bool {
	if t.skip == 0 {
		return true
	}
	t.skip--
	return false
}

// InVain notes that one did not pay.
func (t *Trial) InVain() {
	t.penalty = min(2*t.penalty+1, maxTrialSkip)
	t.skip = t.penalty
}

// Paid notes that one did.
func (t *Trial) Paid() { t.penalty /= 2 }
