package rdmacm

import (
	"errors"
	"math"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
)

// agent is the shell of the communication manager. It carries datagrams between queue pair 1 of the
// device and the sans-IO agent of package cm, and that agent's events to the IDs. Everything
// happens under the lock of the device, in the goroutine that drives the device (see package
// shard), so it works in all modes of a device and needs no goroutine of its own.
type agent struct {
	s     *shard.Shard
	core  *cm.Agent
	pd    *mem.PD
	cq    *transport.CQ
	qp    *transport.QP
	mr    *mem.Region
	ring  []byte // receive buffers
	wcs   [64]transport.WC
	sends int // datagrams that have not completed
	ports map[portKey][]*ID

	ready   bool  // the queue has completions, or a command was given
	next    int64 // when the core's next timer is due; math.MaxInt64 for none
	pending cm.Packet
	unsent  bool // pending waits for room

	book   *book         // nil: there is a keeper, or the link is a simulation
	told   chan struct{} // closed once all peers in the book of another process know of its end; nil: there was no book
	toldAt int64         // when they were told
	wills  willKeeper    // zero: there is none

	dropAnswer, dropSend uint64 // see Counters
}

// portKey is a port of a port space.
type portKey struct {
	ps   PortSpace
	port uint16
}

const cmRecvBytes = ib.GRHBytes + mad.Bytes

// agentOf returns the communication manager of a shard; the first call makes it. The lock is held.
func agentOf(s *shard.Shard) (*agent, error) {
	if v := s.Service(); v != nil {
		return v.(*agent), nil
	}
	a := &agent{s: s, next: math.MaxInt64, ports: map[portKey][]*ID{}, ring: make([]byte, cmRecvs*cmRecvBytes)}
	cfg := cm.Config{
		GUID: mad.GUID(s.GUID()), Addrs: s.Addrs(), MTU: s.MTU(), Rand: s.Rand(), Slot: s.Slot(),
		Limits: cm.Limits{HalfOpen: cmHalfOpen, HalfOpenBytes: cmHalfOpenBytes},
	}
	if caps := s.Link().Capabilities(); caps.Virtual && !caps.Scheduled {
		// Waiting callers drive this simulation: hours may pass before the goroutine of the peer's
		// application gets a turn to accept.
		cfg.ReqHoldNs = math.MaxInt64 / 2
	}
	if s.Ticks() {
		cfg.LookNs = lookNs
	}
	var err error
	if a.core, err = cm.New(cfg); err != nil {
		return nil, err
	}
	if err := a.open(); err != nil {
		return nil, &verbs.OpenError{Err: err, Hint: "the communication manager needs queue pair 1 for itself"}
	}
	if err := s.Slotted().ServeRequests(); err != nil {
		a.discard()
		return nil, &verbs.OpenError{Err: err}
	}
	s.SetService(a)
	if s.Ticks() && !s.Link().Capabilities().Virtual {
		a.book = &book{}
		a.core.KeepWills()
		leftWills(s.Addrs(), a.core.Tell)
		if a.ready = true; a.core.Untold() > 0 {
			a.told, a.toldAt = make(chan struct{}), s.Now()
		}
	}
	return a, nil
}

// Completed is called by the engine when a datagram has completed.
func (a *agent) Completed() { a.ready = true }

// Core returns the core agent, for tests.
func (a *agent) Core() *cm.Agent { return a.core }

// Ready reports whether there is something to take in, or a command was given.
func (a *agent) Ready() bool { return a.ready }

// NextTimeout returns when the next timer is due.
func (a *agent) NextTimeout() int64 { return a.next }

// gsiStates are the transitions by which queue pair 1 becomes able to send.
var gsiStates = []struct {
	a    transport.QPAttr
	mask verbs.AttrMask
}{
	{transport.QPAttr{State: verbs.StateInit, QKey: ib.QKeyGSI, PortNum: 1},
		verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrQKey},
	{transport.QPAttr{State: verbs.StateRTR}, verbs.AttrState},
	{transport.QPAttr{State: verbs.StateRTS}, verbs.AttrState | verbs.AttrSQPSN},
}

// open makes the queue pair and posts its receives.
func (a *agent) open() (err error) {
	s := a.s
	if a.pd, err = s.Table().AllocPD(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.discard()
		}
	}()
	if a.mr, err = s.Table().Register(a.pd, mem.RegionAttr{Bytes: a.ring, Access: verbs.LocalWrite}); err != nil {
		return err
	}
	if a.cq, err = s.Engine().CreateCQ(cmRecvs+cmSends, a); err != nil {
		return err
	}
	if a.qp, err = s.Engine().CreateQP(transport.QPInitAttr{
		Type: ib.UD, PD: a.pd, SendCQ: a.cq, RecvCQ: a.cq, QPN: ib.QPNGSI, SigAll: true, UserData: a,
		Caps: transport.QPCaps{MaxSendWR: cmSends, MaxRecvWR: cmRecvs, MaxSendSGE: 1, MaxRecvSGE: 1,
			MaxInline: mad.Bytes},
	}); err != nil {
		return err
	}
	if err = a.Activate(s.Now()); err != nil {
		return err
	}
	for i := range cmRecvs {
		if err = a.post(i); err != nil {
			return err
		}
	}
	a.cq.Arm(false)
	return nil
}

// Activate moves queue pair 1 from RESET to RTS.
func (a *agent) Activate(now int64) error {
	for _, g := range gsiStates {
		if err := a.qp.Modify(now, g.a, g.mask); err != nil {
			return err
		}
	}
	return nil
}

// QP returns queue pair 1, for tests.
func (a *agent) QP() *transport.QP { return a.qp }

// discard undoes what open has done so far.
func (a *agent) discard() {
	if a.qp != nil {
		_ = a.qp.Destroy()
	}
	if a.cq != nil {
		_ = a.cq.Destroy()
	}
	if a.mr != nil {
		_ = a.mr.Deregister(nil)
	}
	_ = a.pd.Dealloc()
}

// post posts receive buffer i to the queue pair.
func (a *agent) post(i int) error {
	return a.qp.PostRecv(&transport.RecvWR{ID: uint64(i), SGList: []transport.SGE{{
		Addr: a.mr.IOVA() + uint64(i*cmRecvBytes), Length: cmRecvBytes, LKey: a.mr.LKey(),
	}}})
}

// Run takes in datagrams, and hands out events and datagrams.
func (a *agent) Run(now int64) {
	a.take(now)
	a.handOut(now)
}

// Expire runs the timers that were due at horizon. The engine has handled all packets that had come
// by then; those for the communication manager are taken in first.
func (a *agent) Expire(now, horizon int64) {
	a.take(now)
	a.core.HandleTimeout(horizon)
	a.handOut(now)
}

// take takes in datagrams.
func (a *agent) take(now int64) {
	a.ready = false
	mtu := a.s.ActiveMTU()
	a.core.SetMTU(mtu)
	a.s.Engine().SetMTU(mtu)
	for {
		n := a.cq.Poll(a.wcs[:])
		if n == 0 {
			break
		}
		for i := range a.wcs[:n] {
			a.complete(now, &a.wcs[i])
		}
	}
	a.cq.Arm(false)
	if a.told != nil && a.core.Untold() == 0 {
		close(a.told)
		a.told = nil
	}
}

// handOut hands out events and datagrams, and records the next timer.
func (a *agent) handOut(now int64) {
	for e, ok := a.core.PollConnEvent(); ok; e, ok = a.core.PollConnEvent() {
		a.event(now, &e)
	}
	for l, ok := a.core.PollListener(); ok; l, ok = a.core.PollListener() {
		l.UserData.(*ID).offerRequests(now)
	}
	a.transmit(now)
	a.handWills()
	a.next = math.MaxInt64
	if at, ok := a.core.NextTimeout(); ok {
		a.next = at
	}
}

// Returned handles a datagram that an ICMP message returned.
func (a *agent) Returned(now int64, b edge.Returned) {
	if len(b.Quote) > ib.BTHBytes+ib.DETHBytes && ib.Opcode(b.Quote[0]) == ib.UDSendOnly {
		b.Quote = b.Quote[ib.BTHBytes+ib.DETHBytes:]
		a.core.HandleReturned(now, b)
		a.ready = true
	}
}

// complete handles one completion of the queue pair.
func (a *agent) complete(now int64, wc *transport.WC) {
	if wc.Opcode&verbs.WCRecv == 0 {
		a.sends--
		return
	}
	if wc.Status != verbs.WCSuccess {
		return
	}
	b := a.ring[wc.ID*cmRecvBytes:][:cmRecvBytes]
	var g ib.GRH
	if wc.ByteLen >= ib.GRHBytes && g.Decode((*[ib.GRHBytes]byte)(b)) {
		answer := cm.Packet{Src: g.Dst, Dst: g.Src}
		switch b = b[ib.GRHBytes:wc.ByteLen]; {
		case mad.Unserved(b, &answer.Data):
			if a.sends >= cmSends || a.send(now, &answer, wc.SrcQP) {
				a.dropAnswer++ // a peer without an answer asks again
			}
		case wc.SrcQP == ib.QPNGSI:
			a.core.HandleMAD(now, g.Src, g.Dst, b)
		}
	}
	// It fails only while the queue pair is being destroyed.
	_ = a.post(int(wc.ID))
}

// transmit sends the core's datagrams, as far as there is room.
func (a *agent) transmit(now int64) {
	for a.sends < cmSends && (a.unsent || a.core.PollTransmit(&a.pending)) {
		a.unsent = a.send(now, &a.pending, ib.QPNGSI)
		if a.unsent {
			return
		}
	}
}

// send posts one datagram. It returns true if the datagram has to wait for room. A datagram that
// cannot be sent at all is dropped; its timer repeats it.
func (a *agent) send(now int64, p *cm.Packet, to ib.QPN) bool {
	sgid := a.s.AddrIndex(p.Src)
	if sgid < 0 {
		a.dropSend++
		return false
	}
	ah, err := a.s.Engine().CreateAH(a.pd,
		transport.AddressVector{DGID: dgid(p.Dst), SGIDIndex: sgid, HopLimit: defaultHopLimit})
	if err != nil {
		a.dropSend++
		return false
	}
	ah.Manage()
	err = a.qp.PostSend(now, &transport.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: p.Data[:],
		AH: ah, RemoteQPN: to, RemoteQKey: ib.QKeyGSI,
	})
	_ = ah.Destroy()
	switch {
	case err == nil:
		a.sends++
	case errors.Is(err, verbs.ErrQueueFull):
		return true
	default:
		a.dropSend++
	}
	return false
}

// Failed tells each ID that its device is gone, as the kernel does. The lock is held.
func (a *agent) Failed() {
	for _, ids := range a.ports {
		for _, id := range ids {
			if !id.closed && id.ch != nil {
				id.ch.push(&Event{Type: EventDeviceRemoval, ID: id, Err: a.s.ClosedErr()})
			}
		}
	}
}

// Shutdown tells the peers that the device closes. It is called last, with the lock held.
func (a *agent) Shutdown(now int64) {
	a.core.Shutdown()
	defer func() { // after the farewells
		a.handWills()
		a.book.close()
	}()
	for {
		// Send completions make room for more.
		for n := a.cq.Poll(a.wcs[:]); n > 0; n = a.cq.Poll(a.wcs[:]) {
			for i := range a.wcs[:n] {
				if a.wcs[i].Opcode&verbs.WCRecv == 0 {
					a.sends--
				}
			}
		}
		before := a.sends
		a.transmit(now)
		if a.sends == before {
			return
		}
		a.s.Transmit(now)
	}
}

// bind reserves a port for an ID; port 0 chooses one. Two IDs can share a port of a port space if
// their addresses differ and neither is unspecified.
func (a *agent) bind(id *ID, local netip.AddrPort) error {
	port := local.Port()
	if port == 0 {
		var err error
		if port, err = a.ephemeral(id.ps, local.Addr()); err != nil {
			return err
		}
	}
	local = netip.AddrPortFrom(local.Addr(), port)
	if !a.free(id.ps, local, id.reuse) {
		return &verbs.AddrError{Op: "bind", Addr: local, Err: verbs.ErrAddrInUse}
	}
	k := portKey{id.ps, port}
	a.ports[k] = append(a.ports[k], id)
	id.local, id.bound = local, true
	return nil
}

// free reports whether an ID can bind an address; reuse says that it agrees to share it.
func (a *agent) free(ps PortSpace, local netip.AddrPort, reuse bool) bool {
	for _, o := range a.ports[portKey{ps, local.Port()}] {
		if reuse && o.reuse && o.listener == nil {
			continue
		}
		if overlap(o.local.Addr(), local.Addr()) {
			return false
		}
	}
	return true
}

// alone reports whether no other ID has the ID's address and port.
func (a *agent) alone(id *ID) bool {
	for _, o := range a.ports[portKey{id.ps, id.local.Port()}] {
		if o != id && overlap(o.local.Addr(), id.local.Addr()) {
			return false
		}
	}
	return true
}

func overlap(a, b netip.Addr) bool { return a == b || a.IsUnspecified() || b.IsUnspecified() }

// ephemeral chooses a free port.
func (a *agent) ephemeral(ps PortSpace, addr netip.Addr) (uint16, error) {
	const n = lastEphemeral - firstEphemeral + 1
	r, err := random64(a.s)
	if err != nil {
		return 0, err
	}
	for i := range uint64(n) {
		port := uint16(firstEphemeral + (r+i)%n)
		if a.free(ps, netip.AddrPortFrom(addr, port), false) && a.freeElsewhere(mad.NewServiceID(ps, port), addr) {
			return port, nil
		}
	}
	return 0, &verbs.AddrError{Op: "bind", Addr: netip.AddrPortFrom(addr, 0), Err: verbs.ErrAddrInUse}
}

// freeElsewhere reports whether no other device at the address listens for a service.
func (a *agent) freeElsewhere(service mad.ServiceID, addr netip.Addr) bool {
	l := a.s.Slotted()
	if l.Announce(service, addr) != nil {
		return false
	}
	l.Withdraw(service, addr)
	return true
}

// release frees the port of an ID.
func (a *agent) release(id *ID) {
	if !id.bound {
		return
	}
	id.bound = false
	k := portKey{id.ps, id.local.Port()}
	ids := a.ports[k]
	for i, o := range ids {
		if o == id {
			ids = append(ids[:i], ids[i+1:]...)
			break
		}
	}
	if len(ids) == 0 {
		delete(a.ports, k)
	} else {
		a.ports[k] = ids
	}
}
