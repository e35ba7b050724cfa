package ether

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
	// maxAsked is of how many queue pairs it is remembered that they were asked in a silence.
	maxAsked = 64
)

// silence is a time in which no frame of a kind entered at a port: the host behind it had
// nothing to say, or was not running.
type silence struct {
	from, to time.Duration
	asked    []asked
}

// asked is a queue pair behind the port that requests went to during a silence, and when they did.
// It is noted with the silence, and not by itself: how many other requests there were before
// anybody asks does not matter then.
type asked struct {
	qpn         uint32
	first, last time.Duration
}

// speaker is when frames of a kind entered at a port.
type speaker struct {
	last     time.Duration
	asks     []asked // since then
	silences []silence
}

// heard notes a frame that entered.
func (v *speaker) heard(now time.Duration) {
	if now-v.last >= minSilence {
		if len(v.silences) == maxSilences {
			v.silences = slices.Delete(v.silences, 0, maxSilences/2)
		}
		v.silences = append(v.silences, silence{v.last, now, slices.Clone(v.asks)})
	}
	v.last, v.asks = now, v.asks[:0]
}

// asked notes a request that left by the port.
func (v *speaker) asked(now time.Duration, qpn uint32) {
	for i := range v.asks {
		if a := &v.asks[i]; a.qpn == qpn {
			a.last = now
			return
		}
	}
	if len(v.asks) < maxAsked {
		v.asks = append(v.asks, asked{qpn, now, now})
	}
}

// silent returns the silence that lasted from one time until another; false if there was none.
func (v *speaker) silent(from, to time.Duration) (silence, bool) {
	if v.last <= from {
		return silence{v.last, to, v.asks}, to-from >= minSilence
	}
	i := slices.IndexFunc(v.silences, func(s silence) bool { return s.from <= from && to <= s.to })
	if i < 0 {
		return silence{}, false
	}
	return v.silences[i], true
}

// longest is the longest time between two others in which nothing entered, as far as is noted.
func (v *speaker) longest(from, to time.Duration) time.Duration {
	longest := to - max(from, v.last)
	for _, s := range v.silences {
		longest = max(longest, min(to, s.to)-max(from, s.from))
	}
	return max(0, longest)
}

// SilentIn reports whether no frame entered at the port between two times, of which the
// second is not later than now. Of times long past it may not know, and then reports false;
// it does so too of times closer together than what is noted as a silence.
func (p *Port) SilentIn(from, to time.Duration) bool {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	_, ok := p.frames.silent(from, to)
	return ok
}

// MuteIn is SilentIn for packets of RoCE alone, while those of other protocols may have entered,
// and while there were requests to so many queue pairs behind the port: of one it would say nothing
// that one has no answer.
func (p *Port) MuteIn(from, to time.Duration, qps int) bool {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	s, ok := p.packets.silent(from, to)
	n := 0
	for _, a := range s.asked {
		if a.first <= to && from <= a.last {
			n++
		}
	}
	return ok && n >= qps
}

// LongestSilences are the longest times between two others in which no frame entered at the port,
// and no packet of RoCE. Times shorter than what is noted as a silence may be left out.
func (p *Port) LongestSilences(from, to time.Duration) (frames, packets time.Duration) {
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	return p.frames.longest(from, to), p.packets.longest(from, to)
}
