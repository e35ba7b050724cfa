package rsocket

import (
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// A kernel says that a process has died when it has. Here the next process at its address says it,
// where both have a directory for files in memory in common (see package rdmacm), and otherwise the
// peer is asked, twice a second. If another process is there and that is not known yet, what is
// written next goes to nobody, and Write has said that it is written. Who keeps connections for
// later, as an HTTP client does, must not send a POST again then; told that nothing was written, it
// takes another connection. So Write looks first whether that has just come, and the first one
// after a pause asks first, by an empty WRITE that the peer's adapter acknowledges.

const (
	// pauseTime is how long nothing has come from the peer before Write asks. To ask costs a round
	// trip, which is as much as a small request takes: 0.1 ms on one host. So only one in a pause
	// does.
	pauseTime = 100 * time.Millisecond
	// glanceTime is how long nothing has come from the peer before Write looks. That costs less
	// than a microsecond, once in a pause.
	glanceTime = time.Millisecond
)

// Tests are more patient.
var (
	// confirmRTT is the longest round trip that Write takes for that.
	confirmRTT = 5 * time.Millisecond
	// confirmTime is how long Write waits for a peer that stands still. Then it goes on as if it
	// had not asked.
	confirmTime = 500 * time.Millisecond
)

// confirm has the peer's adapter show that it is there, if there was a pause. What it finds out
// otherwise is in writeEnd. mu and wmu are held.
func (c *Conn) confirm() {
	if c.keepGap <= 0 || c.wr.try || c.writeEnd() != nil {
		return
	}
	now := c.alarm.Now()
	if now-c.answered < glanceTime {
		return
	}
	c.look()
	ended := c.qp.State() == verbs.StateErr // which who waits in Read has not taken in yet
	if !ended && (now-c.answered < pauseTime || c.s.awaited() || c.qp.Stats().SmoothedRTT > confirmRTT) || c.writeEnd() != nil || c.s.over() {
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
