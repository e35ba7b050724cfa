package cm

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Packet is a datagram to send from QP 1 to QP 1.
type Packet struct {
	Src, Dst netip.Addr
	Data     [mad.Bytes]byte
}

// remoteKey identifies a connection by the peer's numbers.
type remoteKey struct {
	addr netip.Addr
	guid mad.GUID
	id   mad.CommID
}

// qpnKey identifies the queue pair of a peer.
type qpnKey struct {
	addr netip.Addr
	guid mad.GUID
	qpn  uint32
}

// sidrKey identifies a lookup by the peer's number.
type sidrKey struct {
	addr netip.Addr
	id   uint32
}

// Agent is the communication manager of one node.
type Agent struct {
	cfg   Config
	local map[netip.Addr]bool

	byID      map[mad.CommID]*Conn
	byRemote  map[remoteKey]*Conn // known to both ends
	byQPN     map[qpnKey]*Conn
	sidr      map[sidrKey]*Conn // lookups of peers
	listeners map[mad.ServiceID][]*Listener
	peers     map[netip.Addr]int // unanswered requests, and half-open connections, of each
	proven    recent[netip.Addr]
	missed    recent[remoteKey]

	conns        int // in byID or sidr, without those in TIMEWAIT
	waiting      int // of these, with the application
	numListeners int
	halfOpen     ageList
	halfOpenUse  int // bytes that the owner holds for them
	timewait     ageList
	timers       timerHeap
	looks        looks
	clock        int64 // the time of the last call that passed it

	tx       []Packet
	events   []Event
	offers   []*Listener // with requests to take
	patience int64       // see patienceNs
	// blocked has the listeners whose requests wait for room.
	blocked   []*Listener
	keepWills bool
	wills     []Will               // changes that the owner has not taken
	told      map[mad.TID]struct{} // unanswered questions that followed what Tell sent
	stats     Stats
}

// New makes an Agent.
func New(cfg Config) (*Agent, error) {
	if cfg.Rand == nil {
		return nil, fmt.Errorf("cm: Config.Rand is missing")
	}
	cfg.setDefaults()
	a := &Agent{
		cfg: cfg, local: map[netip.Addr]bool{}, patience: patienceNs,
		proven: recent[netip.Addr]{n: maxProven}, missed: recent[remoteKey]{n: maxMissed},
		byID: map[mad.CommID]*Conn{}, byRemote: map[remoteKey]*Conn{}, byQPN: map[qpnKey]*Conn{},
		sidr: map[sidrKey]*Conn{}, listeners: map[mad.ServiceID][]*Listener{}, peers: map[netip.Addr]int{},
	}
	for _, l := range cfg.Addrs {
		a.local[canonical(l)] = true
	}
	return a, nil
}

// SetMTU changes Config.MTU, when the port can carry less, or more again.
func (a *Agent) SetMTU(m ib.MTU) {
	if m.Valid() {
		a.cfg.MTU = m
	}
}

// canonical makes addresses comparable.
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// HandleMAD handles the payload of a packet that came from QP 1 of src with the Q_Key of QP 1. It
// only reads b, and only during the call.
func (a *Agent) HandleMAD(now int64, src, dst netip.Addr, b []byte) {
	a.clock = now
	src, dst = canonical(src), canonical(dst)
	var h mad.Header
	data, err := mad.Parse(b, &h)
	if err != mad.OK {
		a.stats.DropMalformed++
		return
	}
	// The owner answers other classes, with mad.Unserved. Like rdma_rxe, drop the rest.
	i := int(h.Attribute) - int(mad.AttrREQ)
	if h.Class != mad.ClassCM || h.ClassVersion != mad.ClassVersion2 || h.Method != mad.MethodSend || i < 0 ||
		i >= numMessages {
		a.stats.DropClass++
		return
	}
	a.stats.Rx[i]++
	in := message{now: now, src: src, dst: dst, tid: h.TID, modifier: h.Modifier, data: data}
	switch h.Attribute {
	case mad.AttrREQ:
		a.handleREQ(&in)
	case mad.AttrREP:
		a.handleREP(&in)
	case mad.AttrRTU:
		a.handleRTU(&in)
	case mad.AttrREJ:
		a.handleREJ(&in)
	case mad.AttrMRA:
		a.handleMRA(&in)
	case mad.AttrDREQ:
		a.handleDREQ(&in)
	case mad.AttrDREP:
		a.handleDREP(&in)
	case mad.AttrSIDRReq:
		a.handleSIDRReq(&in)
	case mad.AttrSIDRRep:
		a.handleSIDRRep(&in)
	case mad.AttrLAP:
		a.handleLAP(&in)
	default: // APR: we never ask for one
		a.stats.DropUnmatched++
	}
}

// message is a received message.
type message struct {
	now      int64
	src, dst netip.Addr
	tid      mad.TID
	modifier uint32 // from the header: the options of ECE
	data     *mad.Data
}

// find returns the connection that a message from in.src is about: local is our communication ID,
// remote the peer's.
func (a *Agent) find(in *message, local, remote mad.CommID) *Conn {
	c := a.byID[local]
	if c == nil || c.remoteID != remote || c.remote != in.src {
		return nil
	}
	return c
}

// findAnswered is find for a message that may be the first with the peer's ID.
func (a *Agent) findAnswered(in *message, local, remote mad.CommID) *Conn {
	c := a.byID[local]
	if c == nil || c.remoteID != 0 && c.remoteID != remote || c.remote != in.src || !c.answeredBy(in) {
		return nil
	}
	return c
}

// answeredBy reports whether a message may be an answer to the request of c: it must have its
// transaction ID (answers of Linux do). Otherwise it is for an earlier process at this address that
// had the same communication ID, or forged.
func (c *Conn) answeredBy(in *message) bool {
	switch c.state {
	case ReqSent, MRAReqRcvd, SIDRReqSent:
		return c.tid == in.tid
	}
	return true
}

// putter is a message that can be sent.
type putter interface{ Put(*mad.Data) error }

// send queues m. It fails if a field or the private data does not fit.
func (a *Agent) send(src, dst netip.Addr, at mad.Attribute, tid mad.TID, m putter) error {
	p := Packet{Src: src, Dst: dst}
	if err := encode(&p.Data, at, tid, m); err != nil {
		return err
	}
	a.enqueue(&p)
	return nil
}

// reply sends m back to the sender of in. It is for messages that cannot fail to encode.
func (a *Agent) reply(in *message, at mad.Attribute, m putter) {
	if a.send(in.dst, in.src, at, in.tid, m) != nil {
		a.stats.DropTx++
	}
}

func encode(b *[mad.Bytes]byte, at mad.Attribute, tid mad.TID, m putter) error {
	h := mad.CMHeader(at, tid)
	if e, ok := m.(extended); ok {
		h.Modifier = e.options
	}
	return m.Put(h.Put(b))
}

func (a *Agent) enqueue(p *Packet) {
	if len(a.tx) >= a.cfg.Limits.TxBacklog {
		a.stats.DropTx++
		return
	}
	at := mad.Attribute(binary.BigEndian.Uint16(p.Data[16:]))
	a.stats.Tx[at-mad.AttrREQ]++
	a.tx = append(a.tx, *p)
}

// PollTransmit returns the next datagram to send.
func (a *Agent) PollTransmit(p *Packet) bool {
	if len(a.tx) == 0 {
		return false
	}
	*p = a.tx[0]
	a.tx = a.tx[1:]
	if len(a.tx) == 0 {
		a.tx = nil // free the array
	}
	return true
}

// PollEvent returns the next event. Requests come last: what frees memory comes before what takes
// some.
func (a *Agent) PollEvent() (Event, bool) {
	if e, ok := a.PollConnEvent(); ok {
		return e, true
	}
	for l, ok := a.PollListener(); ok; l, ok = a.PollListener() {
		if e, ok := l.Next(); ok {
			l.offer()
			return e, true
		}
	}
	return Event{}, false
}

// PollConnEvent is PollEvent without requests, for an owner that takes these from [Listener.Next]
// when it is ready for them.
func (a *Agent) PollConnEvent() (Event, bool) {
	for len(a.events) > 0 {
		e := a.events[0]
		a.events[0] = Event{}
		if a.events = a.events[1:]; len(a.events) == 0 {
			a.events = nil
		}
		if !e.Conn.orphan {
			return e, true
		}
	}
	return Event{}, false
}

// emit queues an event of c, unless its owner has destroyed it.
func (a *Agent) emit(c *Conn, e Event) {
	if c.orphan {
		return
	}
	e.Conn = c
	a.events = append(a.events, e)
}

func (a *Agent) random() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(a.cfg.Rand, b[:]); err != nil {
		return 0, fmt.Errorf("cm: random number: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

// newID returns a communication ID that is neither 0 nor in use.
func (a *Agent) newID() (mad.CommID, error) {
	for range maxIDAttempts {
		r, err := a.random()
		if err != nil {
			return 0, err
		}
		if id := mad.CommID(a.cfg.Slot.CommID(uint32(r))); id != 0 && a.byID[id] == nil {
			return id, nil
		}
	}
	return 0, fmt.Errorf("cm: no free communication ID: %w", ErrLimit)
}
