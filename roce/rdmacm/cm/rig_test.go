package cm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

func netipFrom(b [4]byte) netip.Addr { return netip.AddrFrom4(b) }

// rig is a world of one node and a puppet that sends what it is told.
type rig struct {
	*world
	t  *testing.T
	n  *node
	pu *node // address and GUID only
	c  *Conn
	// what the puppet says about itself
	id  mad.CommID
	qpn ib.QPN
	tid mad.TID
}

func newRig(t *testing.T) *rig {
	w := newWorld(t, 11)
	r := &rig{world: w, t: t, n: w.node(1, Limits{}), id: 0xABCD, qpn: 777, tid: 42}
	r.pu = &node{w: w, addr: netip.MustParseAddr("10.0.0.9"), guid: 99}
	r.n.app = func(e *Event) {
		if r.c == nil {
			r.c = e.Conn
		}
	}
	return r
}

// in delivers a message of the puppet and returns what comes back.
func (r *rig) in(at mad.Attribute, m putter) string {
	var b [mad.Bytes]byte
	require.NoError(r.t, encode(&b, at, r.answerTID(), m))
	r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
	return r.out()
}

// answerTID is the transaction ID of what the node waits for an answer to, or else the puppet's.
func (r *rig) answerTID() mad.TID {
	if r.c != nil && (r.c.state == ReqSent || r.c.state == MRAReqRcvd || r.c.state == SIDRReqSent) {
		return r.c.tid
	}
	return r.tid
}

// out returns what the node has done since the last call: messages and events.
func (r *rig) out() string {
	var s []string
	for e, ok := r.n.PollEvent(); ok; e, ok = r.n.PollEvent() {
		what := fmt.Sprintf("[%v]", e.Type)
		if e.Type == EventRejected {
			what = fmt.Sprintf("[%v: %v]", e.Type, e.Reason)
		}
		s = append(s, what)
		r.n.app(&e)
	}
	var p Packet
	for r.n.PollTransmit(&p) {
		s = append(s, describe(&p))
	}
	return strings.Join(s, " ")
}

func describe(p *Packet) string {
	var h mad.Header
	data, _ := mad.Parse(p.Data[:], &h)
	switch h.Attribute {
	case mad.AttrREJ:
		var m mad.REJ
		m.Decode(data)
		return fmt.Sprintf("REJ(%d %v)", m.Rejected, m.Reason)
	case mad.AttrMRA:
		var m mad.MRA
		m.Decode(data)
		return fmt.Sprintf("MRA(%d)", m.Acknowledged)
	case mad.AttrSIDRRep:
		var m mad.SIDRRep
		m.Decode(data)
		return fmt.Sprintf("SIDR_REP(%v)", m.Status)
	case mad.AttrAPR:
		var m mad.APR
		m.Decode(data)
		return fmt.Sprintf("APR(%d)", m.Status)
	}
	return h.Attribute.String()
}

func (r *rig) req() *mad.REQ {
	return &mad.REQ{
		LocalCommID: r.id, ServiceID: service, CAGUID: r.pu.guid, QPN: r.qpn, MTU: ib.MTU1024, PKey: ib.PKeyDefault,
		Private: r.pu.private(r.n, 1, "hello"), InitiatorDepth: 1, ResponderResources: 1, RemoteCMTimeout: 20,
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(r.pu.addr), RemoteGID: ib.GIDFromAddr(r.n.addr), AckTimeout: 14},
	}
}

func (r *rig) rep() *mad.REP {
	return &mad.REP{LocalCommID: r.id, RemoteCommID: r.local(), QPN: r.qpn, CAGUID: r.pu.guid, ResponderResources: 1}
}

// local is the ID of the node's connection, or one that nobody has.
func (r *rig) local() mad.CommID {
	if r.c == nil {
		return 0x12121212
	}
	return r.c.LocalID()
}

// reach brings the node's connection to a state.
func (r *rig) reach(s State) {
	must := func(err error) { require.NoError(r.t, err) }
	listen := func() {
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		must(err)
		r.in(mad.AttrREQ, r.req())
	}
	switch s {
	case Idle:
	case ReqSent, MRAReqRcvd, RepRcvd:
		r.c = r.n.connect(&node{addr: r.pu.addr}, "")
		r.tid = r.c.tid
		r.out()
		switch s {
		case MRAReqRcvd:
			r.in(mad.AttrMRA,
				&mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ, ServiceTimeout: 20})
		case RepRcvd:
			r.in(mad.AttrREP, r.rep())
		}
	case ReqRcvd:
		listen()
	case RepSent, MRARepRcvd:
		listen()
		must(r.c.Accept(r.now, Accept{QPN: 555}))
		r.out()
		if s == MRARepRcvd {
			r.in(mad.AttrMRA,
				&mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP, ServiceTimeout: 20})
		}
	case Established, DReqSent, Timewait:
		r.reach(RepRcvd)
		must(r.c.Ready(r.now, nil))
		if s != Established {
			must(r.c.Disconnect(r.now, nil))
		}
		if s == Timewait {
			r.in(mad.AttrDREP, &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()})
		}
		r.out()
	case SIDRReqSent:
		var err error
		r.c, err = r.n.Resolve(r.now, Lookup{Local: r.n.addr, Remote: r.pu.addr, Service: sidrService}, nil)
		must(err)
		r.out()
	case SIDRReqRcvd, SIDRRepSent:
		_, err := r.n.Listen(sidrService, netip.Addr{}, 0)
		must(err)
		r.in(mad.AttrSIDRReq, r.sidrReq())
		if s == SIDRRepSent {
			must(r.c.AnswerLookup(r.now, LookupAnswer{QPN: 5}))
			r.out()
		}
	}
	if s != Idle {
		require.Equal(r.t, s, r.c.State())
	}
}

func (r *rig) sidrReq() *mad.SIDRReq {
	return &mad.SIDRReq{RequestID: 31337, PKey: ib.PKeyDefault, ServiceID: sidrService,
		Private: r.pu.private(r.n, 1, "")}
}

func (r *rig) dreq(off ib.QPN) *mad.DREQ {
	qpn := ib.QPN(1)
	if r.c != nil {
		qpn = r.c.localQPN + off
	}
	return &mad.DREQ{LocalCommID: r.id, RemoteCommID: r.local(), RemoteQPN: qpn}
}
