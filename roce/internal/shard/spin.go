package shard

// spin decides whether the goroutine of a shard that serves a program in another language looks for more packets for a while
// before it sleeps. That program may spin itself, and its peer's on another CPU: where there are no more CPUs than that, who looks
// keeps one of them from the answer that he looks for. So a look that brought nothing is in vain, and the more of
// these there are in succession, the fewer are tried.
type spin struct {
	skip    uint32
	penalty uint32
}

// begins reports whether to look.
func (v *spin) begins() bool {
	if v.skip > 0 {
		v.skip--
		return false
	}
	return true
}

// inVain notes that nothing came.
func (v *spin) inVain() {
	v.penalty = min(2*v.penalty+1, maxSpinSkip)
	v.skip = v.penalty
}

// worth notes that something came.
func (v *spin) worth() { v.penalty, v.skip = 0, 0 }
