package shard

// trial decides whether to do something that pays at times: the more often in succession it was in
// vain, the less often it is tried. The zero value tries.
type trial struct {
	skip    uint32 // how many times not to try
	penalty uint32 // skip after the next one in vain
}

// due reports whether to try now.
func (t *trial) due() bool {
	if t.skip == 0 {
		return true
	}
	t.skip--
	return false
}

// inVain notes that one did not pay; after it up to maxSkip are left out.
func (t *trial) inVain() {
	t.penalty = min(2*t.penalty+1, maxSkip)
	t.skip = t.penalty
}

// paid notes that one did.
func (t *trial) paid() { t.penalty = 0 }
