package rsocket

import (
	"container/list"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// packetPeer is what a socket knows of another one.
type packetPeer struct {
	addr  netip.AddrPort
	queue *packetQueue // where to speak from
	ah    *verbs.AH    // nil: its queue pair is not known
	qpn   ib.QPN
}

// known reports whether the peer has said where its queue pair is.
func (p *packetPeer) known() bool { return p.ah != nil }

// learn notes the queue pair of the peer. An address that the device does not lead to leaves it
// unknown: it is spoken to by its UDP port then.
func (p *packetPeer) learn(qpn ib.QPN) {
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
		_ = p.ah.Close() // which fails on a closed device only
		p.ah = nil
	}
}

// peerTable are the peers that were heard of last, up to most: anybody can send from as many
// addresses as he likes. One that was forgotten is asked again.
type peerTable struct {
	most int
	by   map[netip.AddrPort]*list.Element
	used list.List // of *packetPeer, the one used last in front
}

// find returns a peer, nil if it is not there.
func (t *peerTable) find(a netip.AddrPort) *packetPeer {
	e := t.by[a]
	if e == nil {
		return nil
	}
	t.used.MoveToFront(e)
	return e.Value.(*packetPeer)
}

// add enters a peer that is not there.
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

// clear forgets all.
func (t *peerTable) clear() {
	for t.used.Len() > 0 {
		t.drop(t.used.Back())
	}
}
