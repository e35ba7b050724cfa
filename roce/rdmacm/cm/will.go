package cm

import "github.com/goroce/goroce/ib/mad"

// Will is the last will of a connection: the DREQ that tells the peer of its end, ready for somebody
// else to send when this node is gone without a word.
type Will struct {
	ID   mad.CommID // of the connection
	Live bool       // false: the connection is over, and the will of ID with it
	Packet
}

// KeepWills has the agent say from now on what wills there are; see [Agent.PollWill].
func (a *Agent) KeepWills() {
	if a.keepWills {
		return
	}
	a.keepWills = true
	for _, c := range a.byID {
		c.updateWill()
	}
}

// PollWill takes the next change of the wills.
func (a *Agent) PollWill() (Will, bool) {
	if len(a.wills) == 0 {
		return Will{}, false
	}
	w := a.wills[0]
	if a.wills = a.wills[1:]; len(a.wills) == 0 {
		a.wills = nil
	}
	return w, true
}

// hasWill reports whether the peer may think that it is connected. That is also while a DREQ is on its
// way: it may get lost.
func (s State) hasWill() bool {
	switch s {
	case RepRcvd, RepSent, MRARepRcvd, Established, DReqSent:
		return true
	}
	return false
}

// updateWill notes what has become of the will.
func (c *Conn) updateWill() {
	switch {
	case !c.state.hasWill():
		c.revokeWill()
	case c.a.keepWills && !c.willed:
		c.willed = true
		w := Will{ID: c.localID, Live: true, Packet: Packet{Src: c.local, Dst: c.remote}}
		// Nothing waits for the answer: the transaction needs no number that others cannot guess. It cannot fail without
		// private data.
		_ = encode(&w.Data, mad.AttrDREQ, mad.TID(c.localID)<<32|mad.TID(c.remoteID), c.dreq(nil))
		c.a.wills = append(c.a.wills, w)
	}
}

func (c *Conn) revokeWill() {
	if c.willed {
		c.willed = false
		c.a.wills = append(c.a.wills, Will{ID: c.localID})
	}
}
