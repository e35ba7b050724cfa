package wire

import (
	"slices"
	"time"
)

const (
	// minSilence is the shortest silence that is noted: a guest that answers as soon as it
	// can, on a busy machine, is rarely quiet for so long.
	minSilence = 50 * time.Millisecond
	// maxSilences bounds what is remembered of a port.
	maxSilences = 4096
)

// Silence is a time in which no frame of any kind entered at a port: whoever is behind it had
// nothing to say, or was not running.
type Silence struct{ From, To time.Duration }

// heard notes a frame that entered; the switch's lock is held.
func (p *Port) heard(now time.Duration) {
	if now-p.lastIn >= minSilence {
		if len(p.silences) == maxSilences {
			p.silences = slices.Delete(p.silences, 0, maxSilences/2)
		}
		p.silences = append(p.silences, Silence{p.lastIn, now})
	}
	p.lastIn = now
}

// SilentIn reports whether no frame entered at the port between two times, of which the
// second is not later than now. Of times long past it may not know, and then reports false;
// it does so too of times closer together than what is noted as a silence.
func (p *Port) SilentIn(from, to time.Duration) bool {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	if p.lastIn <= from {
		return to-from >= minSilence
	}
	return slices.ContainsFunc(p.silences, func(s Silence) bool { return s.From <= from && to <= s.To })
}
