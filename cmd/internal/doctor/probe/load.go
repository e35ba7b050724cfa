package probe

import (
	"errors"
	"slices"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// tryBurst sends many packets, at a rate that loads nothing, and has both ends count.
func (c *client) tryBurst(r *Result) error {
	const tos = ecnECT0
	// The server's counters begin with the run.
	if _, err := c.ask(c.sock, count, 0, 0, 0, tries); err != nil && !errors.Is(err, errSilent) {
		return err
	}
	back := &tally{}
	before, known := c.sock.drops()
	answered, sent := uint32(0), 0
	take := func(until time.Time) error {
		for {
			a, err := c.receive(c.sock, until)
			if errors.Is(err, errSilent) {
				return nil
			}
			if err != nil {
				return err
			}
			if a.Type == answer && a.Run == c.run {
				back.add(a.Seq, a.verdict, a.at.tos)
				answered = max(answered, a.Tally.Received+a.Tally.Duplicate)
			}
			// What comes twice comes soon.
			if soon := time.Now().Add(leastTimeout); int(back.Received) >= sent && soon.Before(until) {
				until = soon
			}
		}
	}
	for sent < c.burst {
		next := time.Now().Add(burstInterval)
		for range burstAtOnce {
			m := c.question(ask, 0, tos)
			if err := c.sock.send(m.encode(c.out, burstBytes), c.remote, tos); err != nil &&
				!errors.Is(err, unix.ENOBUFS) {
				c.said = err
			}
			sent++
		}
		if err := take(next); err != nil {
			return err
		}
	}
	// The last ones are on their way.
	for until := time.Now().Add(4 * c.timeout()); int(back.Received) < sent && time.Now().Before(until); {
		before := back.Received
		if err := take(time.Now().Add(c.timeout())); err != nil {
			return err
		}
		if back.Received == before {
			break
		}
	}
	r.Burst.Sent = sent
	var own drops
	if now, ok := c.sock.drops(); ok && known {
		own = now.since(before)
	}
	t, err := c.ask(c.sock, count, 0, 0, packetBytes+dropsBytes, 2*tries)
	if errors.Is(err, errSilent) {
		r.Burst.Uncounted = true
		r.Burst.Back = fateOf(sent, back).with(own)
		return nil
	}
	if err != nil {
		return err
	}
	there := &tally{counts: t.Tally}
	r.Burst.Forward = fateOf(sent, there)
	if t.counted {
		r.Burst.Forward = r.Burst.Forward.with(t.drops)
	}
	// Each packet that came was answered, once for each time.
	r.Burst.Back = fateOf(int(there.Received+there.Duplicate), back)
	r.Burst.Back.Duplicate = max(0, int(back.Duplicate)-int(there.Duplicate))
	r.Burst.Back.Lost = max(0, int(there.Received+there.Duplicate)-int(back.Received+back.Duplicate))
	r.Burst.Back = r.Burst.Back.with(own)
	return nil
}

// with tells those that the receiver dropped from those that never came. Its counters are of all
// UDP, so that they explain no more than what is missing.
func (f Fate) with(d drops) Fate {
	f.Damaged = min(int(d.Damaged), f.Lost)
	f.Full = min(int(d.Full), f.Lost-f.Damaged)
	return f
}

// fateOf says what became of packets.
func fateOf(sent int, t *tally) Fate {
	return Fate{
		Sent: sent, Lost: max(0, sent-int(t.Received)), Reordered: int(t.Reordered), Duplicate: int(t.Duplicate),
		BadICRC: int(t.BadICRC), Marked: int(t.Marked),
	}
}

// tryRTT sends one packet at a time.
func (c *client) tryRTT(r *Result) error {
	var times []int64
	for range pings {
		a, err := c.ask(c.sock, ask, 0, 0, 0, 1)
		if errors.Is(err, errSilent) {
			if len(times) == 0 && c.seq > 2*tries {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		times = append(times, int64(time.Since(c.began))-a.Stamp)
	}
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	n := len(times)
	r.RTT = RTT{Samples: n, Min: times[0], P50: times[n/2], P99: times[n*99/100]}
	c.rtt = time.Duration(times[n/2])
	return nil
}

// tryGoodput keeps a window of the longest packets on their way; it grows until one is lost, and
// then halves, as that of TCP does. Answers are short.
func (c *client) tryGoodput(r *Result, d time.Duration) error {
	mtu := min(r.Forward.MTU, r.Back.MTU)
	if d <= 0 || mtu == 0 {
		return nil
	}
	size := mtu + roceOverhead
	window, flying := float64(firstWindow), map[uint32]struct{}{}
	g := &r.Goodput
	g.MTU = mtu
	limit := c.windowLimit(mtu)
	begin := time.Now()
	cut := begin // when the window was halved last
	// Once at least: a machine that is busy may not come here for longer than that.
	for end, first := begin.Add(d), true; first || time.Now().Before(end); first = false {
		for len(flying) < int(window) && c.seq < maxSeq*1024 {
			m := c.question(ask, wantShort, ecnECT0)
			if err := c.sock.send(m.encode(c.out, size), c.remote, ecnECT0); err != nil {
				break
			}
			flying[m.Seq] = struct{}{}
		}
		a, err := c.receive(c.sock, time.Now().Add(c.timeout()))
		now := time.Now()
		switch {
		case errors.Is(err, errSilent):
			g.Lost += len(flying)
			clear(flying)
			window, cut = max(window/2, 1), now
			continue
		case err != nil:
			return err
		case a.Type != answer || a.Run != c.run:
			continue
		}
		if _, ok := flying[a.Seq]; !ok {
			continue
		}
		delete(flying, a.Seq)
		g.Packets++
		window = min(window+1, limit)
		if a.Seen.TOS&ecnMask != ecnCE && !c.overtaken(flying, a.Seq, g) {
			continue
		}
		if now.Sub(cut) > c.rtt {
			window, cut = max(window/2, 1), now
		}
	}
	g.Bits = float64(g.Packets) * float64(mtu) * 8 / time.Since(begin).Seconds()
	return nil
}

// windowLimit is how large the window becomes: what fast paths of that length hold, and a little
// more. Beyond that it would only fill buffers, of which unprivileged receivers have little.
func (c *client) windowLimit(mtu int) float64 {
	onPath := windowRate * c.rtt.Seconds() / float64(mtu)
	return min(maxWindow, leastWindow+onPath)
}

// reorderDegree is how far behind a packet may be before it is taken for lost.
const reorderDegree = 64

// overtaken forgets packets that others have overtaken by far, and reports whether there were any.
func (c *client) overtaken(flying map[uint32]struct{}, seq uint32, g *Goodput) (lost bool) {
	if seq%16 != 0 {
		return false // now and then will do
	}
	for s := range flying {
		if s+reorderDegree < seq {
			delete(flying, s)
			g.Lost++
			lost = true
		}
	}
	return lost
}
