package shard

// spin decides whether the goroutine of a shard that serves a program in another language looks for
// more packets for a while before it sleeps. That program may spin itself, and its peer's on
// another CPU: where there are no more CPUs than that, who looks keeps one of them from the answer
// that he looks for. So a look that brought nothing is in vain, and the more of these there are in
// succession, the fewer are tried.
//
// A program that has not called for a while does not spin for packets: it sleeps, as the server of
// ib_write_bw does, or looks at what its peer is to write and never answers by itself. Beside it
// the goroutine looks for as long as it does for a program in Go.
type spin struct {
	trial  // of a look
	seen   activity
	active int64 // when the program was last seen to have done something
}

// rests reports whether the program has done nothing for a while: neither polled nor posted while
// it was left the work, by their counts, nor called since, by the time of that.
func (v *spin) rests(now int64, polls, posts uint32, called int64) bool {
	if v.seen.looks(polls, posts) {
		v.active = now
	}
	return now-max(v.active, called) > int64(patience)
}

// alike reports whether the goroutine looks as one does for a program in Go.
func (s *Shard) alike(now int64) bool {
	k := &s.keeper
	return !s.foreign.Load() || s.spin.rests(now, k.polls.Load(), k.posts.Load(), k.attention.last.Load())
}

// begins reports whether to look.
func (v *spin) begins() bool { return v.due() }

// inVain notes that nothing came.
func (v *spin) inVain() { v.trial.inVain(maxSpinSkip) }

// worth notes that something came: of a look, too, that was not tried for.
func (v *spin) worth() { v.trial = trial{} }
