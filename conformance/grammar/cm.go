package grammar

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// CM speaks RDMA-CM with the target: connections for themselves, whose queue pairs nobody has.
type CM struct {
	Here, There netip.Addr
	Port        uint16 // that the target listens on
	Datagrams   uint16 // that it answers lookups at; 0 if it does not

	calls []*call
	next  mad.CommID
	data  [mad.Bytes]byte

	// Heard counts the messages of the target by their attributes.
	Heard map[mad.Attribute]int
}

// call is one connection on its way.
type call struct {
	ours, theirs mad.CommID
	tid          mad.TID
	qpn, peer    ib.QPN
	state        callState
}

type callState uint8

const (
	callAsked  callState = iota // a REQ was said
	callReady                   // a REP was heard
	callUp                      // an RTU was said
	callEnding                  // a DREQ was said
	callOver
)

const mostCalls = 16

// firstComm is where the speaker's communication IDs begin.
const firstComm = 0x5000_0000

// say returns the next message: mostly what comes next in the life of a connection, and sometimes anything else.
func (m *CM) say(s *Speaker) Packet {
	d := s.d
	if m.next == 0 {
		m.next, m.Heard = firstComm, map[mad.Attribute]int{}
	}
	if len(m.calls) == 0 || len(m.calls) < mostCalls && d.OneIn(4) {
		m.next++
		m.calls = append(m.calls, &call{ours: m.next, tid: mad.TID(m.next), qpn: ib.QPN(0x300000 + uint32(m.next)&0xfffff)})
		return m.wrap(s, m.req(m.calls[len(m.calls)-1]))
	}
	i := d.N(len(m.calls))
	c := m.calls[i]
	what := d.Byte()
	switch {
	case what < 16: // out of turn
		return m.wrap(s, m.any(s, c))
	case what < 24 && m.Datagrams != 0:
		return m.wrap(s, m.lookup(c))
	}
	switch c.state {
	case callAsked:
		if what < 64 {
			c.state = callOver
			return m.wrap(s, m.put(mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: c.ours, Rejected: mad.SubjectREQ, Reason: mad.RejectTimeout}))
		}
		return m.wrap(s, m.req(c)) // again
	case callReady:
		c.state = callUp
		if what < 40 {
			c.state = callOver
			return m.wrap(s, m.put(mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: c.ours, RemoteCommID: c.theirs, Rejected: mad.SubjectREP, Reason: mad.RejectConsumer}))
		}
		if what < 60 {
			c.state = callReady
			return m.wrap(s, m.put(mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: c.ours, RemoteCommID: c.theirs, Acknowledged: mad.SubjectREP, ServiceTimeout: ib.TimeoutCode(d.N(32))}))
		}
		return m.wrap(s, m.put(mad.AttrRTU, c.tid, &mad.RTU{LocalCommID: c.ours, RemoteCommID: c.theirs}))
	case callUp, callEnding:
		c.state = callEnding
		return m.wrap(s, m.put(mad.AttrDREQ, c.tid, &mad.DREQ{LocalCommID: c.ours, RemoteCommID: c.theirs, RemoteQPN: c.peer}))
	}
	m.calls = append(m.calls[:i], m.calls[i+1:]...)
	return m.wrap(s, m.put(mad.AttrDREP, c.tid, &mad.DREP{LocalCommID: c.ours, RemoteCommID: c.theirs}))
}

// putter is what all messages can do.
type putter interface{ Put(*mad.Data) error }

// put encodes a message into m.data. A field that does not fit stays out.
func (m *CM) put(a mad.Attribute, tid mad.TID, x putter) []byte {
	clear(m.data[:])
	h := mad.CMHeader(a, tid)
	_ = x.Put(h.Put(&m.data))
	return m.data[:]
}

func (m *CM) header(port uint16) []byte {
	b := make([]byte, mad.CMAHeaderBytes)
	h := mad.CMAHeader{SrcPort: port, Src: m.Here, Dst: m.There}
	if h.Put(b) != nil {
		return nil
	}
	return b
}

func (m *CM) req(c *call) []byte {
	return m.put(mad.AttrREQ, c.tid, &mad.REQ{
		LocalCommID: c.ours, ServiceID: mad.NewServiceID(mad.PortSpaceTCP, m.Port), CAGUID: 0x0102030405060708, QPN: c.qpn,
		ResponderResources: 4, InitiatorDepth: 4, RemoteCMTimeout: 20, LocalCMTimeout: 20, RetryCount: 7, RNRRetryCount: 7, MaxCMRetries: 15,
		PKey: ib.PKeyDefault, MTU: ib.MTU1024, StartingPSN: 0xfffff0,
		Primary: mad.Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(m.Here), RemoteGID: ib.GIDFromAddr(m.There), HopLimit: 64},
		Private: m.header(0x9817),
	})
}

func (m *CM) lookup(c *call) []byte {
	return m.put(mad.AttrSIDRReq, c.tid, &mad.SIDRReq{RequestID: uint32(c.ours), PKey: ib.PKeyDefault, ServiceID: mad.NewServiceID(mad.PortSpaceUDP, m.Datagrams), Private: m.header(0x9818)})
}

// any is a message that has nothing to do with where a connection is.
func (m *CM) any(s *Speaker, c *call) []byte {
	d := s.d
	theirs := c.theirs
	if d.OneIn(3) {
		theirs = mad.CommID(d.U32())
	} else if d.OneIn(2) {
		theirs ^= 1 << d.N(32)
	}
	ours := c.ours
	if d.OneIn(3) {
		ours ^= 1 << d.N(8)
	}
	switch d.N(9) {
	case 0:
		return m.put(mad.AttrREP, c.tid, &mad.REP{LocalCommID: ours, RemoteCommID: theirs, QPN: c.qpn, StartingPSN: 5})
	case 1:
		return m.put(mad.AttrRTU, c.tid, &mad.RTU{LocalCommID: ours, RemoteCommID: theirs})
	case 2:
		return m.put(mad.AttrDREQ, c.tid, &mad.DREQ{LocalCommID: ours, RemoteCommID: theirs, RemoteQPN: c.peer ^ ib.QPN(d.N(2))})
	case 3:
		return m.put(mad.AttrDREP, c.tid, &mad.DREP{LocalCommID: ours, RemoteCommID: theirs})
	case 4:
		return m.put(mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: ours, RemoteCommID: theirs, Rejected: mad.Subject(d.N(4)), Reason: mad.RejectReason(d.N(64))})
	case 5:
		return m.put(mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: ours, RemoteCommID: theirs, Acknowledged: mad.Subject(d.N(3)), ServiceTimeout: ib.TimeoutCode(d.N(32))})
	case 6:
		return m.put(mad.AttrSIDRRep, c.tid, &mad.SIDRRep{RequestID: uint32(ours), QPN: c.qpn})
	case 7:
		return m.put(mad.AttrLAP, c.tid, &mad.LAP{LocalCommID: ours, RemoteCommID: theirs})
	}
	return m.req(c)
}

// wrap is the datagram of a message; one in 16 has a bit that is wrong.
func (m *CM) wrap(s *Speaker, msg []byte) Packet {
	if s.d.OneIn(16) {
		msg[s.d.N(len(msg))] ^= 1 << s.d.N(8)
	}
	copy(s.payload[:], msg)
	s.pk = ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, MigReq: true, DestQP: 1}, DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: 1}}
	s.pk.Payload = s.payload[:len(msg)]
	if s.d.OneIn(64) {
		s.pk.Payload = s.payload[:s.d.N(len(msg)+8)]
		s.pk.Pad = uint8(s.d.N(4))
	}
	return Packet{Data: s.encode()}
}

// hear takes a message of the target.
func (m *CM) hear(p *ib.Packet) {
	var h mad.Header
	b, e := mad.Parse(p.Payload, &h)
	if e != mad.OK || h.Class != mad.ClassCM || m.Heard == nil {
		return
	}
	m.Heard[h.Attribute]++
	find := func(id mad.CommID) *call {
		for _, c := range m.calls {
			if c.ours == id {
				return c
			}
		}
		return nil
	}
	switch h.Attribute {
	case mad.AttrREP:
		var rep mad.REP
		rep.Decode(b)
		if c := find(rep.RemoteCommID); c != nil && c.state == callAsked {
			c.theirs, c.peer, c.state = rep.LocalCommID, rep.QPN, callReady
		}
	case mad.AttrREJ:
		var rej mad.REJ
		rej.Decode(b)
		if c := find(rej.RemoteCommID); c != nil {
			c.state = callOver
		}
	case mad.AttrDREQ:
		var x mad.DREQ
		x.Decode(b)
		if c := find(x.RemoteCommID); c != nil {
			c.state = callOver
		}
	case mad.AttrDREP:
		var x mad.DREP
		x.Decode(b)
		if c := find(x.RemoteCommID); c != nil {
			c.state = callOver
		}
	}
}
