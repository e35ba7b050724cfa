package roce

import (
	"errors"
	"math"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/cm"
	"github.com/goroce/goroce/transport"
)

// cmAgent is the shell of the communication manager: it carries datagrams
// between the queue pair 1 of the device and the sans-IO agent of package cm, and events from there to the
// IDs. Everything happens under the lock of the device, in whatever goroutine
// makes the device move (see Device.flush), so that it works in all modes of a
// device and needs no goroutine of its own.
type cmAgent struct {
	d     *Device
	core  *cm.Agent
	pd    *mem.PD
	cq    *transport.CQ
	qp    *transport.QP
	mr    *mem.Region
	ring  []byte // receive buffers
	wcs   [64]transport.WC
	sends int // datagrams that have not completed
	ports map[portKey][]*CMID

	ready   bool  // the queue has completions, or a command was given
	next    int64 // when the core's next timer is due; math.MaxInt64 for none
	pending cm.Packet
	unsent  bool // pending waits for room

	dropAnswer, dropSend uint64 // see CMCounters
}

// portKey is a port of a port space.
type portKey struct {
	ps   PortSpace
	port uint16
}

const cmRecvBytes = ib.GRHBytes + mad.Bytes

// startCM makes the communication manager when it is first used. mu is held.
func (d *Device) startCM() error {
	if d.cm != nil {
		return nil
	}
	a := &cmAgent{d: d, next: math.MaxInt64, ports: map[portKey][]*CMID{}, ring: make([]byte, cmRecvs*cmRecvBytes)}
	var err error
	if a.core, err = cm.New(cm.Config{
		GUID: mad.GUID(d.cmGUID), Addrs: d.addrs, MTU: d.mtu, Rand: d.rand, Limits: cm.Limits{HalfOpen: cmHalfOpen, HalfOpenBytes: cmHalfOpenBytes},
	}); err != nil {
		return err
	}
	if err := a.open(); err != nil {
		return &OpenError{Err: err, Hint: "the communication manager needs queue pair 1 for itself"}
	}
	d.cm = a
	return nil
}

// gsiStates are the ways of queue pair 1 to where it sends.
var gsiStates = []struct {
	a    QPAttr
	mask AttrMask
}{
	{QPAttr{State: StateInit, QKey: ib.QKeyGSI, PortNum: 1}, AttrState | AttrPKeyIndex | AttrPort | AttrQKey},
	{QPAttr{State: StateRTR}, AttrState},
	{QPAttr{State: StateRTS}, AttrState | AttrSQPSN},
}

// open makes the queue pair and posts its receives.
func (a *cmAgent) open() (err error) {
	d := a.d
	if a.pd, err = d.table.AllocPD(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.discard()
		}
	}()
	if a.mr, err = d.table.Register(a.pd, mem.RegionAttr{Bytes: a.ring, Access: LocalWrite}); err != nil {
		return err
	}
	if a.cq, err = d.eng.CreateCQ(cmRecvs+cmSends, a); err != nil {
		return err
	}
	if a.qp, err = d.eng.CreateQP(transport.QPInitAttr{
		Type: ib.UD, PD: a.pd, SendCQ: a.cq, RecvCQ: a.cq, QPN: ib.QPNGSI, SigAll: true, UserData: a,
		Caps: QPCaps{MaxSendWR: cmSends, MaxRecvWR: cmRecvs, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: mad.Bytes},
	}); err != nil {
		return err
	}
	now := d.link.Now()
	for _, s := range gsiStates {
		if err = a.qp.Modify(now, s.a, s.mask); err != nil {
			return err
		}
	}
	for i := range cmRecvs {
		if err = a.post(i); err != nil {
			return err
		}
	}
	a.cq.Arm(false)
	return nil
}

// discard undoes what open has done so far.
func (a *cmAgent) discard() {
	if a.qp != nil {
		_ = a.qp.Destroy()
	}
	if a.cq != nil {
		_ = a.cq.Destroy()
	}
	if a.mr != nil {
		_ = a.mr.Deregister()
	}
	_ = a.pd.Dealloc()
}

// post gives receive buffer i to the queue pair.
func (a *cmAgent) post(i int) error {
	return a.qp.PostRecv(&transport.RecvWR{ID: uint64(i), SGList: []SGE{{
		Addr: a.mr.IOVA() + uint64(i*cmRecvBytes), Length: cmRecvBytes, LKey: a.mr.LKey(),
	}}})
}

// run takes in datagrams, and hands out events and datagrams.
func (a *cmAgent) run(now int64) {
	a.take(now)
	a.handOut(now)
}

// expire runs the timers that were due at horizon. All packets that had come by
// then have been handled by the engine, and what is in them for the
// communication manager comes first.
func (a *cmAgent) expire(now, horizon int64) {
	a.take(now)
	a.core.HandleTimeout(horizon)
	a.handOut(now)
}

// take takes in datagrams.
func (a *cmAgent) take(now int64) {
	a.ready = false
	mtu := a.d.activeMTU()
	a.core.SetMTU(mtu)
	a.d.eng.SetMTU(mtu)
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
}

// handOut hands out events and datagrams, and notes the next timer.
func (a *cmAgent) handOut(now int64) {
	for e, ok := a.core.PollConnEvent(); ok; e, ok = a.core.PollConnEvent() {
		a.event(now, &e)
	}
	for l, ok := a.core.PollListener(); ok; l, ok = a.core.PollListener() {
		l.UserData.(*CMID).offerRequests(now)
	}
	a.transmit(now)
	a.next = math.MaxInt64
	if at, ok := a.core.NextTimeout(); ok {
		a.next = at
	}
}

// complete takes one completion of the queue pair.
func (a *cmAgent) complete(now int64, wc *transport.WC) {
	if wc.Opcode&WCRecv == 0 {
		a.sends--
		return
	}
	if wc.Status != WCSuccess {
		return
	}
	b := a.ring[wc.ID*cmRecvBytes:][:cmRecvBytes]
	var g ib.GRH
	if wc.ByteLen >= ib.GRHBytes && g.Decode((*[ib.GRHBytes]byte)(b)) {
		answer := cm.Packet{Src: g.Dst, Dst: g.Src}
		switch b = b[ib.GRHBytes:wc.ByteLen]; {
		case mad.Unserved(b, &answer.Data):
			if a.sends >= cmSends || a.send(now, &answer, wc.SrcQP) {
				a.dropAnswer++ // who gets none asks again
			}
		case wc.SrcQP == ib.QPNGSI:
			a.core.HandleMAD(now, g.Src, g.Dst, b)
		}
	}
	// It fails only when the queue pair is being destroyed.
	_ = a.post(int(wc.ID))
}

// transmit sends what the core has to send, as far as there is room.
func (a *cmAgent) transmit(now int64) {
	for a.sends < cmSends && (a.unsent || a.core.PollTransmit(&a.pending)) {
		a.unsent = a.send(now, &a.pending, ib.QPNGSI)
		if a.unsent {
			return
		}
	}
}

// send posts one datagram. It reports true if it has to wait for room; what
// cannot be sent at all is dropped, and repeated by its timer.
func (a *cmAgent) send(now int64, p *cm.Packet, to ib.QPN) bool {
	sgid := a.d.addrIndex(p.Src)
	if sgid < 0 {
		a.dropSend++
		return false
	}
	ah, err := a.d.eng.CreateAH(a.pd, AddressVector{DGID: dgid(p.Dst), SGIDIndex: sgid, HopLimit: defaultHopLimit})
	if err != nil {
		a.dropSend++
		return false
	}
	err = a.qp.PostSend(now, &transport.SendWR{
		Opcode: WRSend, Flags: SendInline | SendSignaled, Inline: p.Data[:],
		AH: ah, RemoteQPN: to, RemoteQKey: ib.QKeyGSI,
	})
	_ = ah.Destroy()
	switch {
	case err == nil:
		a.sends++
	case errors.Is(err, ErrQueueFull):
		return true
	default:
		a.dropSend++
	}
	return false
}

// addrIndex returns the index of a local address, -1 if it is none.
func (d *Device) addrIndex(addr netip.Addr) int {
	for i, l := range d.addrs {
		if l.WithZone("") == addr {
			return i
		}
	}
	return -1
}

// shutdown tells the peers that the device closes. It is called last, with the
// lock held.
func (a *cmAgent) shutdown() {
	now := a.d.link.Now()
	a.core.Shutdown()
	for {
		// Send completions make room for more.
		for n := a.cq.Poll(a.wcs[:]); n > 0; n = a.cq.Poll(a.wcs[:]) {
			for i := range a.wcs[:n] {
				if a.wcs[i].Opcode&WCRecv == 0 {
					a.sends--
				}
			}
		}
		before := a.sends
		a.transmit(now)
		if a.sends == before {
			return
		}
		a.d.drain(now)
	}
}

// bind takes a port for an ID; port 0 chooses one. Two IDs can share a port of
// a port space if their addresses differ and neither is unspecified.
func (a *cmAgent) bind(id *CMID, local netip.AddrPort) error {
	port := local.Port()
	if port == 0 {
		var err error
		if port, err = a.ephemeral(id.ps, local.Addr()); err != nil {
			return err
		}
	}
	local = netip.AddrPortFrom(local.Addr(), port)
	if !a.free(id.ps, local) {
		return &AddrError{"bind", local, ErrAddrInUse}
	}
	k := portKey{id.ps, port}
	a.ports[k] = append(a.ports[k], id)
	id.local, id.bound = local, true
	return nil
}

// free reports whether an address can be bound.
func (a *cmAgent) free(ps PortSpace, local netip.AddrPort) bool {
	for _, o := range a.ports[portKey{ps, local.Port()}] {
		l := o.local.Addr()
		if l == local.Addr() || l.IsUnspecified() || local.Addr().IsUnspecified() {
			return false
		}
	}
	return true
}

// ephemeral chooses a free port.
func (a *cmAgent) ephemeral(ps PortSpace, addr netip.Addr) (uint16, error) {
	const n = lastEphemeral - firstEphemeral + 1
	r, err := a.d.random64()
	if err != nil {
		return 0, err
	}
	for i := range uint64(n) {
		port := uint16(firstEphemeral + (r+i)%n)
		if a.free(ps, netip.AddrPortFrom(addr, port)) {
			return port, nil
		}
	}
	return 0, &AddrError{"bind", netip.AddrPortFrom(addr, 0), ErrAddrInUse}
}

// release gives back the port of an ID.
func (a *cmAgent) release(id *CMID) {
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
