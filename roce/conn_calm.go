package roce

import (
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// calm decides whether an operation begun with Start hurries the peer's acknowledgement, which is a
// datagram of its own and wakes this process. It need not, if callers have lately come for outcomes
// that were there already, or for none. A wait for one that did not hurry asks the peer, which
// takes a round trip. After such a mistake twice as many have to show that nobody waits.
//
// Both ends have to know this: an end that closes first acknowledges what nobody has asked for.
type calm struct { // under Conn.mu
	able bool // the peer does that
	run  int  // operations in a row that were done before anybody waited
	need int  // for the next one not to hurry, beyond minCalm
}

// Limits of calm, in operations.
const (
	minCalm = 16
	maxCalm = 4096
)

// now reports whether the next operation need not hurry.
func (v *calm) now() bool { return v.able && v.run >= max(v.need, minCalm) }

// ended notes an operation that was done before anybody waited.
func (v *calm) ended() {
	if v.run++; v.run == maxCalm {
		v.need /= 2
		v.run = max(v.need, minCalm)
	}
}

// hasten is called when somebody waits for an operation that is not done. c.mu is held.
func (c *Conn) hasten(p *Pending) {
	c.calm.run = 0
	if p.patient {
		p.patient = false
		c.calm.need = min(2*max(c.calm.need, minCalm), maxCalm/2)
		core.Open(c.qp).Ask()
	}
}

// setFlags sets those of the requests of an operation. Only the last completes, and so only it may
// have to hurry.
func (c *Conn) setFlags(wrs []verbs.SendWR, p *Pending) {
	p.patient = p.op != nil && c.calm.now()
	for i := range wrs {
		// The requests may be the program's, and have the flags of an earlier operation.
		f, last := &wrs[i].Flags, i == len(wrs)-1
		*f &^= verbs.SendSignaled | access.SendPatient
		if last {
			*f |= verbs.SendSignaled
		}
		if !last || p.patient {
			*f |= access.SendPatient
		}
	}
}
