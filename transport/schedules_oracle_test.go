package transport_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// The memory of an end. Request k has a slot of slotBytes in each area.
const (
	maxOps     = 4
	slotBytes  = 3 * 256
	areaOut    = 0                            // what it sends and writes, and the peer reads
	areaIn     = areaOut + maxOps*slotBytes   // what the peer writes
	areaReads  = areaIn + maxOps*slotBytes    // READs' results, and those of atomics
	areaRecvs  = areaReads + maxOps*slotBytes // receives
	areaWord   = areaRecvs + maxOps*slotBytes // the word of atomics
	worldBytes = areaWord + 64
	wordsStart = 1000

	recvBit   = 1 << 7 // of the ID of a receive
	lifeShift = 8      // of the life
)

func isRecv(id uint64) bool { return id&recvBit != 0 }

// over is what the programs fill memory with that nobody may write any more: the buffer of a
// request that is complete, the target of a WRITE that was acknowledged.
var over = bytes.Repeat([]byte{0xEE}, slotBytes)

// model is what an end of the world has done in this life, as the program sees it.
type model struct {
	posted, recvs int
	next          int // request whose completion comes next
	sent          int // packets of requests that have left, those that a READ asks for included
	done          int // requests that have succeeded
	failed        bool
	status        transport.WCStatus // of the one that failed
	received      int
	recvFailed    int
	recvFlushed   int
	gone          bool          // destroyed
	barred        bool          // the peer may not READ any more
	dead          []span        // of memory that nobody may write any more
	frozen        []byte        // memory as it was when the queue pair ended; nil before
	bound         [maxOps]uint8 // the peer's window, or its own, while request k was outstanding
}

// span is bytes of an end's memory.
type span struct{ at, n int }

// What a request may have found.
const (
	sawBound = 1 << iota
	sawUnbound
)

// wireAck is an acknowledgement, NAK or response that an end has sent.
type wireAck struct {
	from int
	psn  ib.PSN
	s    ib.Syndrome
}

// key is what of the model tells states apart.
func (m *model) key() []byte {
	b := []byte{byte(m.posted), byte(m.recvs), byte(m.next), byte(m.sent), byte(m.done), byte(m.received),
		byte(m.recvFailed), byte(m.recvFlushed), byte(m.status), 0}
	for i, v := range []bool{m.failed, m.gone, m.frozen != nil, m.barred} {
		if v {
			b[len(b)-1] |= 1 << i
		}
	}
	b = append(b, m.bound[:]...)
	return binary.AppendUvarint(b, uint64(len(m.dead)))
}

// patterns has every byte once, in an order without short periods.
var patterns = func() []byte {
	b := make([]byte, 256+slotBytes)
	for i := range b {
		b[i] = byte(i * 3)
	}
	return b
}()

// pattern is what request k of an end carries.
func pattern(life, name, k, n int) []byte {
	from := byte(1 + life*53 + name*101 + k*37)
	return patterns[from:][:n]
}

// ops are the requests of an end in this life.
func (w *world) ops(i int) []operation { return w.p.lives[w.life][i] }

func (w *world) pattern(i, k, n int) []byte { return pattern(w.life, w.name(i), k, n) }

// beginLife fills the memories, and posts the receives that are there from the start.
func (w *world) beginLife() {
	for i, e := range w.ends {
		e.model = model{}
		clear(e.buf)
		for k := range maxOps {
			copy(e.buf[areaOut+k*slotBytes:], w.pattern(i, k, slotBytes))
		}
		binary.NativeEndian.PutUint64(e.buf[areaWord:], wordsStart)
		if w.p.bound {
			if f := w.bindNow(e); f != mem.FaultNone {
				w.t.Fatal(f)
			}
		}
	}
	for i := range w.ends {
		if w.p.recvs[i] >= 0 {
			continue
		}
		for _, o := range w.ops(1 - i) {
			if o.takesReceive() {
				w.must(w.postRecv(i))
			}
		}
	}
}

// bindNow binds the window of an end.
func (w *world) bindNow(e *worldEnd) mem.Fault {
	return e.table.BindWR(e.pd, e.qp.Number(), e.win, mem.NextRKey(e.win.RKey()), e.bindInfo())
}

// bindInfo is what windows are bound to: where the peer writes.
func (e *worldEnd) bindInfo() mem.BindInfo {
	return mem.BindInfo{Region: e.region, Addr: e.base + areaIn, Length: maxOps * slotBytes,
		Access: mem.RemoteWrite | mem.RemoteRead}
}

// mayPost says whether the next request can be posted: some wait until the peer has got so far.
func (w *world) mayPost(i int) bool {
	e := w.ends[i]
	return e.posted < len(w.ops(i)) && w.ends[1-i].next >= w.ops(i)[e.posted].after
}

// post posts the next request of an end.
func (w *world) post(i int) error {
	e, peer := w.ends[i], w.ends[1-i]
	k := e.posted
	o := w.ops(i)[k]
	e.posted++
	wr := transport.SendWR{ID: uint64(w.life<<lifeShift | k), Opcode: o.op, RKey: peer.region.RKey(),
		Imm: uint32(k), CompareAdd: 1}
	if !o.silent {
		wr.Flags |= transport.SendSignaled
	}
	if o.patient {
		wr.Flags |= transport.SendPatient
	}
	if o.fence {
		wr.Flags |= transport.SendFence
	}
	if o.letter == 'E' {
		return e.qp.Modify(w.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState)
	}
	if o.letter == 'N' {
		e.barred = true
		return e.qp.Modify(w.now, transport.QPAttr{Access: allAccess &^ (mem.MWBind | mem.RemoteRead)},
			transport.AttrAccess)
	}
	local := areaOut + k*slotBytes
	switch o.op {
	case transport.WRWrite, transport.WRWriteImm, transport.WRAtomicWrite:
		wr.RemoteAddr = peer.base + uint64(areaIn+k*slotBytes)
	case transport.WRRead: // of what the peer sends, which never changes
		local = areaReads + k*slotBytes
		wr.RemoteAddr = peer.base + areaOut
	case transport.WRFetchAdd, transport.WRCompareSwap:
		local = areaReads + k*slotBytes
		wr.RemoteAddr = peer.base + areaWord
		if o.op == transport.WRCompareSwap { // the value that is there if all before were executed, once
			wr.CompareAdd = wordsStart + w.adds(i, k)
			wr.Swap = wr.CompareAdd + 1
		}
	case transport.WRFlush:
		wr.RemoteAddr, wr.FlushLength, wr.FlushType = peer.base+areaIn, slotBytes, ib.FlushGlobalVisibility
		if o.letter == 'q' { // annex A19: the address does not count
			wr.RemoteAddr, wr.FlushType = peer.base+1<<30, wr.FlushType|ib.FlushMR
		}
	case transport.WRSendInv:
		wr.InvalidateKey = peer.win.RKey()
	case transport.WRLocalInv:
		wr.InvalidateKey = e.win.RKey()
	case transport.WRBindMW:
		b := e.bindInfo()
		wr.Bind = transport.BindMW{MW: e.win, Region: b.Region, NewRKey: mem.NextRKey(e.win.RKey()),
			Addr: b.Addr, Length: b.Length, Access: b.Access}
	}
	lkey := e.region.LKey()
	switch o.letter {
	case 'm':
		wr.RKey = peer.win.RKey()
	case 'W', 'R', 'F', 'A': // of a key that nobody has
		wr.RKey = 0x55555500
	case 'K': // not aligned
		wr.RemoteAddr += 4
	case 'G':
		lkey = 0x55555500
	}
	if o.n > 0 && o.op != transport.WRFlush {
		wr.SGList = []transport.SGE{{Addr: e.base + uint64(local), Length: uint32(o.n), LKey: lkey}}
	}
	w.look()
	if err := e.qp.PostSend(w.now, &wr); err != nil {
		return fmt.Errorf("%c: post %d: %w", 'a'+i, k, err)
	}
	return nil
}

// adds returns how many of the first k requests of an end add one to the word.
func (w *world) adds(i, k int) (n uint64) {
	for _, o := range w.ops(i)[:k] {
		if o.adds() {
			n++
		}
	}
	return n
}

// takes returns how many of the first k requests of an end take a receive.
func (w *world) takes(i, k int) (n int) {
	for _, o := range w.ops(i)[:k] {
		if o.takesReceive() {
			n++
		}
	}
	return n
}

func (w *world) postRecv(i int) error {
	e := w.ends[i]
	k := e.recvs
	e.recvs++
	sge := transport.SGE{Addr: e.base + areaRecvs + uint64(k)*slotBytes, Length: slotBytes, LKey: e.region.LKey()}
	if err := e.qp.PostRecv(&transport.RecvWR{
		ID: uint64(w.life<<lifeShift | recvBit | k), SGList: []transport.SGE{sge},
	}); err != nil {
		return fmt.Errorf("%c: receive %d: %w", 'a'+i, k, err)
	}
	return nil
}

// destroy ends the queue pair of an end. Nothing may write to its memory any more.
func (w *world) destroy(i int) error {
	e := w.ends[i]
	if err := e.qp.Destroy(); err != nil {
		return err
	}
	var wcs [16]transport.WC
	for n := e.cq.Poll(wcs[:]); n > 0; n = e.cq.Poll(wcs[:]) {
	}
	e.gone = true
	e.freeze()
	if e.eng.HasReady() {
		return fmt.Errorf("%c: a queue pair that is destroyed still wants to send", 'a'+i)
	}
	return nil
}

// freeze remembers the memory of an end that nobody may write to any more.
func (e *worldEnd) freeze() {
	if e.frozen == nil {
		e.frozen = bytes.Clone(e.buf)
	}
}

// kill fills bytes that nobody may write any more.
func (e *worldEnd) kill(at, n int) {
	if n == 0 {
		return
	}
	copy(e.buf[at:at+n], over)
	if e.frozen != nil {
		copy(e.frozen[at:at+n], over)
	}
	e.dead = append(e.dead, span{at, n})
}

func (e *worldEnd) isDead(at int) bool {
	return slices.ContainsFunc(e.dead, func(s span) bool { return s.at == at })
}

// completed checks one completion.
func (w *world) completed(i int, wc transport.WC) error {
	e := w.ends[i]
	if int(wc.ID>>lifeShift) != w.life || e.gone {
		return fmt.Errorf("%c: completion %#x of a life that is over", 'a'+i, wc.ID)
	}
	if wc.QPN != e.qp.Number() {
		return fmt.Errorf("%c: completion of queue pair %v", 'a'+i, wc.QPN)
	}
	if isRecv(wc.ID) {
		return w.receivedOne(i, wc)
	}
	ops := w.ops(i)
	k := int(wc.ID & (recvBit - 1))
	if k < e.next || k >= e.posted {
		return fmt.Errorf("%c: request %d completes, and %d is next", 'a'+i, k, e.next)
	}
	for ; e.next < k; e.next++ { // those before it have succeeded without a word
		if !ops[e.next].requests() {
			continue
		}
		if !ops[e.next].silent || e.failed {
			return fmt.Errorf("%c: request %d completes, and %d is next", 'a'+i, k, e.next)
		}
		if err := w.succeeded(i, e.next); err != nil {
			return err
		}
	}
	e.next++
	o := ops[k]
	if o.op == transport.WRRead || o.adds() { // whatever its status
		defer e.kill(areaReads+k*slotBytes, o.n)
	}
	switch {
	case wc.Status == transport.WCSuccess && e.failed:
		return fmt.Errorf("%c: request %d succeeds after one that failed", 'a'+i, k)
	case wc.Status == transport.WCSuccess && o.silent:
		return fmt.Errorf("%c: request %d completes, and asked for no completion", 'a'+i, k)
	case wc.Status == transport.WCSuccess:
		if err := w.succeeded(i, k); err != nil {
			return err
		}
		return w.describes(i, k, &wc)
	case wc.Status == transport.WCFlushErr:
		if s := e.qp.State(); s != transport.StateErr {
			return fmt.Errorf("%c: request %d is flushed in %v", 'a'+i, k, s)
		}
		if !e.failed && !w.mayEnd(i) {
			return fmt.Errorf("%c: request %d is flushed, and nothing has failed", 'a'+i, k)
		}
		e.failed = true
		return nil
	case e.failed:
		return fmt.Errorf("%c: request %d fails with %v after one that failed", 'a'+i, k, wc.Status)
	}
	e.failed, e.status = true, wc.Status
	return w.mayFail(i, k, wc.Status)
}

// mayEnd says whether the queue pair of an end may have ended without a request of its own that
// failed: the program has ended it, or the peer has asked for what it may not have.
func (w *world) mayEnd(i int) bool {
	for _, o := range w.ops(i)[:w.ends[i].posted] {
		if o.letter == 'E' {
			return true
		}
	}
	for k, o := range w.ops(1 - i)[:w.ends[1-i].posted] {
		if o.op == transport.WRRead && w.ends[i].barred {
			return true
		}
		if o.fails != transport.WCSuccess && o.fails != transport.WCLocalProtErr ||
			(o.letter == 'm' || o.letter == 'v') && w.ends[1-i].bound[k]&sawUnbound != 0 {
			return true
		}
	}
	return false
}

// describes checks what the completion of a request says of it.
func (w *world) describes(i, k int, wc *transport.WC) error {
	want := map[transport.WROpcode]transport.WCOpcode{
		transport.WRSend: transport.WCSend, transport.WRSendImm: transport.WCSend,
		transport.WRSendInv: transport.WCSend, transport.WRWrite: transport.WCWrite,
		transport.WRWriteImm: transport.WCWrite, transport.WRRead: transport.WCRead,
		transport.WRCompareSwap: transport.WCCompareSwap, transport.WRFetchAdd: transport.WCFetchAdd,
		transport.WRAtomicWrite: transport.WCAtomicWrite, transport.WRFlush: transport.WCFlush,
		transport.WRLocalInv: transport.WCLocalInv, transport.WRBindMW: transport.WCBindMW,
	}[w.ops(i)[k].op]
	if wc.Opcode != want {
		return fmt.Errorf("%c: request %d completes as %v", 'a'+i, k, wc.Opcode)
	}
	return nil
}

// mayFail says whether the specification has this status for a request, as things are.
func (w *world) mayFail(i, k int, s transport.WCStatus) error {
	e, peer, o := w.ends[i], w.ends[1-i], w.ops(i)[k]
	c := e.eng.Counters()
	faults := w.p.budget.used(w.left)
	dead := peer.gone || peer.qp.State() == transport.StateErr
	if o.fails != transport.WCSuccess && s == o.fails {
		return nil
	}
	switch s {
	case transport.WCRetryExcErr: // IBTA 9.7.6.1.3 and 9.9.2.3
		if o.fails != transport.WCSuccess && w.p.retry == 7 && w.left.early == w.p.budget.early {
			break // the NAK is repeated for long: see Tuning.FatalLinger
		}
		tried := c.Timeouts + c.RcvdSeqErr + c.ImpliedNAKs
		if (dead || w.p.retry < 7 && faults > int(w.p.retry)) && tried > uint64(w.p.retry) {
			return nil
		}
	case transport.WCRNRRetryExcErr:
		if w.p.rnrRetry < 7 && c.RcvdRNRErr > uint64(w.p.rnrRetry) {
			return nil
		}
	case transport.WCRemoteInvReqErr: // a request that comes then: IBTA 9.9.3
		if o.op == transport.WRRead && peer.barred {
			return nil
		}
	case transport.WCRemoteAccessErr:
		if o.op == transport.WRRead && peer.barred { // one that was being answered
			return nil
		}
		if (o.letter == 'm' || o.letter == 'v') && e.bound[k]&sawUnbound != 0 {
			return nil
		}
	case transport.WCMWBindErr:
		if o.letter == 'l' && e.bound[k]&sawUnbound != 0 || o.letter == 'b' && e.bound[k]&sawBound != 0 {
			return nil
		}
	}
	return fmt.Errorf("%c: request %d fails with %v after %d faults, %d timeouts, %d sequence NAKs, %d implied, %d RNR NAKs",
		'a'+i, k, s, faults, c.Timeouts, c.RcvdSeqErr, c.ImpliedNAKs, c.RcvdRNRErr)
}

// succeeded checks that a request that has succeeded has had its effect: nothing is acknowledged
// that was not executed. Nothing may have it again, and the results are the program's.
func (w *world) succeeded(i, k int) error {
	e, peer, o := w.ends[i], w.ends[1-i], w.ops(i)[k]
	e.done++
	if o.fails != transport.WCSuccess {
		return fmt.Errorf("%c: request %d succeeds", 'a'+i, k)
	}
	if !w.p.lazy {
		if n := w.takes(i, k+1); o.takesReceive() && peer.received < n && !peer.gone {
			return fmt.Errorf("%c: request %d is acknowledged, and the peer has received %d of %d", 'a'+i, k,
				peer.received, n)
		}
	}
	switch o.op {
	case transport.WRWrite, transport.WRWriteImm, transport.WRAtomicWrite:
		at := areaIn + k*slotBytes
		if !bytes.Equal(peer.buf[at:at+o.n], w.pattern(i, k, o.n)) {
			return fmt.Errorf("%c: WRITE %d is acknowledged, and the bytes are not there", 'a'+i, k)
		}
		peer.kill(at, o.n)
	case transport.WRRead:
		if at := areaReads + k*slotBytes; !bytes.Equal(e.buf[at:at+o.n], peer.buf[areaOut:areaOut+o.n]) {
			return fmt.Errorf("%c: READ %d has brought other bytes", 'a'+i, k)
		}
	case transport.WRFetchAdd, transport.WRCompareSwap:
		got := binary.NativeEndian.Uint64(e.buf[areaReads+k*slotBytes:])
		if want := wordsStart + w.adds(i, k); got != want {
			return fmt.Errorf("%c: atomic %d found %d, and %d were executed before it", 'a'+i, k, got, want-wordsStart)
		}
	case transport.WRSendInv:
		if e.bound[k]&sawBound == 0 {
			return fmt.Errorf("%c: SEND %d has invalidated what was not bound", 'a'+i, k)
		}
	case transport.WRLocalInv:
		if e.bound[k]&sawBound == 0 {
			return fmt.Errorf("%c: request %d has invalidated what was not bound", 'a'+i, k)
		}
		w.sees(sawUnbound, e)
	case transport.WRBindMW:
		if e.bound[k]&sawUnbound == 0 {
			return fmt.Errorf("%c: request %d has bound what was bound", 'a'+i, k)
		}
		w.sees(sawBound, e)
	}
	if o.letter == 'm' && e.bound[k]&sawBound == 0 {
		return fmt.Errorf("%c: WRITE %d has come through a window that was not bound", 'a'+i, k)
	}
	return nil
}

// look notes whether the windows are bound.
func (w *world) look() {
	for _, e := range w.ends {
		switch {
		case e.win == nil:
		case e.win.Bound():
			w.sees(sawBound, e)
		default:
			w.sees(sawUnbound, e)
		}
	}
}

// sees notes for all requests that are outstanding that the window of an end was bound, or not.
func (w *world) sees(what uint8, owner *worldEnd) {
	for i, e := range w.ends {
		for k := e.next; k < e.posted; k++ {
			switch w.ops(i)[k].letter {
			case 'm', 'v':
				if e != owner {
					e.bound[k] |= what
				}
			case 'l', 'b':
				if e == owner {
					e.bound[k] |= what
				}
			}
		}
	}
}

// receivedOne checks the completion of a receive: that of the next message, with its bytes.
func (w *world) receivedOne(i int, wc transport.WC) error {
	e := w.ends[i]
	n := e.received + e.recvFailed + e.recvFlushed
	if int(wc.ID&(recvBit-1)) != n || n >= e.recvs {
		return fmt.Errorf("%c: receive %d completes, and %d is next", 'a'+i, wc.ID&(recvBit-1), n)
	}
	at := areaRecvs + n*slotBytes
	defer e.kill(at, slotBytes)
	if wc.Status == transport.WCFlushErr {
		if s := e.qp.State(); s != transport.StateErr {
			return fmt.Errorf("%c: receive %d is flushed in %v", 'a'+i, n, s)
		}
		e.recvFlushed++
		return nil
	}
	if e.recvFailed+e.recvFlushed > 0 {
		return fmt.Errorf("%c: receive %d completes with %v after one that did not succeed", 'a'+i, n, wc.Status)
	}
	var o operation
	j := -1
	for k, x := range w.ops(1 - i) {
		if x.takesReceive() {
			if n == 0 {
				o, j = x, k
				break
			}
			n--
		}
	}
	if j < 0 || j >= w.ends[1-i].posted {
		return fmt.Errorf("%c: a message that nobody sent", 'a'+i)
	}
	if wc.Status != transport.WCSuccess {
		e.recvFailed++
		if wc.Status == o.recvFails {
			return nil
		}
		return fmt.Errorf("%c: receive of message %d: %v", 'a'+i, j, wc.Status)
	}
	e.received++
	if o.recvFails != transport.WCSuccess && o.letter != 'v' {
		return fmt.Errorf("%c: message %d is received", 'a'+i, j)
	}
	hasImm := o.op == transport.WRSendImm || o.op == transport.WRWriteImm
	hasInv := o.op == transport.WRSendInv
	if hasInv {
		w.sees(sawUnbound, e)
		if wc.InvKey != e.win.RKey() {
			return fmt.Errorf("%c: message %d has invalidated %v", 'a'+i, j, wc.InvKey)
		}
	}
	if (wc.Flags&transport.WCWithImm != 0) != hasImm || hasImm && int(wc.Imm) != j ||
		int(wc.ByteLen) != o.n || (wc.Flags&transport.WCWithInv != 0) != hasInv {
		return fmt.Errorf("%c: receive of message %d: %+v", 'a'+i, j, wc)
	}
	want := w.pattern(1-i, j, o.n)
	if o.op == transport.WRWriteImm { // the bytes are elsewhere, and the receive's are not touched
		want = nil
		if to := areaIn + j*slotBytes; !e.isDead(to) && !bytes.Equal(e.buf[to:to+o.n], w.pattern(1-i, j, o.n)) {
			return fmt.Errorf("%c: WRITE %d is announced, and the bytes are not there", 'a'+i, j)
		}
	}
	if !bytes.Equal(e.buf[at:at+len(want)], want) || !zero(e.buf[at+len(want):at+slotBytes]) {
		return fmt.Errorf("%c: message %d has other bytes", 'a'+i, j)
	}
	return nil
}

func zero(b []byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }

// countersOf are the counters one by one.
func countersOf(c *transport.Counters) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(c)), unsafe.Sizeof(*c)/8)
}

// balance checks that what an action has added to the counters is what it did.
func (w *world) balance(before *[2]transport.Counters, handled, sent [2]int) error {
	for i, e := range w.ends {
		now, was := e.eng.Counters(), &before[i]
		x, y := countersOf(&now), countersOf(was)
		for k := range x {
			if x[k] < y[k] || x[k] > y[k]+1<<20 {
				return fmt.Errorf("%c: counter %s goes from %d to %d", 'a'+i,
					reflect.TypeOf(now).Field(k).Name, y[k], x[k])
			}
		}
		drops := func(c *transport.Counters) uint64 {
			return c.DropMalformed + c.DropOpcode + c.DropNoQP + c.DropQPType + c.DropState + c.DropAddress +
				c.DropPKey + c.DropQKey
		}
		var naks, rnrs uint64
		for _, a := range w.acks {
			if a.from == i && a.s.Kind() == ib.SyndromeRNR {
				rnrs++
			}
			if a.from == i && a.s == ib.NAKSequence {
				naks++
			}
		}
		for _, x := range []struct {
			what      string
			got, want uint64
		}{
			{"packets received", now.RcvdPkts - was.RcvdPkts + drops(&now) - drops(was), uint64(handled[i])},
			{"packets sent", now.SentPkts - was.SentPkts, uint64(sent[i])},
			{"RNR NAKs sent", now.SendRNRErr - was.SendRNRErr, rnrs},
			{"sequence NAKs sent", now.SentSeqNAKs - was.SentSeqNAKs, naks},
			{"packets sent again", now.RetransmittedPkts - was.RetransmittedPkts, w.over[i]},
		} {
			if x.got != x.want {
				return fmt.Errorf("%c: the counters have %d %s, and there were %d", 'a'+i, x.got, x.what, x.want)
			}
		}
	}
	return nil
}

// after checks what holds after every action.
func (w *world) after() error {
	for i, e := range w.ends {
		for _, s := range e.dead {
			if !bytes.Equal(e.buf[s.at:s.at+s.n], over[:s.n]) {
				return fmt.Errorf("%c: somebody has written to %d bytes at %d, which were the program's again",
					'a'+i, s.n, s.at)
			}
		}
		if e.frozen != nil && !bytes.Equal(e.buf, e.frozen) {
			return fmt.Errorf("%c: somebody has written to memory after the queue pair had ended", 'a'+i)
		}
		if n, done := binary.NativeEndian.Uint64(w.ends[1-i].buf[areaWord:])-wordsStart, w.adds(i, e.posted); n > done {
			return fmt.Errorf("%c: atomics were executed %d times, and %d were posted", 'a'+i, n, done)
		}
	}
	for _, a := range w.acks {
		if err := w.acknowledged(a); err != nil {
			return err
		}
	}
	return nil
}

// requested checks a packet of a request: it is the next one, or one again; its request was posted
// and is not complete; a fence has waited; and no more READs and atomics are outstanding than may
// be.
func (w *world) requested(i int, p *ib.Packet) {
	e := w.ends[i]
	d := p.PSN.Diff(w.psn())
	at := 0
	for k, o := range w.ops(i)[:e.posted] {
		n := o.packets()
		if d < at || d >= at+n {
			at += n
			continue
		}
		switch {
		case d < e.sent:
			w.over[i]++
		case d > e.sent:
			w.bad = fmt.Errorf("%c: sends packet %d, and %d is next", 'a'+i, d, e.sent)
		case o.op == transport.WRRead: // all of it, or a part; of no bytes, it has a packet
			e.sent = d + max(1, (int(p.RETH.Len)+worldMTU.Bytes()-1)/worldMTU.Bytes())
		default:
			e.sent = d + 1
		}
		if k < e.next {
			w.bad = fmt.Errorf("%c: sends request %d again, which is complete", 'a'+i, k)
		}
		asked := 0
		for j := e.next; j <= k; j++ {
			switch x := w.ops(i)[j]; {
			case x.silent: // nothing tells when it is complete
				return
			case !x.asks():
				continue
			}
			if asked++; j < k && o.fence {
				w.bad = fmt.Errorf("%c: request %d does not wait for request %d", 'a'+i, k, j)
			}
		}
		if asked > int(w.p.rdAtomic) && !w.p.lazy {
			w.bad = fmt.Errorf("%c: asks for %d READs and atomics, and may for %d", 'a'+i, asked, w.p.rdAtomic)
		}
		return
	}
	w.bad = fmt.Errorf("%c: sends packet %d, which nobody has posted", 'a'+i, d)
}

// acknowledged checks a packet that acknowledges requests: they have been executed, and posted at
// all.
func (w *world) acknowledged(a wireAck) error {
	i := 1 - a.from // whose requests
	e, peer := w.ends[i], w.ends[a.from]
	if e.gone || peer.gone {
		return nil
	}
	upTo := int(a.psn.Diff(w.psn())) // packets that are acknowledged
	if a.s.Kind() == ib.SyndromeACK {
		upTo++
	}
	at := 0 // PSN of the request
	for k, o := range w.ops(i)[:e.posted] {
		n := o.packets()
		if at >= upTo || n == 0 {
			at += n
			continue
		}
		whole := at+n <= upTo
		at += n
		switch {
		case whole && o.fails != transport.WCSuccess && o.fails != transport.WCLocalProtErr:
			return fmt.Errorf("%c: request %d is acknowledged on the wire, and must fail", 'a'+i, k)
		case whole && o.takesReceive() && peer.received+peer.cq.Len() < w.takes(i, k+1):
			return fmt.Errorf("%c: request %d is acknowledged on the wire, and the peer has received %d",
				'a'+i, k, peer.received)
		case whole && o.adds() && binary.NativeEndian.Uint64(peer.buf[areaWord:]) < wordsStart+w.adds(i, k+1):
			return fmt.Errorf("%c: atomic %d is acknowledged on the wire, and was not executed", 'a'+i, k)
		}
		if o.op == transport.WRWrite || o.op == transport.WRWriteImm || o.op == transport.WRAtomicWrite {
			to, n := areaIn+k*slotBytes, o.n
			if !whole {
				n = min(n, (upTo-at+o.packets())*worldMTU.Bytes())
			}
			if !peer.isDead(to) && !bytes.Equal(peer.buf[to:to+n], w.pattern(i, k, n)) {
				return fmt.Errorf("%c: WRITE %d is acknowledged on the wire, and the bytes are not there", 'a'+i, k)
			}
		}
	}
	if upTo > at {
		return fmt.Errorf("%c: %d packets are acknowledged, and %d were posted", 'a'+i, upTo, at)
	}
	return nil
}

// final checks what must hold when nothing can happen any more. It uses up the world.
func (w *world) final() error {
	for i, e := range w.ends {
		ops := w.ops(i)[:e.posted]
		last := len(ops)
		for e.next < last && !ops[e.next].requests() {
			e.next++
		}
		for ; last > e.next && ops[last-1].silent && !e.failed; last-- { // nothing tells of these
		}
		if e.next != last {
			return fmt.Errorf("%c: %d of %d requests have completed, and nothing is left to happen",
				'a'+i, e.next, last)
		}
		if e.qp.State() == transport.StateErr {
			if n := e.received + e.recvFailed + e.recvFlushed; n != e.recvs {
				return fmt.Errorf("%c: %d of %d receives have completed, and the queue pair has ended",
					'a'+i, n, e.recvs)
			}
		}
		if err := w.memory(i); err != nil {
			return err
		}
		if used := e.eng.RoomUsed(); used != 0 {
			return fmt.Errorf("%c: room that nobody gives back: %d", 'a'+i, used)
		}
		// Executed once each: those that succeeded, and perhaps more that were not acknowledged
		// before the connection ended. Never one without those before it.
		word := binary.NativeEndian.Uint64(w.ends[1-i].buf[areaWord:]) - wordsStart
		if least, most := w.adds(i, e.done), w.adds(i, e.posted); word < least || word > most ||
			!e.failed && word != most {
			return fmt.Errorf("%c: atomics were executed %d times: %d succeeded, %d were posted", 'a'+i,
				word, least, most)
		}
		if err := w.totals(i); err != nil {
			return err
		}
	}
	for i, e := range w.ends {
		if err := e.qp.Destroy(); err != nil {
			return err
		}
		_, armed := e.eng.NextTimeout()
		if n := e.cq.Len(); armed || e.eng.HasReady() || n > 0 {
			return fmt.Errorf("%c: after the end: timer %v, to send %v, %d completions", 'a'+i, armed,
				e.eng.HasReady(), n)
		}
		if err := errors.Join(e.cq.Destroy(), e.region.Deregister(nil)); err != nil && e.win == nil {
			return fmt.Errorf("%c: after the end: %w", 'a'+i, err)
		}
	}
	return nil
}

// totals checks the counters of a whole schedule.
func (w *world) totals(i int) error {
	e, c := w.ends[i], w.ends[i].eng.Counters()
	if len(w.p.lives) > 1 {
		return nil // those of the lives before were not counted
	}
	if err := w.waste(i); err != nil {
		return err
	}
	silent := 0
	for _, o := range w.ops(i)[e.next:e.posted] {
		if o.silent {
			silent++
		}
	}
	least, most := uint64(e.done), uint64(e.done+silent)
	if e.failed { // silent ones before the one that failed
		most = uint64(e.posted)
		for _, o := range w.ops(i)[:e.posted] {
			if o.silent {
				least = 0
			}
		}
	}
	switch {
	case c.RDMASends < least || c.RDMASends > most:
		return fmt.Errorf("%c: the counters have %d requests, and %d have succeeded", 'a'+i, c.RDMASends, e.done)
	case c.RDMARecvs != uint64(e.received):
		return fmt.Errorf("%c: the counters have %d receives, and %d have succeeded", 'a'+i, c.RDMARecvs, e.received)
	case c.RetransmittedPkts > c.SentPkts || c.SelectiveRepeats > c.RetransmittedPkts ||
		c.LossProbes > c.RetransmittedPkts || c.KeptInTurn > c.KeptAhead:
		return fmt.Errorf("%c: the counters do not agree: %+v", 'a'+i, c)
	case (c.RetryExceededErr != 0) != (e.status == transport.WCRetryExcErr),
		(c.RetryRNRExceededErr != 0) != (e.status == transport.WCRNRRetryExcErr):
		return fmt.Errorf("%c: the counters have %d and %d that gave up, and the status is %v", 'a'+i,
			c.RetryExceededErr, c.RetryRNRExceededErr, e.status)
	}
	return nil
}

// waste checks that nothing is sent for nothing: without a fault nothing is sent again, refused or
// dropped, and with some not more often than they explain.
func (w *world) waste(i int) error {
	e, c := w.ends[i], w.ends[i].eng.Counters()
	faults, packets := w.p.budget.used(w.left), 0
	for _, o := range w.ops(i)[:e.posted] {
		packets += o.packets()
	}
	if !w.p.fine() || w.ends[0].failed || w.ends[1].failed {
		return nil
	}
	again := c.RetransmittedPkts
	if faults > 0 {
		if most := wasteFactor * faults * packets; again > uint64(most) {
			return fmt.Errorf("%c: %d of %d packets are sent again for %d faults", 'a'+i, again, packets, faults)
		}
		return nil
	}
	if n := again + c.Timeouts + c.SentSeqNAKs + c.ImpliedNAKs + c.LossProbes + c.DuplicateRequest +
		c.OutOfSeqRequest + c.KeptAhead + c.DropBadResponse; n > 0 {
		return fmt.Errorf("%c: there was no fault: %+v", 'a'+i, c)
	}
	return nil
}

// wasteFactor is how often a fault may have everything sent again: what overtakes two packets makes
// two gaps.
const wasteFactor = 2

// memory checks every byte of an end: what nothing has written is as it was, what the peer has
// written is what it posted, or the beginning of that.
func (w *world) memory(i int) error {
	e, peer := w.ends[i], w.ends[1-i]
	if !bytes.Equal(e.whole[:guardBytes], guard) || !bytes.Equal(e.whole[guardBytes+worldBytes:], guard) {
		return fmt.Errorf("%c: bytes outside of the region have changed", 'a'+i)
	}
	for k := range maxOps {
		out, in, got := areaOut+k*slotBytes, areaIn+k*slotBytes, areaReads+k*slotBytes
		if !bytes.Equal(e.buf[out:out+slotBytes], w.pattern(i, k, slotBytes)) {
			return fmt.Errorf("%c: what it sends with request %d has changed", 'a'+i, k)
		}
		n := 0
		if k < peer.posted {
			n = w.ops(1 - i)[k].writes()
		}
		if !e.isDead(in) && !begins(e.buf[in:in+slotBytes], w.pattern(1-i, k, n)) ||
			e.isDead(in) && !zero(e.buf[in+n:in+slotBytes]) {
			return fmt.Errorf("%c: the peer's request %d has written other bytes", 'a'+i, k)
		}
		n = 0
		if k < e.posted && (w.ops(i)[k].op == transport.WRRead || w.ops(i)[k].adds()) {
			n = w.ops(i)[k].n
		}
		if !zero(e.buf[got+n : got+slotBytes]) {
			return fmt.Errorf("%c: request %d has brought other bytes", 'a'+i, k)
		}
	}
	if !zero(e.buf[areaWord+8:]) {
		return fmt.Errorf("%c: bytes beside the word have changed", 'a'+i)
	}
	return nil
}

// begins reports whether b is some bytes of want, with nothing behind them.
func begins(b, want []byte) bool {
	n := 0
	for n < len(want) && b[n] == want[n] {
		n++
	}
	return zero(b[n:])
}
