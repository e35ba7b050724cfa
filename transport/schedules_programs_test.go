package transport_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/transport"
)

// program is what each end posts, and what may go wrong meanwhile.
type program struct {
	name     string
	ops      [2][]operation
	recvs    [2]int // receives that are posted at any time; -1: those that are needed are there from the start
	budget   budget
	retry    uint8
	rnrRetry uint8
	rdAtomic uint8
	tuning   transport.Tuning
	always   bool // in every run of the tests
}

// operation is one request, of so many bytes.
type operation struct {
	op transport.WROpcode
	n  int
}

// letters name operations in the names of programs, with their number of packets.
var letters = map[byte]transport.WROpcode{
	's': transport.WRSend, 'i': transport.WRSendImm, 'w': transport.WRWrite, 'x': transport.WRWriteImm, 'r': transport.WRRead,
	'f': transport.WRFetchAdd, 'c': transport.WRCompareSwap, 'a': transport.WRAtomicWrite,
}

// ops reads operations as "s2 w1 r3".
func ops(text string) []operation {
	var all []operation
	for _, f := range strings.Fields(text) {
		o := operation{op: letters[f[0]]}
		packets, err := strconv.Atoi(f[1:])
		if err != nil {
			panic(err)
		}
		switch o.op {
		case transport.WRFetchAdd, transport.WRCompareSwap, transport.WRAtomicWrite:
			o.n = 8
		default:
			o.n = packets*worldMTU.Bytes() - 100 // the last packet is shorter
		}
		all = append(all, o)
	}
	return all
}

// schedulePrograms are the programs that are played.
func schedulePrograms() []*program {
	var all []*program
	add := func(a, b string, lost, dup, over, early uint8, change func(*program)) *program {
		p := &program{
			ops: [2][]operation{ops(a), ops(b)}, recvs: [2]int{-1, -1}, budget: budget{lost, dup, over, early}, retry: 7, rnrRetry: 7, rdAtomic: 2,
		}
		p.name = strings.ReplaceAll(a, " ", "")
		if b != "" {
			p.name += "|" + strings.ReplaceAll(b, " ", "")
		}
		if change != nil {
			change(p)
		}
		if *faultsFlag != "" {
			if _, err := fmt.Sscanf(*faultsFlag, "%d,%d,%d,%d", &p.budget.lose, &p.budget.dup, &p.budget.overtake, &p.budget.early); err != nil {
				panic(err)
			}
		}
		p.name += fmt.Sprintf(" %d,%d,%d,%d", p.budget.lose, p.budget.dup, p.budget.overtake, p.budget.early)
		all = append(all, p)
		return p
	}
	kinds := "siwxrfca"
	for i := range kinds { // each kind, of one packet, and of three
		k := kinds[i : i+1]
		add(k+"1", "", 1, 1, 1, 1, nil).always = true
		add(k+"1", "", 2, 2, 2, 2, nil)
		if i < 5 {
			add(k+"3", "", 1, 1, 1, 1, nil)
			add(k+"2", "", 1, 1, 0, 0, nil).always = true
		}
	}
	for i := range kinds { // pairs of kinds
		for j := range kinds {
			a, b := kinds[i:i+1], kinds[j:j+1]
			add(a+"2 "+b+"1", "", 1, 1, 1, 1, nil)
			if i <= j {
				add(a+"1", b+"2", 1, 1, 0, 1, nil)
			}
		}
	}
	few := func(n, rnr uint8) func(*program) { return func(p *program) { p.retry, p.rnrRetry = n, rnr } }
	for _, k := range []string{"s2", "w2", "r2", "f1", "w1 f1", "r1 s1", "f1 f1", "c1 r2"} { // errors
		name := func(tag string, f func(*program)) func(*program) {
			return func(p *program) { f(p); p.name += tag }
		}
		add(k, "", 2, 0, 0, 1, name(" retry 1", few(1, 7))).always = k == "f1 f1"
		add(k, "", 3, 1, 0, 0, name(" retry 1", few(1, 7)))
		add(k, "", 1, 1, 1, 1, name(" depth 1", func(p *program) { p.rdAtomic = 1 }))
		add(k, "", 1, 1, 1, 1, name(" no probes", func(p *program) { p.tuning.LossProbe = -1 }))
	}
	for _, k := range []string{"s2", "w2", "w2 f1", "r2", "f1 f1", "w1 f1", "r1 s1", "c1 r2", "s1 w1 r1"} { // selective repeat
		add(k, "", 1, 1, 1, 1, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" })
		add(k, "", 1, 0, 1, 0, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" }).always = true
		add(k, "", 2, 0, 1, 1, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" })
	}
	late := func(tag string, a, b int, n uint8) func(*program) {
		return func(p *program) { p.recvs, p.rnrRetry = [2]int{a, b}, n; p.name += tag }
	}
	for _, k := range []string{"s1", "x2", "s1 s1", "w1 s1", "s1 f1", "r1 i1"} { // receives that come late
		n := strings.Count(k, "s") + strings.Count(k, "x") + strings.Count(k, "i")
		add(k, "", 1, 1, 0, 1, late(" late", 0, n, 7)).always = k == "s1"
		add(k, "", 1, 0, 1, 0, late(" late, rnr 1", 0, n, 1))
		add(k, "", 1, 1, 0, 1, func(p *program) {
			late(" late, credits", 0, n, 7)(p)
			p.tuning.EndToEndCredits = true
		})
	}
	return all
}

// model is what an end of the world has done, as the program sees it.
type model struct {
	posted, recvs int
	done          int // requests that have completed
	failed        int // 1 after the one that failed, with status
	flushed       int
	received      int
	status        transport.WCStatus
}

const (
	recvID = 100 // IDs of receives begin here

	// The memory of an end. Request k has a slot of slotBytes in each area.
	slotBytes  = 768
	areaOut    = 0    // what it sends and writes
	areaIn     = 2304 // what the peer writes
	areaReads  = 4608 // READs' results, and those of atomics
	areaWord   = 6912 // the word of atomics
	areaRecvs  = 6920
	wordsStart = 1000
)

// pattern is what request k of an end carries.
func pattern(end, k, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + end*101 + k*37 + i*3)
	}
	return b
}

// begin fills the memories, and posts the receives that are there from the start.
func (w *world) begin() {
	for i, e := range w.ends {
		for k := range w.p.ops[i] {
			copy(e.buf[areaOut+k*slotBytes:], pattern(i, k, slotBytes))
		}
		binary.NativeEndian.PutUint64(e.buf[areaWord:], wordsStart)
		if w.p.recvs[i] >= 0 {
			continue
		}
		for _, o := range w.p.ops[1-i] {
			if takesReceive(o.op) {
				if err := w.postRecv(i); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

func takesReceive(op transport.WROpcode) bool {
	return op == transport.WRSend || op == transport.WRSendImm || op == transport.WRWriteImm
}

// post posts the next request of an end.
func (w *world) post(i int) error {
	e, peer := w.ends[i], w.ends[1-i]
	k := e.posted
	o := w.p.ops[i][k]
	e.posted++
	local := areaOut + k*slotBytes
	wr := transport.SendWR{ID: uint64(k), Opcode: o.op, Flags: transport.SendSignaled, RKey: peer.region.RKey(), Imm: uint32(k), CompareAdd: 1}
	switch o.op {
	case transport.WRWrite, transport.WRWriteImm:
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
	case transport.WRAtomicWrite:
		wr.RemoteAddr = peer.base + uint64(areaIn+k*slotBytes)
	}
	wr.SGList = []transport.SGE{{Addr: e.base + uint64(local), Length: uint32(o.n), LKey: e.region.LKey()}}
	if err := e.qp.PostSend(w.now, &wr); err != nil {
		if e.qp.State() != transport.StateErr {
			return fmt.Errorf("post %d: %w", k, err)
		}
		e.flushed++
	}
	return nil
}

// adds returns how many of the first k requests of an end add one to the word.
func (w *world) adds(i, k int) (n uint64) {
	for _, o := range w.p.ops[i][:k] {
		if o.op == transport.WRFetchAdd || o.op == transport.WRCompareSwap {
			n++
		}
	}
	return n
}

func (w *world) postRecv(i int) error {
	e := w.ends[i]
	k := e.recvs
	e.recvs++
	sge := transport.SGE{Addr: e.base + areaRecvs + uint64(k)*320, Length: 320, LKey: e.region.LKey()}
	if k == 0 {
		sge = transport.SGE{Addr: e.base + areaIn + 2*slotBytes, Length: slotBytes, LKey: e.region.LKey()} // room for three packets
	}
	if err := e.qp.PostRecv(&transport.RecvWR{ID: recvID + uint64(k), SGList: []transport.SGE{sge}}); err != nil && e.qp.State() != transport.StateErr {
		return fmt.Errorf("receive %d: %w", k, err)
	}
	return nil
}

// completed checks one completion.
func (w *world) completed(i int, wc transport.WC) error {
	e := w.ends[i]
	if wc.ID >= recvID {
		return w.receivedOne(i, wc)
	}
	k := e.done + e.failed + e.flushed
	switch {
	case int(wc.ID) != k:
		return fmt.Errorf("%c: request %d completes, and %d is next", 'a'+i, wc.ID, k)
	case wc.Status == transport.WCSuccess && e.failed+e.flushed > 0:
		return fmt.Errorf("%c: request %d succeeds after one that failed", 'a'+i, k)
	case wc.Status == transport.WCSuccess:
		e.done++
		return w.executed(i, k)
	case wc.Status == transport.WCFlushErr:
		e.flushed++
		return nil
	case e.failed > 0:
		return fmt.Errorf("%c: request %d fails with %v after one that failed", 'a'+i, k, wc.Status)
	}
	e.failed, e.status = 1, wc.Status
	return w.mayFail(i, wc.Status)
}

// mayFail says whether the budget explains that a request fails so.
func (w *world) mayFail(i int, s transport.WCStatus) error {
	switch s {
	case transport.WCRetryExcErr:
		if w.p.retry < 7 {
			return nil
		}
	case transport.WCRNRRetryExcErr:
		if w.p.rnrRetry < 7 {
			return nil
		}
	}
	return fmt.Errorf("%c: a request fails with %v", 'a'+i, s)
}

// executed checks that a request that has succeeded has had its effect: nothing is acknowledged that was
// not executed.
func (w *world) executed(i, k int) error {
	e, peer := w.ends[i], w.ends[1-i]
	o := w.p.ops[i][k]
	if takesReceive(o.op) {
		n := 0
		for _, o := range w.p.ops[i][:k+1] {
			if takesReceive(o.op) {
				n++
			}
		}
		if peer.received < n {
			return fmt.Errorf("%c: request %d is acknowledged, and the peer has received %d of %d", 'a'+i, k, peer.received, n)
		}
	}
	switch o.op {
	case transport.WRWrite, transport.WRWriteImm, transport.WRAtomicWrite:
		if at := areaIn + k*slotBytes; !bytes.Equal(peer.buf[at:at+o.n], pattern(i, k, slotBytes)[:o.n]) {
			return fmt.Errorf("%c: WRITE %d is acknowledged, and the bytes are not there", 'a'+i, k)
		}
	case transport.WRRead:
		if at := areaReads + k*slotBytes; !bytes.Equal(e.buf[at:at+o.n], peer.buf[areaOut:areaOut+o.n]) {
			return fmt.Errorf("%c: READ %d has brought other bytes", 'a'+i, k)
		}
	case transport.WRFetchAdd, transport.WRCompareSwap:
		got := binary.NativeEndian.Uint64(e.buf[areaReads+k*slotBytes:])
		if want := wordsStart + w.adds(i, k); got != want {
			return fmt.Errorf("%c: atomic %d found %d, and %d were executed before it", 'a'+i, k, got, want-wordsStart)
		}
	}
	return nil
}

// receivedOne checks the completion of a receive: that of the next message, with its bytes.
func (w *world) receivedOne(i int, wc transport.WC) error {
	e := w.ends[i]
	if wc.Status == transport.WCFlushErr {
		return nil
	}
	k := e.received
	if int(wc.ID) != recvID+k || wc.Status != transport.WCSuccess {
		return fmt.Errorf("%c: receive %d completes with %v, and %d is next", 'a'+i, wc.ID-recvID, wc.Status, k)
	}
	e.received++
	for j, o := range w.p.ops[1-i] {
		if !takesReceive(o.op) {
			continue
		}
		if k > 0 {
			k--
			continue
		}
		hasImm := o.op != transport.WRSend
		if (wc.Flags&transport.WCWithImm != 0) != hasImm || hasImm && int(wc.Imm) != j || int(wc.ByteLen) != o.n {
			return fmt.Errorf("%c: receive of message %d: %+v", 'a'+i, j, wc)
		}
		if o.op == transport.WRWriteImm {
			return nil
		}
		at := areaIn + 2*slotBytes
		if e.received > 1 {
			at = areaRecvs + (e.received-1)*320
		}
		if !bytes.Equal(e.buf[at:at+o.n], pattern(1-i, j, slotBytes)[:o.n]) {
			return fmt.Errorf("%c: message %d has other bytes", 'a'+i, j)
		}
		return nil
	}
	return fmt.Errorf("%c: a message that nobody sent", 'a'+i)
}

// final checks what must hold when nothing can happen any more.
func (w *world) final() error {
	for i, e := range w.ends {
		peer := w.ends[1-i]
		n := len(w.p.ops[i])
		if e.done+e.failed+e.flushed != n {
			return fmt.Errorf("%c: %d of %d requests have completed, and nothing is left to happen", 'a'+i, e.done+e.failed+e.flushed, n)
		}
		if !bytes.Equal(e.whole[:guardBytes], guard) || !bytes.Equal(e.whole[guardBytes+worldBytes:], guard) {
			return fmt.Errorf("%c: bytes outside of the region have changed", 'a'+i)
		}
		if used := e.eng.RoomUsed(); used != 0 {
			return fmt.Errorf("%c: room that nobody gives back: %d", 'a'+i, used)
		}
		// Executed once each: those that succeeded, and perhaps more that were not acknowledged before the
		// connection ended. Never one without those before it.
		word := binary.NativeEndian.Uint64(peer.buf[areaWord:]) - wordsStart
		if least, most := w.adds(i, e.done), w.adds(i, n); word < least || word > most {
			return fmt.Errorf("%c: atomics were executed %d times: %d succeeded, %d were posted", 'a'+i, word, least, most)
		}
	}
	return nil
}
