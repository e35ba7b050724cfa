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
	guid  mad.GUID
	data  [mad.Bytes]byte

	// Heard counts the messages of the target by their attributes.
	Heard map[mad.Attribute]int
}

// call is one connection on its way.
type call struct {
	ours, theirs mad.CommID
	tid          mad.TID
	qpn, peer    ib.QPN
	lookup       mad.ServiceID // that the target asks for
	state        callState
}

type callState uint8

const (
	callAsked  callState = iota // a REQ was said
	callReady                   // a REP was heard
	callUp                      // an RTU was said
	callEnding                  // a DREQ was said
	callOver
	callWanted  // the target's REQ was heard,
	callGranted // and a REP was said
	callLookup  // the target's SIDR_REQ was heard
)

const mostCalls = 16

// firstComm is where the speaker's communication IDs begin, and firstGUID where its GUIDs do.
const (
	firstComm = 0x5000_0000
	firstGUID = 0x0102_0304_0506_0708
)

// say returns the next message in a packet.
func (m *CM) say(s *Speaker) Packet { return m.wrap(s, m.message(s.d)) }

// message is the next message: mostly what comes next in the life of a connection, and sometimes
// anything else. One in 16 has a bit that is wrong.
func (m *CM) message(d *Dice) []byte {
	msg := m.right(d)
	if d.OneIn(16) {
		msg[d.N(len(msg))] ^= 1 << d.N(8)
	}
	return msg
}

// restart forgets all connections, as a new process does, with another GUID or with the one before.
func (m *CM) restart(d *Dice) {
	m.calls, m.next, m.guid = m.calls[:0], firstComm, firstGUID+mad.GUID(d.N(4))
}

func (m *CM) right(d *Dice) []byte {
	if m.next == 0 {
		m.next, m.guid, m.Heard = firstComm, firstGUID, map[mad.Attribute]int{}
	}
	if len(m.calls) == 0 || len(m.calls) < mostCalls && d.OneIn(4) {
		return m.req(m.begin(callAsked))
	}
	i := d.N(len(m.calls))
	c := m.calls[i]
	what := d.Byte()
	switch {
	case what < 16: // out of turn
		return m.any(d, c)
	case what < 24 && m.Datagrams != 0:
		return m.lookup(c)
	}
	switch c.state {
	case callAsked:
		if what < 32 {
			c.state = callOver
			return m.put(mad.AttrREJ, c.tid,
				&mad.REJ{LocalCommID: c.ours, Rejected: mad.SubjectREQ, Reason: mad.RejectTimeout})
		}
		return m.req(c) // again
	case callReady:
		c.state = callUp
		if what < 40 {
			c.state = callOver
			return m.put(mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: c.ours, RemoteCommID: c.theirs,
				Rejected: mad.SubjectREP, Reason: mad.RejectConsumer})
		}
		if what < 60 {
			c.state = callReady
			return m.put(mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: c.ours, RemoteCommID: c.theirs,
				Acknowledged: mad.SubjectREP, ServiceTimeout: ib.TimeoutCode(d.N(32))})
		}
		return m.put(mad.AttrRTU, c.tid, &mad.RTU{LocalCommID: c.ours, RemoteCommID: c.theirs})
	case callWanted, callGranted:
		switch {
		case what < 60:
			return m.put(mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: c.ours, RemoteCommID: c.theirs,
				Acknowledged: mad.SubjectREQ, ServiceTimeout: ib.TimeoutCode(d.N(32))})
		case what < 90:
			c.state = callOver
			reason := [...]mad.RejectReason{mad.RejectConsumer, mad.RejectInvalidServiceID,
				mad.RejectStaleConnection, mad.RejectTimeout}[d.N(4)]
			return m.put(mad.AttrREJ, c.tid,
				&mad.REJ{LocalCommID: c.ours, RemoteCommID: c.theirs, Rejected: mad.SubjectREQ, Reason: reason})
		}
		c.state = callGranted
		return m.put(mad.AttrREP, c.tid, &mad.REP{LocalCommID: c.ours, RemoteCommID: c.theirs, QPN: c.qpn,
			StartingPSN: 5, CAGUID: m.guid, ResponderResources: 4, InitiatorDepth: 4})
	case callLookup:
		m.end(i)
		return m.put(mad.AttrSIDRRep, c.tid,
			&mad.SIDRRep{RequestID: uint32(c.theirs), QPN: c.qpn, ServiceID: c.lookup, Status: mad.SIDRStatus(d.N(3))})
	case callUp, callEnding:
		c.state = callEnding
		return m.put(mad.AttrDREQ, c.tid, &mad.DREQ{LocalCommID: c.ours, RemoteCommID: c.theirs, RemoteQPN: c.peer})
	}
	m.end(i)
	return m.put(mad.AttrDREP, c.tid, &mad.DREP{LocalCommID: c.ours, RemoteCommID: c.theirs})
}

// begin begins a connection.
func (m *CM) begin(state callState) *call {
	m.next++
	c := &call{ours: m.next, tid: mad.TID(m.next), qpn: ib.QPN(0x300000 + uint32(m.next)&0xfffff), state: state}
	m.calls = append(m.calls, c)
	return c
}

// end forgets a connection.
func (m *CM) end(i int) { m.calls = append(m.calls[:i], m.calls[i+1:]...) }

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
		LocalCommID: c.ours, ServiceID: mad.NewServiceID(mad.PortSpaceTCP, m.Port), CAGUID: m.guid, QPN: c.qpn,
		ResponderResources: 4, InitiatorDepth: 4, RemoteCMTimeout: 20, LocalCMTimeout: 20, RetryCount: 7,
		RNRRetryCount: 7, MaxCMRetries: 15, PKey: ib.PKeyDefault, MTU: ib.MTU1024, StartingPSN: 0xfffff0,
		Primary: mad.Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(m.Here),
			RemoteGID: ib.GIDFromAddr(m.There), HopLimit: 64},
		Private: m.header(0x9817),
	})
}

func (m *CM) lookup(c *call) []byte {
	return m.put(mad.AttrSIDRReq, c.tid, &mad.SIDRReq{RequestID: uint32(c.ours), PKey: ib.PKeyDefault,
		ServiceID: mad.NewServiceID(mad.PortSpaceUDP, m.Datagrams), Private: m.header(0x9818)})
}

// any is a message that has nothing to do with where a connection is.
func (m *CM) any(d *Dice, c *call) []byte {
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
		return m.put(mad.AttrDREQ, c.tid,
			&mad.DREQ{LocalCommID: ours, RemoteCommID: theirs, RemoteQPN: c.peer ^ ib.QPN(d.N(2))})
	case 3:
		return m.put(mad.AttrDREP, c.tid, &mad.DREP{LocalCommID: ours, RemoteCommID: theirs})
	case 4:
		return m.put(mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: ours, RemoteCommID: theirs,
			Rejected: mad.Subject(d.N(4)), Reason: mad.RejectReason(d.N(64))})
	case 5:
		return m.put(mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: ours, RemoteCommID: theirs,
			Acknowledged: mad.Subject(d.N(3)), ServiceTimeout: ib.TimeoutCode(d.N(32))})
	case 6:
		return m.put(mad.AttrSIDRRep, c.tid, &mad.SIDRRep{RequestID: uint32(ours), QPN: c.qpn})
	case 7:
		return m.put(mad.AttrLAP, c.tid, &mad.LAP{LocalCommID: ours, RemoteCommID: theirs})
	}
	return m.req(c)
}

// wrap is the datagram of a message.
func (m *CM) wrap(s *Speaker, msg []byte) Packet {
	copy(s.payload[:], msg)
	s.pk = ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, MigReq: true, DestQP: 1},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: 1}}
	s.pk.Payload = s.payload[:len(msg)]
	if s.d.OneIn(64) {
		s.pk.Payload = s.payload[:s.d.N(len(msg)+8)]
		s.pk.Pad = uint8(s.d.N(4))
	}
	return Packet{Data: s.encode()}
}

// hear takes a message of the target.
func (m *CM) hear(payload []byte) {
	var h mad.Header
	b, e := mad.Parse(payload, &h)
	if e != mad.OK || h.Class != mad.ClassCM || m.Heard == nil {
		return
	}
	m.Heard[h.Attribute]++
	switch h.Attribute {
	case mad.AttrREQ:
		var x mad.REQ
		x.Decode(b)
		if c := m.wanted(h.TID, x.LocalCommID, callWanted); c != nil {
			c.peer = x.QPN
		}
	case mad.AttrSIDRReq:
		var x mad.SIDRReq
		x.Decode(b)
		if c := m.wanted(h.TID, mad.CommID(x.RequestID), callLookup); c != nil {
			c.lookup = x.ServiceID
		}
	case mad.AttrREP:
		var x mad.REP
		x.Decode(b)
		if c := m.find(x.RemoteCommID); c != nil && c.state == callAsked {
			c.theirs, c.peer, c.state = x.LocalCommID, x.QPN, callReady
		}
	case mad.AttrRTU:
		var x mad.RTU
		x.Decode(b)
		if c := m.find(x.RemoteCommID); c != nil && c.state == callGranted {
			c.state = callUp
		}
	case mad.AttrREJ:
		var x mad.REJ
		x.Decode(b)
		if c := m.find(x.RemoteCommID); c != nil {
			c.state = callOver
		}
	case mad.AttrDREQ:
		var x mad.DREQ
		x.Decode(b)
		// A question whether the connection is still known gets no answer, every other time.
		if c := m.find(x.RemoteCommID); c != nil && (x.RemoteQPN != mad.NobodysQPN || h.TID&1 == 0) {
			c.tid, c.state = h.TID, callOver
		}
	case mad.AttrDREP:
		var x mad.DREP
		x.Decode(b)
		if c := m.find(x.RemoteCommID); c != nil {
			c.state = callOver
		}
	}
}

func (m *CM) find(id mad.CommID) *call {
	for _, c := range m.calls {
		if c.ours == id {
			return c
		}
	}
	return nil
}

// wanted begins what the target asks for; nil if it has begun, or there are too many.
func (m *CM) wanted(tid mad.TID, theirs mad.CommID, state callState) *call {
	for _, c := range m.calls {
		if c.tid == tid && c.theirs == theirs {
			return nil
		}
	}
	if len(m.calls) == mostCalls {
		return nil
	}
	c := m.begin(state)
	c.tid, c.theirs = tid, theirs
	return c
}
