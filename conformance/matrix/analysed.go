package matrix

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// All that a row concludes from packets is what roce/analyse says of them. Here they get there.

// The views of ether.Views.
const (
	atRequester = 0
	atResponder = 1
)

// views starts to record what the two sides of the connection see.
func (c *conn) views() *ether.Views {
	w := c.env.Wire
	return w.Views(w.Port(c.req.p.PortName()), w.Port(c.rsp.p.PortName()), c.between())
}

// ends are the two endpoints of the connection: requester, responder.
func (c *conn) ends() [2]analyse.Endpoint {
	return [2]analyse.Endpoint{
		{Addr: c.req.p.Addr(c.family), QPN: ib.QPN(c.rq.QPN()), Known: true},
		{Addr: c.rsp.p.Addr(c.family), QPN: ib.QPN(c.sq.QPN()), Known: true},
	}
}

// analysed is the analyser's report of what one side has seen of the connection so far. tries is
// for the requester.
func (c *conn) analysed(v *ether.Views, view int, conduct analyse.Conduct, tries ...int) (*analyse.Report, error) {
	if n := v.Lost(); n > 0 {
		return nil, fmt.Errorf("trace: %d packets lost", n)
	}
	known := analyse.Known{Ends: c.ends(), MTU: c.mtu, FirstPSN: [2]ib.PSN{firstPSN, firstPSN}}
	copy(known.Tries[:], tries)
	conduct.Connections = []analyse.Known{known}
	var file bytes.Buffer
	if err := v.WritePcapng(&file, view); err != nil {
		return nil, err
	}
	r, _, err := analyse.Read(&file, analyse.Options{Conduct: &conduct})
	if err == nil && r.Unjudged > 0 {
		err = fmt.Errorf("trace: %d packets were not judged", r.Unjudged)
	}
	return r, err
}

// loss is the packet at a position of an operation that starts at the connection's present PSN, for
// analysed.
func (c *conn) loss(at position, size int) analyse.Loss {
	ends := c.ends()
	l := analyse.Loss{Requester: ends[0], Responder: ends[1], PSN: ib.PSN(c.target(at, size).PSN)}
	if at == rspFirst || at == rspMiddle || at == rspLast {
		l.Response, l.Request, l.MTU = true, ib.PSN(c.psn), c.mtu
	}
	return l
}

// wired has the analyser read packets as the wire sees them, between the two hosts. It keeps none
// of them.
type wired struct {
	mu  sync.Mutex
	dec pcap.Decoder
	a   *analyse.Analyser
	n   int
}

func newWired(recall int) *wired { return &wired{a: analyse.New(analyse.Options{Recall: recall})} }

// take takes a packet; times are the switch's.
func (w *wired) take(at time.Duration, p *ether.Packet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.a == nil {
		return
	}
	w.n++
	ps := w.dec.Decode(&pcap.Frame{
		Number: w.n, AtNs: int64(at), Link: pcap.LinkEthernet, Data: p.Frame, WireBytes: len(p.Frame),
	})
	for i := range ps {
		w.a.Add(&ps[i])
	}
}

// report ends it.
func (w *wired) report() *analyse.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.a.Report()
	w.a = nil
	return r
}

// delivered is the analyser's report of a trace, as far as rules let its packets pass.
func delivered(events []ether.Event) *analyse.Report {
	w := newWired(max(1, len(events)))
	for _, e := range events {
		if e.Delivered() {
			w.take(e.At, e.Pkt)
		}
	}
	return w.report()
}

// repair is the analyser's answer to how a loss was mended, as the requester saw it.
func (x *trial) repair(l analyse.Loss) *analyse.Repair {
	return peer.Got(x.analysed(x.v, atRequester, analyse.Conduct{Losses: []analyse.Loss{l}})).Repairs[0]
}
