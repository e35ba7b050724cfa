package drill

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// linkEnd is the drill's end of a real network on a link of this module, at all addresses of the
// drill. The link hands up no packet with a wrong ICRC: one is as if it had not come.
type linkEnd struct {
	l       link.Link
	now     func() time.Duration
	got     chan<- Datagram
	fail    chan<- error
	sending sync.Mutex
	paths   map[pathKey]*transport.Path
	stop    atomic.Bool
	done    chan struct{}
}

type pathKey struct {
	src, dst netip.Addr
	tos      uint8
}

// hops is the hop limit of packets.
const hops = 64

// linkBatch is how many packets are taken from the link at a time.
const linkBatch = 64

func newLinkEnd(l link.Link, now func() time.Duration, got chan<- Datagram, fail chan<- error) *linkEnd {
	e := &linkEnd{l: l, now: now, got: got, fail: fail, paths: map[pathKey]*transport.Path{}, done: make(chan struct{})}
	go e.receive()
	return e
}

// send puts a datagram on the wire as it is: what its ICRC differs by from the right one, the link
// adds to that.
func (e *linkEnd) send(d Datagram) error {
	n := len(d.Payload) - ib.ICRCBytes
	if n < ib.BTHBytes {
		return fmt.Errorf("drill: the link %s sends no packet of %d bytes", e.l.Capabilities().Name, len(d.Payload))
	}
	body := d.Payload[:n]
	c := ib.NewICRC(ib.Flow{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: ib.UDPPort})
	head := min(n, int(ib.MaxHeaderBytes))
	if info := ib.Opcode(body[0]).Info(); info.HeaderLen > 0 {
		head = min(n, int(info.HeaderLen))
	}
	e.sending.Lock()
	defer e.sending.Unlock()
	p := transport.TxPacket{
		Path: e.path(d), HeaderLen: uint8(head), PayloadLen: uint16(n - head),
		ICRCXor: ib.TrailingICRC(d.Payload) ^ c.Checksum(0, body),
	}
	copy(p.Header[:], body[:head])
	if n > head {
		p.Frags[0], p.NumFrags = body[head:], 1
	}
	e.l.Send([]transport.TxPacket{p})
	return nil
}

// path is the way of a datagram; the link keeps what it has found out about it there.
func (e *linkEnd) path(d Datagram) *transport.Path {
	k := pathKey{d.Src, d.Dst, d.TOS}
	p := e.paths[k]
	if p == nil {
		p = &transport.Path{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, TrafficClass: d.TOS, HopLimit: hops}
		e.paths[k] = p
	}
	return p
}

// receive hands on what comes, until the link is closed.
func (e *linkEnd) receive() {
	defer close(e.done)
	batch := make([]transport.RxPacket, linkBatch)
	var empty time.Duration // when there was nothing last
	for !e.stop.Load() {
		asked := e.now()
		n, err := e.l.Recv(batch)
		if n == 0 {
			empty = asked
		}
		now := e.now()
		for _, p := range batch[:n] {
			d := Datagram{At: now, Late: now - empty, Src: p.Src.WithZone(""), Dst: p.Dst.WithZone(""),
				SrcPort: p.SrcPort, TOS: p.TrafficClass, Payload: append([]byte(nil), p.Data...)}
			select {
			case e.got <- d:
			default: // as a network does
			}
		}
		if err == nil && n == 0 {
			err = e.l.Wait(-1)
		}
		if err != nil {
			select {
			case e.fail <- err:
			default:
			}
			return
		}
	}
}

// Close closes the link, which nobody receives from by then.
func (e *linkEnd) Close() error {
	e.stop.Store(true)
	e.l.Wake()
	<-e.done
	return e.l.Close()
}
