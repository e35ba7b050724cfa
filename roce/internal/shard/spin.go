package shard

// spin decides whether the goroutine of a shard that serves a program in another language looks for more packets for a while
// before it sleeps. That program may spin itself, and its peer's on another CPU: where there are no more CPUs than that, who looks
// keeps one of them from the answer that he looks for. So a look that brought nothing is in vain, and the more of
// these there are in succession, the fewer are tried.
type spin struct{ trial }

// begins reports whether to look.
func (v *spin) begins() bool { return v.due() }

// inVain notes that nothing came.
func (v *spin) inVain() { v.trial.inVain(maxSpinSkip) }

// worth notes that something came: of a look, too, that was not tried for.
func (v *spin) worth() { v.trial = trial{} }
