package drill

import "time"

// patience is how long a drill still waits. It counts time in which this process ran: a turn counts
// for turnMost at most, so a machine that stops for half a minute costs a turn and not the drill.
type patience time.Duration

// turnMost is how much one turn counts at most.
const turnMost = time.Second

// turn returns how long to wait next.
func (p patience) turn() time.Duration { return min(max(time.Duration(p), 0), turnMost) }

// took counts a turn that took d.
func (p *patience) took(d time.Duration) { *p -= patience(min(d, turnMost)) }

// over reports whether the time is up.
func (p patience) over() bool { return p <= 0 }
