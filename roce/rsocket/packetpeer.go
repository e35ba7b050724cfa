package rsocket

import (
	"container/list"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// packetPeer is what a socket knows of a peer.
type packetPeer struct {
	addr  netip.AddrPort
	queue *packetQueue // where to send from
	ah    *verbs.AH    // nil: its queue pair is unknown
	qpn   ib.QPN
	plain plainPeer
}

// known reports whether the peer's queue pair is known.
func (p *packetPeer) known() bool { return p.ah != nil }

// learn records the queue pair of the peer. If the device cannot reach the address, it stays
// unknown, and its UDP port is used.
func (p *packetPeer) learn(qpn ib.QPN) {
	p.plain = plainPeer{}
	if p.ah != nil {
		p.qpn = qpn
		return
	}
	if ah, err := p.queue.way(p.addr.Addr()); err == nil {
		p.ah, p.qpn = ah, qpn
	}
}

func (p *packetPeer) forget() {
	if p.ah != nil {
		_ = p.ah.Close() // fails on a closed device only
		p.ah = nil
	}
}

// peerTable holds the peers heard of last, up to most, because anyone can send from any number of
// addresses. A forgotten peer is asked again.
type peerTable struct {
	most int
	by   map[netip.AddrPort]*list.Element
	used list.List // of *packetPeer, the one used last in front
}

// find returns a peer, or nil.
func (t *peerTable) find(a netip.AddrPort) *packetPeer {
	e := t.by[a]
	if e == nil {
		return nil
	}
	t.used.MoveToFront(e)
	return e.Value.(*packetPeer)
}

// add enters a new peer.
func (t *peerTable) add(p *packetPeer) {
	if t.by == nil {
		t.by = map[netip.AddrPort]*list.Element{}
	}
	for len(t.by) >= t.most {
		t.drop(t.used.Back())
	}
	t.by[p.addr] = t.used.PushFront(p)
}

func (t *peerTable) drop(e *list.Element) {
	p := t.used.Remove(e).(*packetPeer)
	delete(t.by, p.addr)
	p.forget()
}

// clear forgets all peers.
func (t *peerTable) clear() {
	for t.used.Len() > 0 {
		t.drop(t.used.Back())
	}
}
