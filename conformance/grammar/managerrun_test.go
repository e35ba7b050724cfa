package grammar

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/transport/edge"
)

// ManagerRun is a communication manager that hears what several peers say, in virtual time, with an
// application of its own.
type ManagerRun struct {
	Agent *cm.Agent
	Peers [managerPeers]*CM

	d         *Dice
	now       int64
	small     bool            // its limits are managerLimits
	listeners [2]*cm.Listener // of connections, and of lookups
	held      []*owned
	wills     []cm.Will // some of its own, which a node after it could have
	sent      []cm.Packet
	past      [pastPackets]pastMessage
	qpn       ib.QPN
	bytes     int // that the application has for each connection

	// Said, Heard, Requests, Established, Ended and Lives count: messages to it and from it,
	// requests that its application took, connections that were established, and that ended.
	Said, Heard, Requests, Established, Ended uint64
}

// owned is a connection that the application has.
type owned struct {
	c       *cm.Conn
	seen    [cm.EventResolved + 1]bool
	over    bool
	request requestKey
}

// requestKey is what tells one request from another.
type requestKey struct {
	from netip.Addr
	guid mad.GUID
	id   uint32
}

type pastMessage struct {
	peer int
	data []byte
}

const (
	managerPeers = 4
	mostHeldCM   = 48
	mostAnswers  = 64 // messages that may follow one
	tcpPort      = 7471
	udpPort      = 7472
)

// managerLimits are small, so that all of them are reached.
var managerLimits = cm.Limits{Conns: 40, HalfOpen: 12, HalfOpenBytes: 1 << 20, PerPeer: 6, Timewait: 24,
	Backlog: 8, TxBacklog: 48}

// NewManagerRun makes one. Its options, too, follow from the choices.
func NewManagerRun(d *Dice) (*ManagerRun, error) {
	r := &ManagerRun{d: d, now: 1e9}
	rng := rand.NewChaCha8([32]byte{d.Byte(), d.Byte()})
	cfg := cm.Config{GUID: 0x1234, Addrs: []netip.Addr{engineAddr}, Rand: rng}
	flags := d.Byte()
	r.bytes = 1 << d.N(17) // no more than a listener expects at first, so that the bound is exact
	if flags&1 != 0 {
		cfg.LookNs = 1e9
	}
	if flags&2 != 0 {
		cfg.Slot = ib.Slot{Index: d.Byte() & 63, Bits: 6}
	}
	if r.small = flags&4 == 0; r.small {
		cfg.Limits = managerLimits
	}
	var err error
	if r.Agent, err = cm.New(cfg); err != nil {
		return nil, err
	}
	if flags&8 != 0 {
		r.Agent.KeepWills()
	}
	for i := range r.Peers {
		r.Peers[i] = &CM{Here: netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i)}), There: engineAddr,
			Port: tcpPort, Datagrams: udpPort}
	}
	return r, r.listen()
}

// listen opens the listeners that are closed.
func (r *ManagerRun) listen() error {
	for i, s := range []mad.ServiceID{mad.NewServiceID(mad.PortSpaceTCP, tcpPort),
		mad.NewServiceID(mad.PortSpaceUDP, udpPort)} {
		if r.listeners[i] != nil {
			continue
		}
		l, err := r.Agent.Listen(s, netip.Addr{}, 1+r.d.N(8))
		if err != nil {
			return err
		}
		l.SetMaxConns([...]int{0, 4, 16, 0}[r.d.N(4)])
		l.SetMaxUntaken(r.d.N(3))
		r.listeners[i] = l
	}
	return nil
}

// Step is one message, and what the application does between.
func (r *ManagerRun) Step() error {
	d := r.d
	if d.OneIn(2) {
		if err := r.application(); err != nil {
			return err
		}
	}
	if d.OneIn(16) {
		return r.look(nil, netip.Addr{}) // a message was lost
	}
	i := d.N(managerPeers)
	m := r.Peers[i]
	var msg []byte
	x := &r.past[d.N(pastPackets)]
	switch {
	case d.OneIn(500):
		m.restart(d)
		return nil
	case d.OneIn(12) && len(x.data) > 0: // again
		i, msg = x.peer, x.data
	default:
		if msg = m.message(d); d.OneIn(64) { // of another length
			msg = append(append([]byte(nil), msg...), 1, 2, 3, 4)[:d.N(len(msg)+4)]
		} else {
			x.peer, x.data = i, append(x.data[:0], msg...)
		}
	}
	from, to := r.Peers[i].Here, engineAddr
	switch d.N(256) {
	case 0:
		from = r.Peers[d.N(managerPeers)].Here
	case 1:
		to = strangerAddr
	}
	r.Said++
	r.Agent.HandleMAD(r.now, from, to, msg)
	if err := r.look(msg, from); err != nil {
		return err
	}
	r.now += int64(d.N(64)) << 14
	return r.time()
}

// time runs timers that are due.
func (r *ManagerRun) time() error {
	if at, ok := r.Agent.NextTimeout(); ok && at <= r.now {
		r.Agent.HandleTimeout(r.now)
		return r.look(nil, netip.Addr{})
	}
	return nil
}

// look takes what the agent sends and tells, and checks it. What came, if anything did, was msg.
func (r *ManagerRun) look(msg []byte, from netip.Addr) error {
	n := 0
	for p := (cm.Packet{}); r.Agent.PollTransmit(&p); n++ {
		r.Heard++
		var h mad.Header
		if _, e := mad.Parse(p.Data[:], &h); e != mad.OK || h.Class != mad.ClassCM {
			return fmt.Errorf("grammar: the agent sent what is no message: % x", p.Data[:48])
		}
		if n == mostAnswers && msg != nil {
			return fmt.Errorf("grammar: %d messages follow one: % x", n, msg[:min(len(msg), 64)])
		}
		if r.sent = append(r.sent, p); len(r.sent) > pastPackets {
			r.sent = r.sent[1:]
		}
		known := p.Dst == strangerAddr
		for _, m := range r.Peers {
			if m.Here == p.Dst {
				known = true
				if !r.d.OneIn(12) {
					m.hear(p.Data[:])
				}
			}
		}
		if !known {
			return fmt.Errorf("grammar: the agent sent something to %v", p.Dst)
		}
	}
	for e, ok := r.Agent.PollConnEvent(); ok; e, ok = r.Agent.PollConnEvent() {
		if err := r.event(&e, msg, from); err != nil {
			return err
		}
	}
	for w, ok := r.Agent.PollWill(); ok; w, ok = r.Agent.PollWill() {
		if !w.Live {
			continue
		}
		if r.wills = append(r.wills, w); len(r.wills) > pastPackets {
			r.wills = r.wills[1:]
		}
	}
	return r.bounds()
}

// bounds returns an error if the agent holds more than it may.
func (r *ManagerRun) bounds() error {
	n, l := r.Agent.Counts(), managerLimits
	if n.Conns < 0 || n.Waiting < 0 || n.HalfOpen < 0 || n.HalfBytes < 0 || n.Timewait < 0 {
		return fmt.Errorf("grammar: %+v", n)
	}
	if r.small &&
		(n.Conns > l.Conns || n.HalfOpen > l.HalfOpen || n.HalfBytes > l.HalfOpenBytes || n.Timewait > l.Timewait) {
		return fmt.Errorf("grammar: %+v is more than %+v", n, l)
	}
	return nil
}

// about reports whether a message can be about a connection: its sender is the peer, and it has the
// number of this end or, if it takes a request back, the peer's. Or it answers a request for
// another one, and has a queue pair that the peer can only have again if it has forgotten this one.
func about(c *cm.Conn, e *cm.Event, msg []byte, from netip.Addr) bool {
	if c.Remote() != from || len(msg) < mad.HeaderBytes+8 {
		return false
	}
	theirs, ours := mad.CommID(binary.BigEndian.Uint32(msg[mad.HeaderBytes:])),
		mad.CommID(binary.BigEndian.Uint32(msg[mad.HeaderBytes+4:]))
	switch mad.Attribute(binary.BigEndian.Uint16(msg[16:])) {
	case mad.AttrREJ:
		return ours == c.LocalID() || theirs == c.RemoteID()
	case mad.AttrSIDRRep:
		return theirs == c.LocalID()
	case mad.AttrREP:
		return ours == c.LocalID() || e.Gone
	case mad.AttrMRA:
		return ours == c.LocalID()
	}
	return ours == c.LocalID() && theirs == c.RemoteID()
}

// event takes an event, which must come once, in its turn, and by a message of the peer if there
// was one.
func (r *ManagerRun) event(e *cm.Event, msg []byte, from netip.Addr) error {
	h, ok := e.Conn.UserData.(*owned)
	if !ok {
		return fmt.Errorf("grammar: %v of a connection that nobody has", e.Type)
	}
	last := e.Type == cm.EventRejected || e.Type == cm.EventUnreachable || e.Type == cm.EventDisconnected ||
		e.Type == cm.EventResolved
	switch {
	case h.seen[e.Type]:
		return fmt.Errorf("grammar: %v twice", e.Type)
	case h.over && e.Type != cm.EventTimewaitExit:
		return fmt.Errorf("grammar: %v after the end", e.Type)
	case e.Type == cm.EventTimewaitExit && !h.over:
		return fmt.Errorf("grammar: %v of a connection that is not over", e.Type)
	case msg != nil && (e.Type == cm.EventReply || e.Type == cm.EventEstablished ||
		last && e.Type != cm.EventUnreachable) && !about(e.Conn, e, msg, from):
		return fmt.Errorf("grammar: %v of the connection %#x with %v's %#x, by a message of %v: % x", e.Type,
			e.Conn.LocalID(), e.Conn.Remote(), e.Conn.RemoteID(), from, msg)
	}
	h.seen[e.Type] = true
	h.over = h.over || last
	if last {
		r.Ended++
	}
	if e.Type == cm.EventEstablished {
		r.Established++
	}
	return nil
}

// take takes a request, if there is one.
func (r *ManagerRun) take() error {
	if len(r.held) >= mostHeldCM {
		return nil
	}
	var e cm.Event
	var ok bool
	if r.d.OneIn(2) {
		e, ok = r.listeners[r.d.N(2)].Next()
	} else {
		for l, more := r.Agent.PollListener(); more && !ok; l, more = r.Agent.PollListener() {
			e, ok = l.Next()
		}
	}
	if !ok {
		return nil
	}
	h := &owned{c: e.Conn}
	switch {
	case e.REQ != nil:
		h.request = requestKey{e.Conn.Remote(), e.REQ.CAGUID, uint32(e.REQ.LocalCommID)}
	case e.SIDRReq != nil:
		h.request = requestKey{from: e.Conn.Remote(), id: e.SIDRReq.RequestID}
	default:
		return fmt.Errorf("grammar: a request that asks for nothing: %+v", e)
	}
	for _, o := range r.held {
		if o.request == h.request && !o.over && o.c.State() != cm.Idle && o.c.State() != cm.SIDRRepSent {
			return fmt.Errorf("grammar: the application got one request twice: %+v", h.request)
		}
	}
	r.keep(h)
	r.Requests++
	return nil
}

func (r *ManagerRun) keep(h *owned) {
	h.c.UserData = h
	r.held = append(r.held, h)
}

// application is what the agent's owner does.
func (r *ManagerRun) application() error {
	d := r.d
	switch x := d.Byte(); {
	case x < 90:
		for range 1 + d.N(3) {
			if err := r.take(); err != nil {
				return err
			}
		}
	case x < 190:
		if len(r.held) > 0 {
			r.move(d.N(len(r.held)))
		}
	case x < 204: // time passes, up to two seconds
		r.now += int64(d.U16()) << d.N(16)
	case x < 216: // to where the next timer is
		if at, ok := r.Agent.NextTimeout(); ok {
			r.now = max(r.now, at)
		}
	case x < 232:
		if err := r.ask(); err != nil {
			return err
		}
	case x < 242:
		if len(r.sent) > 0 {
			p := &r.sent[d.N(len(r.sent))]
			from := p.Dst
			if d.OneIn(8) {
				from = r.Peers[d.N(managerPeers)].Here
			}
			r.Agent.HandleReturned(r.now, edge.Returned{From: from, NoHost: d.N(2) == 1, Quote: p.Data[:d.N(64)]})
		}
	case x < 244:
		if len(r.wills) > 0 {
			r.Agent.Tell(&r.wills[d.N(len(r.wills))])
			r.Agent.Untold()
		}
	case x < 246:
		i := d.N(2)
		r.listeners[i].Close()
		r.listeners[i] = nil
		if err := r.listen(); err != nil {
			return err
		}
	case x < 247:
		r.Agent.SetMTU([...]ib.MTU{ib.MTU1024, ib.MTU4096, 0}[d.N(3)])
	}
	if err := r.look(nil, netip.Addr{}); err != nil {
		return err
	}
	return r.time()
}

// ask connects to a peer, or looks something up there.
func (r *ManagerRun) ask() error {
	if len(r.held) >= mostHeldCM {
		return nil
	}
	d := r.d
	to := r.Peers[d.N(managerPeers)].Here
	b := make([]byte, mad.CMAHeaderBytes)
	h := mad.CMAHeader{SrcPort: 5, Src: engineAddr, Dst: to}
	if err := h.Put(b); err != nil {
		return err
	}
	var listen int64
	if d.OneIn(3) {
		listen = int64(d.U16()) << 16
	}
	var c *cm.Conn
	var err error
	r.qpn++
	if d.OneIn(3) {
		c, err = r.Agent.Resolve(r.now, cm.Lookup{
			Local: engineAddr, Remote: to, Service: mad.NewServiceID(mad.PortSpaceUDP, 1), Private: b,
			ListenNs: listen, Tries: d.N(4), RetryNs: int64(d.N(3)) * 1e7,
		}, nil)
	} else {
		c, err = r.Agent.Connect(r.now, cm.Request{
			Local: engineAddr, Remote: to, Service: mad.NewServiceID(mad.PortSpaceTCP, 1), QPN: 100 + r.qpn%1000,
			StartingPSN: 7, ResponderResources: 4, InitiatorDepth: 4, RetryCount: 7,
			RNRRetryCount: 7, MTU: ib.MTU1024, AckTimeout: ib.TimeoutCode(d.N(32)), HopLimit: 64, Private: b,
			ListenNs: listen, Tries: d.N(4), RetryNs: int64(d.N(3)) * 1e7,
		}, nil)
	}
	if err == nil { // or too many
		r.keep(&owned{c: c})
	}
	return nil
}

// move does something with a connection: mostly what comes next.
func (r *ManagerRun) move(i int) {
	d, h := r.d, r.held[i]
	c := h.c
	drop := func() {
		c.Destroy(r.now)
		r.held[i] = r.held[len(r.held)-1]
		r.held = r.held[:len(r.held)-1]
	}
	switch x := d.Byte(); {
	case x < 24 || h.over && x < 128 || c.State() == cm.Idle || c.State() == cm.SIDRRepSent:
		drop()
		return
	case x < 40:
		_ = c.Reject(r.now, [...]mad.RejectReason{
			mad.RejectConsumer, mad.RejectInvalidServiceID, mad.RejectStaleConnection,
		}[d.N(3)], nil, nil)
		return
	case x < 56:
		c.CommEstablished()
		return
	case x < 72:
		c.Suspect(r.now)
		return
	case x < 80:
		_ = c.Disconnect(r.now, nil)
		return
	}
	switch c.State() {
	case cm.ReqRcvd:
		r.qpn++
		_ = c.Accept(r.now, cm.Accept{QPN: 100 + r.qpn%1000, StartingPSN: 7, ResponderResources: 4,
			InitiatorDepth: 4, RNRRetryCount: 7, Bytes: r.bytes})
	case cm.RepRcvd:
		_ = c.Ready(r.now, nil)
	case cm.SIDRReqRcvd:
		_ = c.AnswerLookup(r.now, cm.LookupAnswer{Status: mad.SIDRStatus(d.N(4)), QPN: 5, QKey: 6})
	case cm.Established, cm.RepSent:
		if c.Taken(); d.OneIn(4) {
			_ = c.Disconnect(r.now, nil)
		}
	}
}

// Finish has everything end: nothing may be left.
func (r *ManagerRun) Finish() error {
	if r.d.OneIn(4) { // at once
		r.Agent.Shutdown()
		for p := (cm.Packet{}); r.Agent.PollTransmit(&p); {
			r.Heard++
		}
		return nil
	}
	for _, h := range r.held {
		h.c.Destroy(r.now)
	}
	for _, l := range r.listeners {
		l.Close()
	}
	for range 100_000 {
		if err := r.look(nil, netip.Addr{}); err != nil {
			return err
		}
		at, ok := r.Agent.NextTimeout()
		if !ok {
			break
		}
		r.now = max(r.now, at)
		r.Agent.HandleTimeout(r.now)
	}
	r.Agent.PollListener()
	if n := r.Agent.Counts(); n != (cm.Counts{}) {
		return fmt.Errorf("grammar: left at the end: %+v", n)
	}
	return nil
}
