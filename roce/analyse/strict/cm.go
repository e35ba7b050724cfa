package strict

import (
	"fmt"
	"hash/fnv"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// cmChecker follows RDMA-CM: which messages may follow which, and what they agree upon.
type cmChecker struct {
	c    *Checker
	asks map[cmKey]*ask
}

// cmKey is a connection as one end names it: who, to whom, and the communication ID that it chose.
type cmKey struct {
	by, to [16]byte
	id     mad.CommID
}

// ask is a connection on its way.
type ask struct {
	frame   int
	req     mad.REQ
	tid     mad.TID
	same    [numMessages]uint64 // what each message was, to know one that comes again
	rep     bool
	repID   mad.CommID
	closing [2]bool // a DREQ was seen, of the active and the passive end
	ended   bool
}

const (
	maxAsks     = 1 << 14
	numMessages = 16
)

func keyOf(p *pcap.Packet, back bool, id mad.CommID) cmKey {
	if back {
		return cmKey{p.Flow.Dst.As16(), p.Flow.Src.As16(), id}
	}
	return cmKey{p.Flow.Src.As16(), p.Flow.Dst.As16(), id}
}

// add takes a datagram for queue pair 1.
func (m *cmChecker) add(p *pcap.Packet) {
	var h mad.Header
	b, err := mad.Parse(p.Payload, &h)
	if err != mad.OK || h.Class != mad.ClassCM || h.Method != mad.MethodSend {
		return
	}
	if m.asks == nil || len(m.asks) >= maxAsks {
		m.asks = map[cmKey]*ask{}
	}
	unasked := []Excuse{ExcuseCapture, ExcuseBefore}
	broke := func(allowed string) {
		m.c.broke(RuleCMOrder, p, p.Flow.Src, unasked, allowed, fmt.Sprintf("%v", h.Attribute))
	}
	switch h.Attribute {
	case mad.AttrREQ:
		var req mad.REQ
		req.Decode(b)
		k := keyOf(p, false, req.LocalCommID)
		a := m.asks[k]
		if a == nil || a.ended {
			a = &ask{frame: p.Frame, tid: h.TID}
			a.req = req
			a.req.Private = nil
			m.asks[k] = a
		}
		m.repeats(p, a, 0, b, &h)
	case mad.AttrREP:
		var rep mad.REP
		rep.Decode(b)
		a := m.asks[keyOf(p, true, rep.RemoteCommID)]
		if a == nil {
			broke("a REQ with the communication ID before it")
			return
		}
		if h.TID != a.tid {
			m.c.broke(RuleCMOrder, p, p.Flow.Src, []Excuse{ExcuseReuse},
				fmt.Sprintf("the transaction ID of the REQ in packet %d, %#x", a.frame, uint64(a.tid)),
				fmt.Sprintf("%#x", uint64(h.TID)))
		}
		m.repeats(p, a, 1, b, &h)
		if !a.rep {
			a.rep, a.repID = true, rep.LocalCommID
			m.asks[keyOf(p, false, rep.LocalCommID)] = a
			m.agree(p, &a.req, &rep)
		}
	case mad.AttrRTU:
		var rtu mad.RTU
		rtu.Decode(b)
		a := m.asks[keyOf(p, false, rtu.LocalCommID)]
		switch {
		case a == nil || !a.rep:
			broke("a REP before it")
		case rtu.RemoteCommID != a.repID:
			unasked = []Excuse{ExcuseCapture, ExcuseReuse}
			broke(fmt.Sprintf("the communication ID of the REP, %#x", uint32(a.repID)))
		}
	case mad.AttrDREQ:
		var q mad.DREQ
		q.Decode(b)
		a := m.asks[keyOf(p, false, q.LocalCommID)]
		if a == nil {
			return // from before the capture, or a question
		}
		if !a.rep && q.RemoteQPN != mad.NobodysQPN {
			broke("a REP before it")
		}
		a.closing[m.side(a, p)] = true
	case mad.AttrDREP:
		var q mad.DREP
		q.Decode(b)
		if a := m.asks[keyOf(p, true, q.RemoteCommID)]; a != nil {
			if !a.closing[1-m.side(a, p)] {
				broke("a DREQ before it")
			}
			a.ended = true
		}
	}
}

// side is 0 for the end that sent the REQ.
func (m *cmChecker) side(a *ask, p *pcap.Packet) int {
	if m.asks[keyOf(p, false, a.req.LocalCommID)] == a {
		return 0
	}
	return 1
}

// repeats judges a message that comes again.
func (m *cmChecker) repeats(p *pcap.Packet, a *ask, i int, b *mad.Data, h *mad.Header) {
	hash := fnv.New64a()
	_, _ = hash.Write(b[:])
	sum := hash.Sum64() | 1
	if a.same[i] != 0 && a.same[i] != sum {
		m.c.broke(RuleCMAgain, p, p.Flow.Src, []Excuse{ExcuseReuse},
			"the same message, with the same communication ID", fmt.Sprintf("another %v", h.Attribute))
	}
	a.same[i] = sum
}

// agree takes what a REQ and its REP say of the connection.
func (m *cmChecker) agree(p *pcap.Packet, q *mad.REQ, r *mad.REP) {
	if q.Transport != mad.TransportRC && q.Transport != mad.TransportUC {
		return
	}
	passive, active := p.Flow.Src, p.Flow.Dst
	there := flowKey{active, passive, r.QPN}
	back := flowKey{passive, active, q.QPN}
	common := agreement{mtu: q.MTU.Bytes(), noAltPath: q.Alternate == mad.Path{}, pkey: q.PKey,
		timeoutNs: 2 * q.Primary.AckTimeout.Ns()}
	if active.Is6() {
		common.label = q.Primary.FlowLabel
	}
	var pair [2]*flow
	for i, k := range []flowKey{there, back} {
		f := m.c.flows[k]
		if f == nil {
			f = m.c.newFlow(k)
		}
		if f == nil {
			return
		}
		a := common
		a.depth = int(min(q.InitiatorDepth, r.ResponderResources))
		psn := r.StartingPSN
		if i == 1 {
			a.depth, psn = int(min(r.InitiatorDepth, q.ResponderResources)), q.StartingPSN
		}
		fresh := f.lastNs == 0 || f.agreed != nil || !f.half.begun || psn.Diff(f.half.next) != 0
		if fresh {
			f.begin()
			f.half.start(psn)
		}
		f.agreed = &a
		f.learnMTU(a.mtu)
		pair[i] = f
	}
	pair[0].join(pair[1])
}
