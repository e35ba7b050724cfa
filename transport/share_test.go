package transport

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// host is a device with several engines at one address: they share a table of memory, and each has
// a part of the QP numbers and a lock, as a shard.
type host struct {
	addr    netip.Addr
	table   *mem.Table
	pd      *mem.PD
	engines []*Engine
	locks   []sync.Mutex
}

func newHost(t testing.TB, addr string, seed byte, engines int) *host {
	h := &host{addr: netip.MustParseAddr(addr), table: mem.NewTable(newTestRand(seed), mem.Limits{})}
	h.locks = make([]sync.Mutex, engines)
	var err error
	h.pd, err = h.table.AllocPD()
	require.NoError(t, err)
	for i := range engines {
		e, err := New(Config{
			GIDs: []netip.Addr{h.addr}, MTU: ib.MTU4096, Mem: h.table, Slot: ib.Slot{Bits: 6, Index: uint8(i)},
			Rand: rand.NewChaCha8([32]byte{seed, byte(i)}),
		})
		require.NoError(t, err)
		h.engines = append(h.engines, e)
	}
	return h
}

// with runs f with the locks of all engines held.
func (h *host) with(f func()) {
	for i := range h.locks {
		h.locks[i].Lock()
		defer h.locks[i].Unlock()
	}
	f()
}

// quiesce returns when each engine was at rest once.
func (h *host) quiesce() {
	for i := range h.locks {
		h.locks[i].Lock()
		h.locks[i].Unlock() //lint:ignore SA2001 the engine was at rest
	}
}

// twoEngines returns two engines on one table, without locks, and a QP-less CQ and SRQ of the
// first.
func twoEngines(t testing.TB) (h *host, cq *CQ, s *SRQ) {
	h = newHost(t, "192.0.2.1", 1, 2)
	cq, err := h.engines[0].CreateCQ(8, nil)
	require.NoError(t, err)
	s, err = h.engines[0].CreateSRQ(h.pd, SRQAttr{MaxWR: 4, MaxSGE: 1}, nil)
	require.NoError(t, err)
	return h, cq, s
}

func TestObjectsOfAnotherEngine(t *testing.T) {
	h, cq, s := twoEngines(t)
	other := h.engines[1]
	own, err := other.CreateCQ(8, nil)
	require.NoError(t, err)
	attr := func(send, recv *CQ, srq *SRQ) QPInitAttr {
		return QPInitAttr{Type: ib.RC, PD: h.pd, SendCQ: send, RecvCQ: recv, SRQ: srq,
			Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: 1}}
	}
	refs := h.pd.Refs()
	for arg, a := range map[string]QPInitAttr{"send_cq": attr(cq, own, nil), "recv_cq": attr(own, cq, nil),
		"srq": attr(own, own, s)} {
		_, err := other.CreateQP(a)
		requireAttr(t, err, arg)
		require.ErrorContains(t, err, "not shared")
	}
	cq.Share()
	s.Share()
	s.Share() // a third engine
	strangers, _, _ := twoEngines(t)
	pd, err := strangers.table.AllocPD()
	require.NoError(t, err)
	a := attr(cq, cq, nil)
	a.PD = pd
	_, err = strangers.engines[0].CreateQP(a)
	requireAttr(t, err, "send_cq")

	qp, err := other.CreateQP(attr(cq, cq, s))
	require.NoError(t, err)
	require.ErrorIs(t, cq.Destroy(), ErrBusy)
	require.ErrorIs(t, s.Destroy(), ErrBusy)
	require.NoError(t, qp.Destroy())
	require.NoError(t, cq.Destroy())
	require.NoError(t, s.Destroy())
	for arg, a := range map[string]QPInitAttr{"send_cq": attr(cq, own, nil), "recv_cq": attr(own, cq, nil),
		"srq": attr(own, own, s)} {
		_, err := other.CreateQP(a)
		requireAttr(t, err, arg)
		require.ErrorContains(t, err, "destroyed")
		// Also if that happens after the attributes were looked at.
		requireAttr(t, other.retain(&a), arg)
	}
	require.Equal(t, refs-1, h.pd.Refs(), "the SRQ is gone, and no attempt has left anything")
	require.EqualValues(t, 0, own.users.Load())

	// An address handle is for its engine: the link of that hangs its state on the path.
	ah, err := h.engines[0].CreateAH(h.pd, AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.9"))})
	require.NoError(t, err)
	ud, err := other.CreateQP(QPInitAttr{Type: ib.UD, PD: h.pd, SendCQ: own, RecvCQ: own, Caps: QPCaps{MaxSendWR: 1}})
	require.NoError(t, err)
	moveTo(t, ud, StateRTS)
	requireAttr(t, ud.PostSend(0, &SendWR{Opcode: WRSend, AH: ah, RemoteQPN: 5}), "ud.ah")
}

// The engine that saw the cause has the event. An object has one event of a type in all queues
// together.
func TestEventsOfSharedObjects(t *testing.T) {
	h, cq, s := twoEngines(t)
	e0, e1 := h.engines[0], h.engines[1]
	cq.Share()
	s.Share()
	cq.Arm(false)
	require.True(t, cq.push(e1, &WC{}, false))
	cq.Arm(false)
	require.True(t, cq.push(e0, &WC{}, false), "the event is on its way already")
	require.Empty(t, drainEvents(e0))
	ev, ok := e1.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventCompletion, CQ: cq}, ev)
	cq.Arm(false)
	require.True(t, cq.push(e0, &WC{}, false))
	require.Equal(t, []EventType{EventCompletion}, drainEvents(e0))
	require.Empty(t, drainEvents(e1))

	require.NoError(t, s.PostRecv(&RecvWR{}))
	require.NoError(t, s.PostRecv(&RecvWR{}))
	require.NoError(t, s.Modify(2, -1))
	s.recycle(s.take(e1))
	require.Empty(t, drainEvents(e0))
	require.Equal(t, []EventType{EventSRQLimitReached}, drainEvents(e1))
	require.NoError(t, s.Modify(1, -1))
	s.recycle(s.take(e0))
	require.Equal(t, []EventType{EventSRQLimitReached}, drainEvents(e0))

	// What another engine has about an object that is gone is dropped there.
	cq.Arm(false)
	require.True(t, cq.push(e1, &WC{}, false))
	require.NoError(t, s.PostRecv(&RecvWR{}))
	require.NoError(t, s.Modify(1, -1))
	s.recycle(s.take(e1))
	require.NoError(t, cq.Destroy())
	require.NoError(t, s.Destroy())
	require.Empty(t, drainEvents(e1))
}

// An engine has room for the events of CQs and SRQs that its QPs use, and still has those events
// when the QPs are gone.
func TestEventRoomForSharedObjects(t *testing.T) {
	h := newHost(t, "192.0.2.1", 1, 2)
	e0, e1 := h.engines[0], h.engines[1]
	var cqs []*CQ
	for range 100 {
		cq, err := e0.CreateCQ(1, nil)
		require.NoError(t, err)
		cq.Share()
		cqs = append(cqs, cq)
	}
	raise := func(cq *CQ) {
		cq.Arm(false)
		require.True(t, cq.push(e1, &WC{}, false))
		require.False(t, cq.push(e1, &WC{}, false), "full")
	}
	create := func(cq *CQ) *QP {
		qp, err := e1.CreateQP(QPInitAttr{Type: ib.RC, PD: h.pd, SendCQ: cq, RecvCQ: cq})
		require.NoError(t, err)
		return qp
	}
	var want []EventType
	for _, cq := range cqs {
		qp := create(cq)
		raise(cq)
		require.NoError(t, qp.Destroy())
		want = append(want, EventCompletion, EventCQError)
	}
	require.Equal(t, want, drainEvents(e1))
}

// A CQ that overflows by a QP of one engine ends QPs of another one at their next completion, and
// tells once.
func TestSharedCQOverflow(t *testing.T) {
	h := newHost(t, "192.0.2.1", 1, 2)
	cq, err := h.engines[0].CreateCQ(1, nil)
	require.NoError(t, err)
	cq.Share()
	var qps []*QP
	for _, e := range h.engines {
		qp, err := e.CreateQP(QPInitAttr{
			Type: ib.RC, PD: h.pd, SendCQ: cq, RecvCQ: cq, Caps: QPCaps{MaxSendWR: 4, MaxRecvWR: 4},
		})
		require.NoError(t, err)
		moveTo(t, qp, StateRTS)
		qps = append(qps, qp)
	}
	require.True(t, cq.push(h.engines[0], &WC{}, false))
	require.False(t, cq.push(h.engines[1], &WC{}, false))
	require.True(t, cq.Overflowed())
	require.Equal(t, []EventType{EventCQError}, drainEvents(h.engines[1]))
	qps[0].resp.wc = WC{}
	require.False(t, cq.push(h.engines[0], &WC{}, false))
	require.Empty(t, drainEvents(h.engines[0]))
	require.Len(t, pollAll(cq), 1)
	require.False(t, cq.push(h.engines[0], &WC{}, false), "dead for good")
}

// cable carries packets from an engine of one host to one of another. Each end takes them under its
// own lock.
type cable struct {
	mu      sync.Mutex
	packets [][]byte
	spare   [][]byte
}

func (w *cable) put(tx *TxPacket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b []byte
	if n := len(w.spare); n > 0 {
		b, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	w.packets = append(w.packets, append(tx.AppendTo(b[:0]), 0, 0, 0, 0))
}

// take hands over what is there, and gets back what was handed over before.
func (w *cable) take(back [][]byte) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, back...)
	got := w.packets
	w.packets = back[:0]
	return got
}

// pump is one engine at work: it receives and sends as a shard does.
type pump struct {
	h       *host
	n       int
	in, out *cable
	from    netip.Addr
	now     int64
	batch   [16]TxPacket
	got     [][]byte
	onEvent func(Event)
}

func (p *pump) step() (packets int) {
	e := p.h.engines[p.n]
	p.h.locks[p.n].Lock()
	defer p.h.locks[p.n].Unlock()
	p.now += 1000
	p.got = p.in.take(p.got)
	for _, b := range p.got {
		e.HandlePacket(p.now, &RxPacket{Src: p.from, Dst: p.h.addr, Data: b})
	}
	for {
		n := e.PollTransmit(p.now, p.batch[:])
		if n == 0 {
			break
		}
		packets += n
		for i := range p.batch[:n] {
			p.out.put(&p.batch[i])
		}
	}
	for ev, ok := e.PollEvent(); ok; ev, ok = e.PollEvent() {
		if p.onEvent != nil {
			p.onEvent(ev)
		}
	}
	return packets + len(p.got)
}

// connectHosts takes two QPs to RTS, towards each other.
func connectHosts(t testing.TB, a, b *host, qa, qb *QP) {
	for _, x := range []struct {
		qp   *QP
		peer netip.Addr
		num  ib.QPN
	}{{qa, b.addr, qb.Number()}, {qb, a.addr, qa.Number()}} {
		at := goodAttr(StateReset)
		at.Access = mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic
		at.AV.DGID, at.DestQPN, at.RQPSN, at.SQPSN, at.PathMTU = ib.GIDFromAddr(x.peer), x.num, 0, 0, ib.MTU1024
		at.MaxUnackedPackets, at.Timeout, at.RNRRetry = 0, 0, 7
		for _, s := range []QPState{StateInit, StateRTR, StateRTS} {
			at.State = s
			require.NoError(t, x.qp.Modify(0, at, AttrState|transitions[ib.RC][x.qp.state][s].required))
		}
	}
}

// Two engines on one table of memory, each in a goroutine, and two of their peer: all four send and
// receive at once. The QPs of both engines complete on one CQ and take receives from one SRQ, each
// made by another engine. An application polls, arms and waits for events, posts to the SRQ and
// changes its limit, resizes the CQ, registers, reregisters and deregisters memory, and makes and
// ends QPs meanwhile. Every message arrives once, whole and in order, and no event is missed.
func TestEnginesInGoroutines(t *testing.T) {
	const flows = 2
	messages := 3000
	if testing.Short() {
		messages = 300
	}
	client, server := newHost(t, "192.0.2.1", 1, flows), newHost(t, "192.0.2.2", 2, flows)
	const cqSize, srqSize, slotBytes = 256, 64, 64
	cq, err := server.engines[0].CreateCQ(cqSize, nil)
	require.NoError(t, err)
	srq, err := server.engines[1].CreateSRQ(server.pd, SRQAttr{MaxWR: srqSize, MaxSGE: 1}, nil)
	require.NoError(t, err)
	server.with(func() { cq.Share(); srq.Share() })
	recvBuf := make([]byte, srqSize*slotBytes)
	recvMR, err := server.table.Register(server.pd,
		mem.RegionAttr{Bytes: recvBuf, Access: mem.LocalWrite | mem.ZeroBased})
	require.NoError(t, err)
	post := func(id uint64) error {
		return srq.PostRecv(
			&RecvWR{ID: id, SGList: []SGE{{Addr: id * slotBytes, Length: slotBytes, LKey: recvMR.LKey()}}})
	}
	for id := range uint64(srqSize) {
		require.NoError(t, post(id))
	}
	sendBuf := make([]byte, flows*slotBytes*64)
	sendMR, err := client.table.Register(client.pd,
		mem.RegionAttr{Bytes: sendBuf, Access: mem.LocalWrite | mem.ZeroBased})
	require.NoError(t, err)

	var stop atomic.Bool
	var wg sync.WaitGroup
	wake := make(chan struct{}, 1)
	// ring wakes the application; fail ends the test.
	ring := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	fail := func(format string, args ...any) {
		t.Errorf(format, args...)
		stop.Store(true)
		ring()
	}
	flowOf := map[ib.QPN]int{}
	clientQPs := make([]*QP, flows)
	for n := range flows {
		scq, err := client.engines[n].CreateCQ(256, nil)
		require.NoError(t, err)
		qa, err := client.engines[n].CreateQP(QPInitAttr{Type: ib.RC, PD: client.pd, SendCQ: scq, RecvCQ: scq,
			Caps: QPCaps{MaxSendWR: 64, MaxSendSGE: 1}})
		require.NoError(t, err)
		qb, err := server.engines[n].CreateQP(QPInitAttr{Type: ib.RC, PD: server.pd, SendCQ: cq, RecvCQ: cq, SRQ: srq})
		require.NoError(t, err)
		connectHosts(t, client, server, qa, qb)
		clientQPs[n] = qa
		flowOf[qb.Number()] = n
		there, back := &cable{}, &cable{}
		pc := &pump{h: client, n: n, in: back, out: there, from: server.addr, now: 1e9}
		ps := &pump{h: server, n: n, in: there, out: back, from: client.addr, now: 1e9, onEvent: func(ev Event) {
			switch ev.Type {
			case EventCompletion:
				ring()
			case EventSRQLimitReached:
			default:
				fail("%v", ev.Type)
			}
		}}
		// The client sends messages of 8 bytes: flow and number.
		wg.Go(func() {
			sent, done := 0, 0
			var wc [16]WC
			for !stop.Load() {
				client.locks[n].Lock()
				for sent < messages && sent-done < 64 {
					off := (n*64 + sent%64) * slotBytes
					binary.BigEndian.PutUint64(sendBuf[off:], uint64(n)<<32|uint64(sent))
					if err := qa.PostSend(pc.now, &SendWR{Opcode: WRSend, Flags: SendSignaled,
						SGList: []SGE{{Addr: uint64(off), Length: 8, LKey: sendMR.LKey()}}}); err != nil {
						fail("%v", err)
						break
					}
					sent++
				}
				client.locks[n].Unlock()
				// Out of receives: the peer waits, and this engine's clock may pass.
				if pc.step() == 0 {
					client.locks[n].Lock()
					if at, ok := client.engines[n].NextTimeout(); ok {
						pc.now = max(pc.now, at)
						client.engines[n].HandleTimeout(pc.now)
					}
					client.locks[n].Unlock()
					runtime.Gosched()
				}
				for _, w := range wc[:scq.Poll(wc[:])] {
					if w.Status != WCSuccess {
						fail("send: %v", w.Status)
					}
					done++
				}
			}
		})
		wg.Go(func() {
			for !stop.Load() {
				if ps.step() == 0 {
					runtime.Gosched()
				}
			}
		})
	}

	// The control side: memory of the server comes and goes, QPs do, and the CQ changes its size.
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		must := func(what string, err error) {
			if err != nil {
				fail("%s: %v", what, err)
			}
		}
		for i := 0; !stop.Load(); i++ {
			mr, err := server.table.Register(server.pd,
				mem.RegionAttr{Bytes: make([]byte, 64), Access: mem.LocalWrite | mem.RemoteWrite})
			must("register", err)
			must("reregister", mr.Reregister(mem.RegionChange{What: mem.ChangeAccess}, server.quiesce))
			server.locks[0].Lock()
			must("resize", cq.Resize(cqSize+rng.IntN(300)))
			if err := cq.Destroy(); !errors.Is(err, ErrBusy) {
				fail("destroy: %v", err)
			}
			server.locks[0].Unlock()
			// A QP on the shared objects, by the engine that is home to only one of them.
			n := i % flows
			server.locks[n].Lock()
			qp, err := server.engines[n].CreateQP(QPInitAttr{
				Type: ib.RC, PD: server.pd, SendCQ: cq, RecvCQ: cq, SRQ: srq, Caps: QPCaps{MaxSendWR: 1},
			})
			must("create", err)
			must("destroy", qp.Destroy())
			server.locks[n].Unlock()
			must("modify", srq.Modify(rng.IntN(srqSize), -1))
			must("deregister", mr.Deregister(server.quiesce))
			_, _ = cq.Cap(), srq.Query()
		}
	})

	// The application.
	next := [flows]int{}
	var wcs [8]WC
	for slices.Min(next[:]) < messages && !stop.Load() {
		k := cq.Poll(wcs[:])
		if k == 0 {
			cq.Arm(false)
			if k = cq.Poll(wcs[:]); k == 0 {
				<-wake
				continue
			}
		}
		for _, wc := range wcs[:k] {
			if wc.Status != WCSuccess || wc.Opcode != WCRecv {
				fail("%+v", wc)
				break
			}
			got := binary.BigEndian.Uint64(recvBuf[wc.ID*slotBytes:])
			n := flowOf[wc.QPN]
			if want := uint64(n)<<32 | uint64(next[n]); got != want {
				fail("QP %v: message %#x, want %#x", wc.QPN, got, want)
			}
			next[n]++
			if err := post(wc.ID); err != nil {
				fail("%v", err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	require.Equal(t, [flows]int{messages, messages}, next)

	// Nothing is in use any more than it should be.
	for n, e := range server.engines {
		for _, qp := range e.qps {
			require.NoError(t, qp.Destroy())
		}
		require.NoError(t, clientQPs[n].Destroy())
	}
	require.NoError(t, cq.Destroy())
	require.NoError(t, srq.Destroy())
	require.NoError(t, recvMR.Deregister(nil))
	require.NoError(t, server.pd.Dealloc())
}

// Two engines complete on one CQ as fast as they can, while it is polled, armed and resized, until
// it overflows. What was taken in comes out, each engine's in order; the overflow is told once.
func TestSharedCQOverflowsInGoroutines(t *testing.T) {
	for range 20 {
		h := newHost(t, "192.0.2.1", 1, 2)
		cq, err := h.engines[0].CreateCQ(4, nil)
		require.NoError(t, err)
		h.with(cq.Share)
		var wg sync.WaitGroup
		var pushed [2]uint64
		var told [2]int
		for n, e := range h.engines {
			wg.Go(func() {
				for ok := true; ok; {
					h.locks[n].Lock()
					if ok = cq.push(e, &WC{ID: pushed[n], QPN: ib.QPN(n)}, false); ok {
						pushed[n]++
					}
					if n == 0 && pushed[n]%4 == 0 && !errors.Is(cq.Resize(4+int(pushed[n]%50)), ErrBusy) {
						_ = cq.Cap()
					}
					for ev, more := e.PollEvent(); more; ev, more = e.PollEvent() {
						if ev.Type == EventCQError {
							told[n]++
						}
					}
					h.locks[n].Unlock()
					if pushed[n]%2 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		var next [2]uint64
		take := func() int {
			var wcs [3]WC
			k := cq.Poll(wcs[:])
			for _, wc := range wcs[:k] {
				if wc.ID != next[wc.QPN] {
					t.Errorf("engine %d: completion %d, want %d", wc.QPN, wc.ID, next[wc.QPN])
				}
				next[wc.QPN] = wc.ID + 1
			}
			return k
		}
		for !cq.Overflowed() {
			if take() == 0 {
				runtime.Gosched() // with one processor this loop is all that runs for 10 ms
			}
			cq.Arm(false)
			if next[0]+next[1] > 5000 {
				break // then it overflows because nobody polls
			}
		}
		wg.Wait()
		for take() > 0 {
		}
		require.Equal(t, pushed, next)
		require.Equal(t, 1, told[0]+told[1])
	}
}

// An engine makes a QP on a shared CQ and SRQ while their home destroys them: one of the two is
// refused.
func TestSharedObjectsEndBesideCreate(t *testing.T) {
	h := newHost(t, "192.0.2.1", 1, 2)
	for range 2000 {
		cq, err := h.engines[0].CreateCQ(4, nil)
		require.NoError(t, err)
		srq, err := h.engines[0].CreateSRQ(h.pd, SRQAttr{MaxWR: 1}, nil)
		require.NoError(t, err)
		h.with(func() { cq.Share(); srq.Share() })
		var qp *QP
		var created, endedCQ, endedSRQ error
		var wg sync.WaitGroup
		var ready atomic.Int32
		begin := func() { // both at once
			for ready.Add(1); ready.Load() < 2; {
				runtime.Gosched()
			}
		}
		wg.Go(func() {
			h.locks[1].Lock()
			defer h.locks[1].Unlock()
			begin()
			qp, created = h.engines[1].CreateQP(QPInitAttr{Type: ib.RC, PD: h.pd, SendCQ: cq, RecvCQ: cq, SRQ: srq})
		})
		wg.Go(func() {
			h.locks[0].Lock()
			defer h.locks[0].Unlock()
			begin()
			endedSRQ, endedCQ = srq.Destroy(), cq.Destroy()
		})
		wg.Wait()
		if created == nil {
			require.ErrorIs(t, endedCQ, ErrBusy)
			require.ErrorIs(t, endedSRQ, ErrBusy)
			require.NoError(t, qp.Destroy())
			require.NoError(t, cq.Destroy())
			require.NoError(t, srq.Destroy())
			continue
		}
		require.NoError(t, endedSRQ)
		if endedCQ != nil {
			// The QP held the CQ for a moment, until it found the SRQ gone.
			require.ErrorIs(t, endedCQ, ErrBusy)
			require.NoError(t, cq.Destroy())
		}
	}
	require.Zero(t, h.pd.Refs())
}

// Engines complete on one armed CQ and take from one SRQ with a limit at the same time, and each
// hands out the events that it has. Whenever the CQ was armed and nothing is under way, an event
// has come.
func TestEventsOfSharedObjectsInGoroutines(t *testing.T) {
	h := newHost(t, "192.0.2.1", 1, 2)
	cq, err := h.engines[0].CreateCQ(4096, nil)
	require.NoError(t, err)
	srq, err := h.engines[1].CreateSRQ(h.pd, SRQAttr{MaxWR: 16}, nil)
	require.NoError(t, err)
	h.with(func() { cq.Share(); srq.Share() })
	var events, limits [2]int
	var wg sync.WaitGroup
	for n, e := range h.engines {
		wg.Go(func() {
			for range 2000 {
				h.locks[n].Lock()
				_ = srq.Modify(16, -1)
				_ = srq.PostRecv(&RecvWR{})
				cq.Arm(false)
				cq.push(e, &WC{}, false)
				if w := srq.take(e); w != nil {
					srq.recycle(w)
				}
				for ev, ok := e.PollEvent(); ok; ev, ok = e.PollEvent() {
					switch ev.Type {
					case EventCompletion:
						events[n]++
					case EventSRQLimitReached:
						limits[n]++
					default:
						t.Errorf("%v", ev.Type)
					}
				}
				h.locks[n].Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, armNone, cq.armed.Load(), "the last of the two that armed it has pushed, or the other one since")
	require.Zero(t, cq.pending)
	require.Zero(t, srq.pending)
	require.NotZero(t, events[0]+events[1])
	require.NotZero(t, limits[0]+limits[1])
	require.Len(t, pollAll(cq), 4000)
}

// The application may see a completion, and post another receive to a shared SRQ, before the engine
// goes on: there is room already. Here the engine is stopped where it makes the completion; if the
// request were not given back by then, this would wait for ever.
func TestReceiveIsGivenBackBeforeItsCompletion(t *testing.T) {
	for name, complete := range map[string]func(*QP, *recvWQE){
		"complete": func(qp *QP, w *recvWQE) { qp.resp.msg.recv = w; qp.resp.finishRecv(false) },
		"flush":    func(qp *QP, _ *recvWQE) { qp.flushRecv() },
	} {
		t.Run(name, func(t *testing.T) {
			h, cq, _ := twoEngines(t)
			srq, err := h.engines[0].CreateSRQ(h.pd, SRQAttr{MaxWR: 1}, nil)
			require.NoError(t, err)
			h.with(func() { cq.Share(); srq.Share() })
			qp, err := h.engines[1].CreateQP(QPInitAttr{Type: ib.RC, PD: h.pd, SendCQ: cq, RecvCQ: cq, SRQ: srq})
			require.NoError(t, err)
			require.NoError(t, srq.PostRecv(&RecvWR{ID: 7}))
			w := qp.takeRecv()
			require.ErrorIs(t, srq.PostRecv(&RecvWR{}), ErrQueueFull)
			cq.mu.Lock()
			var wg sync.WaitGroup
			wg.Go(func() { complete(qp, w) })
			for srq.PostRecv(&RecvWR{ID: 8}) != nil {
				runtime.Gosched()
			}
			cq.mu.Unlock()
			wg.Wait()
			got := pollAll(cq)
			require.Len(t, got, 1)
			require.EqualValues(t, 7, got[0].ID, "and not what is in the slot by now")
		})
	}
}
