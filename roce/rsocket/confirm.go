package rsocket

import (
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// A kernel reports at once that a process has died. Here the next process at its address reports
// it, if both share a directory for files in memory (see package rdmacm); otherwise the peer is
// asked, twice a second. If another process has taken the place and this is not known yet, the next
// data goes nowhere, although Write has returned success. A program that keeps connections for
// later, such as an HTTP client, must not repeat a POST after that; if it learns that nothing was
// written, it takes another connection. So Write first looks whether such a report has just come,
// and the first Write after a pause first asks, by an empty WRITE that the peer's adapter
// acknowledges.

const (
	// pauseTime is how long the peer must have been silent before Write asks. Asking costs a round
	// trip, as much as a small request: 0.1 ms on one host. So only one Write per pause asks.
	pauseTime = 100 * time.Millisecond
	// glanceTime is how long the peer must have been silent before Write looks. Looking costs less
	// than a microsecond, once in a pause.
	glanceTime = time.Millisecond
)

// Variables, so that tests can be more patient.
var (
	// confirmRTT is the longest round trip for which Write asks.
	confirmRTT = 5 * time.Millisecond
	// confirmTime is how long Write waits for an unresponsive peer before it goes on as if it had
	// not asked.
	confirmTime = 500 * time.Millisecond
)

// confirm makes the peer's adapter show that it is there, if there was a pause. Any other result is
// in writeEnd. mu and wmu are held.
func (c *Conn) confirm() {
	if c.keepGap <= 0 || c.wr.try || c.writeEnd() != nil {
		return
	}
	now := c.alarm.Now()
	if now-c.answered < glanceTime {
		return
	}
	c.look()
	ended := c.qp.State() == verbs.StateErr // a waiting Read has not noticed yet
	if !ended && (now-c.answered < pauseTime || c.s.awaited() || c.qp.Stats().SmoothedRTT > confirmRTT) ||
		c.writeEnd() != nil || c.s.over() {
		return
	}
	if !ended {
		c.s.keepAlive(true, &c.cmsg)
		c.postControl()
	}
	c.cl.set(time.Now().Add(confirmTime))
	defer c.cl.set(time.Time{})
	for (ended || c.answered < now) && c.writeEnd() == nil && !c.s.over() && c.wait(&c.cl) == nil {
	}
}
