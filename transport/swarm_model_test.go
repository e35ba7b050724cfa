package transport_test

import (
	"bytes"
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// flow is the work of one direction of a link and the model of what it does:
// requests of src, executed at dst. Each flow has memory of its own at both
// ends, so that the model needs no interleaving of flows.
type flow struct {
	s        *swarm
	k        int
	src, dst *link
	back     *flow // the other direction
	cq       *transport.CQ
	srq      *transport.SRQ // where src receives

	posted    int
	poisonAt  int // index of the request that fails; -1 for none
	expect    []expectation
	completed int
	failed    bool
	slots     int // in use of the send queue

	target   []byte // model of areaTarget at dst
	atomic   [atomicWords]uint64
	dstReads int // outstanding READs of the target

	drains int // times that the send queue was told to drain

	results, nextResult int // READs and atomics outstanding, and ever

	messages []message // that dst is to receive, in order
	received int

	// src as receiver of the other direction.
	recvID   uint64
	recvFree []int // slots without a posted receive
	recvSlot map[uint64]int
	nextRecv uint64 // ID of the next completion, without SRQ
}

// expectation is a work request whose completion is to come.
type expectation struct {
	id       uint64
	signaled bool
	poison   bool
	opcode   transport.WCOpcode
	byteLen  int
	at       int    // where the result is, in src's memory
	want     []byte // result; nil for none
	dstRead  bool
}

// message is what a receive completes with.
type message struct {
	data   []byte // nil for WRITE with immediate
	n      int
	imm    uint32
	hasImm bool
	op     transport.WCOpcode
}

// Memory of a flow, at both ends. Link k has flowBytes at k*flowBytes; at the
// source areaSource and areaResult are used, at the destination the others.
// Receives of an end use areaRecv of the flow that comes in.
const (
	flowBytes   = 320 << 10
	areaSource  = 0         // constant
	areaTarget  = 32 << 10  // of WRITEs
	areaStatic  = 64 << 10  // for READs, constant
	areaResult  = 96 << 10  // of READs and atomics, a ring of maxResults
	areaRecv    = 224 << 10 // of flowRecvs
	areaAtomic  = 288 << 10
	areaBytes   = 32 << 10
	resultBytes = 16 << 10
	maxResults  = 8
	flowRecvs   = 8
	recvBytes   = 8 << 10
	atomicWords = 4
)

func newFlow(s *swarm, k int, src, dst *link, cq *transport.CQ, srq *transport.SRQ) *flow {
	f := &flow{s: s, k: k, src: src, dst: dst, cq: cq, srq: srq, poisonAt: -1, recvSlot: map[uint64]int{}, nextRecv: 1}
	src.fill(f.area(areaSource), areaBytes, s.rng.Uint64())
	dst.fill(f.area(areaStatic), areaBytes, s.rng.Uint64())
	f.target = bytes.Clone(dst.fill(f.area(areaTarget), areaBytes, s.rng.Uint64()))
	for i := range f.atomic {
		f.atomic[i] = s.rng.Uint64()
		binary.NativeEndian.PutUint64(dst.buf[f.area(areaAtomic)+8*i:], f.atomic[i])
	}
	for i := range flowRecvs {
		f.recvFree = append(f.recvFree, i)
	}
	return f
}

func (f *flow) area(off int) int { return f.k*flowBytes + off }

// broken reports whether the link cannot be used any more.
func (f *flow) broken() bool {
	return f.src.qp.State() == transport.StateErr || f.dst.qp.State() == transport.StateErr || f.failed || f.back.failed
}

// poisoned reports whether either direction of the link ends in an error.
func (f *flow) poisoned() bool { return f.poisonAt >= 0 || f.back.poisonAt >= 0 }

// postOne posts the next work request if there is room.
func (f *flow) postOne() {
	if f.broken() || f.slots >= 32 {
		return
	}
	rng := f.s.rng
	id := uint64(f.posted + 1)
	wr := transport.SendWR{ID: id}
	x := expectation{id: id, signaled: rng.IntN(100) < f.s.o.sigPercent || f.posted == f.s.o.ops-1 || f.slots >= 24}
	if f.slots >= 31 {
		x.signaled = true
	}
	n := rng.IntN(f.s.o.maxLen + 1)
	if rng.IntN(4) == 0 { // around a multiple of the MTU
		n = min(f.s.o.maxLen, max(0, f.s.o.mtu.Bytes()*rng.IntN(5)+rng.IntN(3)-1))
	}
	from := rng.IntN(areaBytes - n + 1)
	data := f.src.buf[f.area(areaSource)+from:][:n]
	source := f.sges(f.area(areaSource)+from, n)
	result := func() int {
		f.results++
		f.nextResult++
		return f.area(areaResult) + f.nextResult%maxResults*resultBytes + rng.IntN(8)*8
	}
	wr.SGList = source
	wr.RKey = f.dst.region.RKey()
	x.byteLen = n
	x.opcode = transport.WCWrite
	kind := rng.IntN(10)
	if f.results == maxResults && kind >= 5 && kind <= 8 {
		kind -= 4 // as many results are outstanding as have room
	}
	if f.posted == f.poisonAt {
		f.poison(&wr, &x)
		kind = -1
	}
	switch kind {
	case 0, 1: // SEND
		n = min(n, recvBytes)
		wr.SGList, x.byteLen, x.opcode = f.sges(f.area(areaSource)+from, n), n, transport.WCSend
		m := message{data: data[:n], n: n, op: transport.WCRecv}
		wr.Opcode = transport.WRSend
		if rng.IntN(2) == 0 {
			wr.Opcode, wr.Imm = transport.WRSendImm, rng.Uint32()
			m.imm, m.hasImm = wr.Imm, true
		}
		if n <= 128 && rng.IntN(2) == 0 {
			wr.Flags |= transport.SendInline
		}
		f.messages = append(f.messages, m)
	case 2, 3, 4: // WRITE
		to := rng.IntN(areaBytes - n + 1)
		wr.Opcode, wr.RemoteAddr = transport.WRWrite, f.dst.base+uint64(f.area(areaTarget)+to)
		if rng.IntN(3) == 0 {
			wr.Opcode, wr.Imm = transport.WRWriteImm, rng.Uint32()
			f.messages = append(f.messages, message{n: n, imm: wr.Imm, hasImm: true, op: transport.WCRecvWriteImm})
		}
		copy(f.target[to:], data)
		if f.dstReads > 0 {
			wr.Flags |= transport.SendFence // those READs are to see what was there before
		}
	case 5: // READ of what does not change
		to := rng.IntN(areaBytes - n + 1)
		wr.Opcode, wr.RemoteAddr = transport.WRRead, f.dst.base+uint64(f.area(areaStatic)+to)
		x.opcode, x.at, x.want = transport.WCRead, result(), f.dst.buf[f.area(areaStatic)+to:][:n]
		wr.SGList = f.sges(x.at, n)
		x.signaled = true
	case 6: // READ of what was written
		to := rng.IntN(areaBytes - n + 1)
		wr.Opcode, wr.RemoteAddr = transport.WRRead, f.dst.base+uint64(f.area(areaTarget)+to)
		x.opcode, x.at, x.want = transport.WCRead, result(), bytes.Clone(f.target[to:][:n])
		wr.SGList = f.sges(x.at, n)
		x.signaled, x.dstRead = true, true
		f.dstReads++
	case 7, 8: // atomics
		i := rng.IntN(atomicWords)
		wr.RemoteAddr = f.dst.base + uint64(f.area(areaAtomic)+8*i)
		x.at, x.byteLen, x.signaled = result(), 8, true
		x.want = binary.NativeEndian.AppendUint64(nil, f.atomic[i])
		wr.SGList = []transport.SGE{f.src.sge(x.at, 8)}
		wr.CompareAdd = rng.Uint64()
		if rng.IntN(2) == 0 {
			wr.Opcode, x.opcode = transport.WRFetchAdd, transport.WCFetchAdd
			f.atomic[i] += wr.CompareAdd
			break
		}
		wr.Opcode, x.opcode, wr.Swap = transport.WRCompareSwap, transport.WCCompareSwap, rng.Uint64()
		if rng.IntN(2) == 0 {
			wr.CompareAdd = f.atomic[i]
			f.atomic[i] = wr.Swap
		}
	case 9: // ATOMIC WRITE, FLUSH
		if rng.IntN(2) == 0 {
			i := rng.IntN(atomicWords)
			f.atomic[i] = rng.Uint64()
			wr.Opcode, wr.SGList = transport.WRAtomicWrite, nil
			binary.NativeEndian.PutUint64(wr.AtomicWriteVal[:], f.atomic[i])
			wr.RemoteAddr = f.dst.base + uint64(f.area(areaAtomic)+8*i)
			x.opcode, x.byteLen = transport.WCAtomicWrite, 8
			break
		}
		wr.Opcode, wr.SGList, wr.FlushType = transport.WRFlush, nil, ib.FlushGlobalVisibility
		wr.RemoteAddr, wr.FlushLength = f.dst.base+uint64(f.area(areaTarget)), uint32(n)
		x.opcode, x.byteLen = transport.WCFlush, -1
	}
	if rng.IntN(20) == 0 {
		wr.Flags |= transport.SendFence
	}
	if rng.IntN(4) == 0 {
		wr.Flags |= transport.SendSolicited
	}
	if x.signaled {
		wr.Flags |= transport.SendSignaled
	}
	f.s.must(f.src.qp.PostSend(f.s.p.now, &wr))
	f.posted++
	f.slots++
	f.expect = append(f.expect, x)
}

// history returns the last packets of the link, if they were logged (-seed).
func (f *flow) history() string {
	log := f.s.p.log
	for i := len(log) - 1; i >= 0; i-- {
		if l := log[i]; l.from == f.src.end && l.pkt.DestQP == f.dst.qp.Number() {
			return f.s.p.history(l, 200)
		}
	}
	return ""
}

// toggleSQD drains the send queue, or lets it go on once it is drained, with
// attributes changed in between.
func (f *flow) toggleSQD() {
	now, a := f.s.p.now, f.src.attr
	at, _ := f.src.qp.Query()
	switch {
	case at.State == transport.StateRTS:
		a.State, a.EnSQDAsyncNotify = transport.StateSQD, true
		f.s.must(f.src.qp.Modify(now, a, transport.AttrState|transport.AttrEnSQDNotify))
		f.drains++
	case at.State == transport.StateSQD && !at.SQDraining:
		a.MaxUnackedPackets = 1 + f.s.rng.IntN(50)
		f.s.must(f.src.qp.Modify(now, a,
			transport.AttrTimeout|transport.AttrRetryCnt|transport.AttrWindow|transport.AttrAV))
		a.State = transport.StateRTS
		f.s.must(f.src.qp.Modify(now, a, transport.AttrState))
	}
}

// poison makes wr a request that the peer or the engine itself must refuse.
func (f *flow) poison(wr *transport.SendWR, x *expectation) {
	rng := f.s.rng
	x.poison, x.signaled = true, true
	wr.Opcode, wr.RemoteAddr = transport.WRWrite, f.dst.base+uint64(f.area(areaTarget))
	wr.SGList = []transport.SGE{f.src.sge(f.area(areaSource), 16)}
	switch rng.IntN(5) {
	case 0: // nobody has this key
		wr.RKey++
	case 1:
		wr.RemoteAddr = f.dst.base + uint64(len(f.dst.buf)) - 1
	case 2:
		wr.Opcode, wr.RemoteAddr = transport.WRFetchAdd, wr.RemoteAddr+1 // not aligned
		wr.SGList = []transport.SGE{f.src.sge(f.area(areaResult), 8)}
	case 3:
		wr.SGList[0].LKey++
	case 4:
		wr.Opcode, wr.RKey = transport.WRRead, wr.RKey+1
		wr.SGList = []transport.SGE{f.src.sge(f.area(areaResult), 16)}
	}
}

// sges splits n bytes at off into one to three elements.
func (f *flow) sges(off, n int) []transport.SGE {
	var l []transport.SGE
	for range f.s.rng.IntN(3) {
		cut := f.s.rng.IntN(n + 1)
		l = append(l, f.src.sge(off, cut))
		off, n = off+cut, n-cut
	}
	return append(l, f.src.sge(off, n))
}

// postRecvs posts up to n receives at src.
func (f *flow) postRecvs(n int) {
	for range n {
		if len(f.recvFree) == 0 {
			return
		}
		slot := f.recvFree[0]
		f.recvFree = f.recvFree[1:]
		f.recvID++
		f.recvSlot[f.recvID] = slot
		at := f.recvAt(slot)
		wr := transport.RecvWR{ID: f.recvID,
			SGList: []transport.SGE{f.src.sge(at, 100), f.src.sge(at+100, recvBytes-100)}}
		if f.srq != nil {
			f.s.must(f.srq.PostRecv(&wr))
		} else {
			f.s.must(f.src.qp.PostRecv(&wr))
		}
		f.s.p.watcher.postedRecv(f.src)
	}
}

// recvAt is where the receive slot of the flow that comes in at src lies.
func (f *flow) recvAt(slot int) int { return f.area(areaRecv) + slot*recvBytes }

// poll checks every completion at src.
func (f *flow) poll() {
	for _, wc := range pollCQ(f.cq) {
		if wc.QPN != f.src.qp.Number() {
			f.s.t.Fatalf("completion of QP %v", wc.QPN)
		}
		_, isRecv := f.recvSlot[wc.ID]
		switch {
		case wc.Status == transport.WCSuccess && wc.Opcode&transport.WCRecv != 0:
			f.checkRecv(&wc)
		case wc.Status != transport.WCSuccess && wc.Opcode&transport.WCRecv != 0:
			if !isRecv {
				f.s.t.Fatalf("receive %d completed twice: %s", wc.ID, wcString([]transport.WC{wc}))
			}
			if !f.poisoned() {
				f.s.t.Fatalf("receive failed: %s; %s", wcString([]transport.WC{wc}), f.s.state())
			}
			f.inOrder(wc.ID)
			delete(f.recvSlot, wc.ID)
		default:
			f.checkSend(&wc)
		}
	}
}

func (f *flow) inOrder(id uint64) {
	if f.srq == nil {
		if id != f.nextRecv {
			f.s.t.Fatalf("receive %d completed, expected %d", id, f.nextRecv)
		}
		f.nextRecv++
	}
}

func (f *flow) checkRecv(wc *transport.WC) {
	in := f.back
	slot, ok := f.recvSlot[wc.ID]
	if !ok {
		f.s.t.Fatalf("receive %d completed twice", wc.ID)
	}
	f.inOrder(wc.ID)
	delete(f.recvSlot, wc.ID)
	f.recvFree = append(f.recvFree, slot)
	if in.received == len(in.messages) {
		f.s.t.Fatalf("a message too many: %s", wcString([]transport.WC{*wc}))
	}
	m := in.messages[in.received]
	in.received++
	flags := transport.WCFlags(0)
	if m.hasImm {
		flags = transport.WCWithImm
	}
	if wc.Opcode != m.op || int(wc.ByteLen) != m.n || wc.Flags != flags || m.hasImm && wc.Imm != m.imm {
		f.s.t.Fatalf("message %d is %+v, received as %+v", in.received-1, m, *wc)
	}
	if at := f.recvAt(slot); m.data != nil && !bytes.Equal(m.data, f.src.buf[at:at+m.n]) {
		f.s.t.Fatalf("message %d: wrong bytes", in.received-1)
	}
}

// checkSend matches a completion with the next work request that has one.
func (f *flow) checkSend(wc *transport.WC) {
	for {
		if f.completed == len(f.expect) {
			f.s.t.Fatalf("completion too many: %s", wcString([]transport.WC{*wc}))
		}
		x := &f.expect[f.completed]
		f.completed++
		f.slots--
		if x.id != wc.ID {
			if x.signaled || f.failed {
				f.s.t.Fatalf("completion %s came before that of %d", wcString([]transport.WC{*wc}), x.id)
			}
			continue
		}
		switch {
		case f.failed:
			if wc.Status != transport.WCFlushErr {
				f.s.t.Fatalf("after the failure: %s", wcString([]transport.WC{*wc}))
			}
		case wc.Status != transport.WCSuccess:
			if !f.mayFail(x, wc) {
				f.s.t.Fatalf("%s failed; %s\n%s", wcString([]transport.WC{*wc}), f.s.state(), f.history())
			}
			f.failed = true
		case x.poison:
			f.s.t.Fatalf("a bad request succeeded: %s", wcString([]transport.WC{*wc}))
		case !x.signaled:
			f.s.t.Fatalf("unsignaled request completed: %s", wcString([]transport.WC{*wc}))
		default:
			f.checkSuccess(x, wc)
		}
		return
	}
}

// mayFail reports whether a request may complete with an error: the bad one, those
// behind it, and a READ or atomic before it whose answer was lost. The peer
// does not give that again once it is in ERR.
func (f *flow) mayFail(x *expectation, wc *transport.WC) bool {
	switch {
	case !f.poisoned():
		return false
	case x.poison, wc.Status == transport.WCFlushErr, f.back.poisonAt >= 0:
		return true
	case wc.Status != transport.WCRetryExcErr || f.posted <= f.poisonAt:
		return false
	}
	return x.opcode == transport.WCRead || x.opcode == transport.WCFetchAdd || x.opcode == transport.WCCompareSwap
}

func (f *flow) checkSuccess(x *expectation, wc *transport.WC) {
	if wc.Opcode != x.opcode || x.byteLen >= 0 && int(wc.ByteLen) != x.byteLen {
		f.s.t.Fatalf("%+v completed as %+v", *x, *wc)
	}
	if x.dstRead {
		f.dstReads--
	}
	if x.want != nil {
		f.results--
	}
	if x.want != nil && !bytes.Equal(x.want, f.src.buf[x.at:x.at+len(x.want)]) {
		f.s.t.Fatalf("request %d (%v): wrong result", x.id, x.opcode)
	}
}

// done reports whether nothing more is to come of this flow.
func (f *flow) done() bool {
	if f.poisoned() {
		// The QP that posted it ends in ERR, and the other one if it saw it or
		// still wants something of its peer; what was posted is complete.
		if f.src.qp.State() != transport.StateErr && (f.poisonAt >= 0 || f.completed < f.lastSignaled()) {
			return false
		}
		return true
	}
	return f.src.qp.State() == transport.StateRTS && f.posted == f.s.o.ops && f.completed == len(f.expect) &&
		f.received == len(f.messages)
}

// lastSignaled returns up to where completions are to come.
func (f *flow) lastSignaled() int {
	for i := len(f.expect); i > 0; i-- {
		if f.expect[i-1].signaled {
			return i
		}
	}
	return 0
}

func (f *flow) finish() {
	t := f.s.t
	if f.poisoned() {
		if f.failed && f.completed != len(f.expect) {
			t.Fatalf("%d of %d requests completed or flushed", f.completed, len(f.expect))
		}
		if f.srq == nil && f.src.qp.State() == transport.StateErr && len(f.recvSlot) != 0 {
			t.Fatalf("%d receives were not flushed", len(f.recvSlot))
		}
		return
	}
	if at := f.area(areaTarget); !bytes.Equal(f.target, f.dst.buf[at:at+areaBytes]) {
		t.Fatalf("the target of %s's writes on link %d is not what was written", f.src.name, f.k)
	}
	for i, want := range f.atomic {
		if got := binary.NativeEndian.Uint64(f.dst.buf[f.area(areaAtomic)+8*i:]); got != want {
			t.Fatalf("atomic word %d of %s's link %d is %#x, want %#x", i, f.src.name, f.k, got, want)
		}
	}
	if s := f.src.qp.State(); s != transport.StateRTS {
		t.Fatalf("%s link %d ended in %v", f.src.name, f.k, s)
	}
}
