package slots

// unheld counts the packets for slots that no device has. The kernel drops them, and keeps one
// count for each socket, whatever the reason. So a difference counts here only if no device has the
// slot now and none had it at the last look.
type unheld struct {
	sum  uint64
	last [][Count]uint32 // for each address: the kernel's count
	held [][Count]bool
}

// Unheld returns how many packets have come for slots that no device has since the lease began,
// except the few that the socket of such a slot keeps. Every device at the address counts them.
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
