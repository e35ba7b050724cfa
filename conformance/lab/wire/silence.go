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
	// maxAsks is how many requests to a port are remembered.
	maxAsks = 4096
)

// Silence is a time in which no frame of any kind entered at a port: whoever is behind it had
// nothing to say, or was not running.
type Silence struct{ From, To time.Duration }

// speaker is when frames of a kind entered at a port.
type speaker struct {
	last     time.Duration
	silences []Silence
}

// heard notes a frame that entered.
func (v *speaker) heard(now time.Duration) {
	if now-v.last >= minSilence {
		if len(v.silences) == maxSilences {
			v.silences = slices.Delete(v.silences, 0, maxSilences/2)
		}
		v.silences = append(v.silences, Silence{v.last, now})
	}
	v.last = now
}

func (v *speaker) silentIn(from, to time.Duration) bool {
	if v.last <= from {
		return to-from >= minSilence
	}
	return slices.ContainsFunc(v.silences, func(s Silence) bool { return s.From <= from && to <= s.To })
}

// ask is a request that left by a port.
type ask struct {
	at  time.Duration
	qpn uint32
}

// asked notes one; the switch's lock is held.
func (p *Port) asked(now time.Duration, qpn uint32) {
	if len(p.asks) < maxAsks {
		p.asks = append(p.asks, ask{now, qpn})
		return
	}
	p.asks[p.nextAsk%maxAsks] = ask{now, qpn}
	p.nextAsk++
}

// SilentIn reports whether no frame entered at the port between two times, of which the
// second is not later than now. Of times long past it may not know, and then reports false;
// it does so too of times closer together than what is noted as a silence.
func (p *Port) SilentIn(from, to time.Duration) bool {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	return p.frames.silentIn(from, to)
}

// MuteIn is SilentIn for packets of RoCE alone, while those of other protocols may have entered, and while there
// were requests to so many queue pairs behind the port: of one it would say nothing that one has no answer.
func (p *Port) MuteIn(from, to time.Duration, qps int) bool {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	if !p.packets.silentIn(from, to) {
		return false
	}
	asked := map[uint32]bool{}
	for _, a := range p.asks {
		if from <= a.at && a.at <= to {
			asked[a.qpn] = true
		}
	}
	return len(asked) >= qps
}
