package cm

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Will is the last will of a connection: the DREQ that tells the peer of its end, ready for another
// to send when this node is gone without a word. An Agent that sends it needs only the numbers, see
// [Agent.Tell].
type Will struct {
	ID   mad.CommID // of the connection
	Live bool       // false: the connection is over, and the will of ID with it

	RemoteID  mad.CommID // the peer's own ID
	RemoteQPN ib.QPN
	Packet
}

// KeepWills makes the agent report the wills from now on, starting with all that exist; see
// [Agent.PollWill].
func (a *Agent) KeepWills() {
	a.keepWills = true
	for _, c := range a.byID {
		c.willed = false
		c.updateWill()
	}
}

// Tell tells a peer that the node with which it had a connection is gone: w is that node's will, at
// an address that now belongs to this agent. The answer goes to an ID that does not exist any more.
// So a question with an ID of this agent follows: every CM answers a DREQ for an unknown
// connection, and handles messages in the order of their arrival. See [Agent.Untold].
func (a *Agent) Tell(w *Will) {
	if a.send(w.Src, w.Dst, mad.AttrDREQ, goneTID(w.ID, w.RemoteID), &mad.DREQ{
		LocalCommID: w.ID, RemoteCommID: w.RemoteID, RemoteQPN: w.RemoteQPN,
	}) != nil {
		a.stats.DropTx++
		return
	}
	id, err := a.newID()
	r, e := a.random()
	if err != nil || e != nil || len(a.told) >= maxTold ||
		a.send(w.Src, w.Dst, mad.AttrDREQ, mad.TID(r), &mad.DREQ{
			LocalCommID: id, RemoteCommID: w.RemoteID, RemoteQPN: mad.NobodysQPN,
		}) != nil {
		return
	}
	if a.told == nil {
		a.told = map[mad.TID]struct{}{}
	}
	a.told[mad.TID(r)] = struct{}{}
}

// Untold returns how many peers have not shown that they have received what Tell sent. Peers that
// are gone stay counted.
func (a *Agent) Untold() int { return len(a.told) }

// maxTold bounds how many are asked.
const maxTold = 64

// goneTID is the transaction ID of a DREQ that says that its node is gone, so that the peer does
// not take it for an orderly end. All other DREQs have random ones. A peer that does not know this
// sees an ordinary DREQ.
func goneTID(local, remote mad.CommID) mad.TID { return ^(mad.TID(local)<<32 | mad.TID(remote)) }

// PollWill returns the next change of the wills.
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

// hasWill reports whether the peer may believe that it is connected; it may while a DREQ is on its
// way, because that may get lost.
func (s State) hasWill() bool {
	switch s {
	case RepRcvd, RepSent, MRARepRcvd, Established, DReqSent:
		return true
	}
	return false
}

// updateWill makes or revokes the will when the state has changed.
func (c *Conn) updateWill() {
	switch {
	case !c.state.hasWill():
		c.revokeWill()
	case c.a.keepWills && !c.willed:
		c.willed = true
		w := Will{ID: c.localID, Live: true, RemoteID: c.remoteID, RemoteQPN: c.remoteQPN,
			Packet: Packet{Src: c.local, Dst: c.remote}}
		// Nothing waits for the answer, so the transaction ID need not be hard to guess. Encoding
		// cannot fail without private data.
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
