package slots

// unheld counts what comes for slots that no device has. The kernel drops it, and counts for each
// socket what it drops, for whatever reason. So it counts here if nobody has the slot now, and
// nobody had it when it was looked last.
type unheld struct {
	sum  uint64
	last [][Count]uint32 // of each address: the kernel's count
	held [][Count]bool
}

// Unheld returns how many packets came for slots that no device has, since the lease began: all but
// the few that the socket of such a slot keeps. Every device at the address counts them.
func (l *Lease) Unheld() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.countUnheld()
	}
	return l.unheld.sum
}

func (l *Lease) countUnheld() {
	u := &l.unheld
	first := u.last == nil
	if first {
		u.last, u.held = make([][Count]uint32, len(l.sets)), make([][Count]bool, len(l.sets))
	}
	for i, s := range l.sets {
		for k := range Count {
			n, held := drops(s.udp(k)), l.Held(i, k)
			if !first && !held && !u.held[i][k] {
				u.sum += uint64(n - u.last[i][k])
			}
			u.last[i][k], u.held[i][k] = n, held
		}
	}
}
