package transport_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// budget bounds what may go wrong in one schedule.
type budget struct {
	lose, dup, overtake uint8
	early               uint8 // timers that run while packets are on their way, or before one that is due sooner
}

// used is how many faults there were since b was all of the budget.
func (b budget) used(left budget) int {
	return int(b.lose) - int(left.lose) + int(b.dup) - int(left.dup) + int(b.overtake) - int(left.overtake) +
		int(b.early) - int(left.early)
}

// action is one step of a schedule.
type action struct {
	kind actionKind
	end  uint8 // who receives, posts, or has the timer
	nth  uint8 // packet on the wire
}

type actionKind uint8

const (
	actDeliver actionKind = iota
	actPost
	actRecv
	actSend // let the engine send
	actPoll // look at the completion queue
	actTimer
	actDestroy
	actConnect
	actLose
	actDup // deliver, and keep a copy behind all that is on the wire
)

func (a action) String() string {
	name := [...]string{"deliver to", "post at", "post a receive at", "send from", "poll at", "timer of",
		"destroy", "connect", "lose what goes to", "duplicate what goes to"}[a.kind]
	if a.nth > 0 {
		return fmt.Sprintf("%s %c, overtaking %d", name, 'a'+a.end, a.nth)
	}
	return fmt.Sprintf("%s %c", name, 'a'+a.end)
}

// world is two engines, the wire between them and their programs.
type world struct {
	t    testing.TB
	p    *program
	now  int64
	life int // of the queue pairs
	ends [2]*worldEnd
	left budget
	log  *strings.Builder // nil for none
	tx   []transport.TxPacket
	acks []wireAck // sent in this step
	bad  error     // what was sent in this step, and may not be
	over [2]uint64 // packets that were sent again in this step
	fast bool      // this was done before, and checked: see replay
}

// worldEnd is one side.
type worldEnd struct {
	eng    *transport.Engine
	table  *mem.Table
	pd     *mem.PD
	cq     *transport.CQ
	qp     *transport.QP
	region *mem.Region
	win    *mem.Window
	addr   netip.Addr
	whole  []byte // memory and its guards
	buf    []byte
	base   uint64
	in     [][]byte // packets on their way here
	model
}

const worldMTU = ib.MTU256

// tripNs is how long a packet is on its way where a program says so. Otherwise it is no time, and
// there are fewer states.
const tripNs = 10_000

func newWorld(t testing.TB, p *program) *world {
	// Times that were never set are long ago.
	w := &world{t: t, p: p, now: second, left: p.budget, tx: make([]transport.TxPacket, 16)}
	for i := range w.ends {
		w.ends[i] = w.newEnd(w.name(i))
	}
	w.connect()
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// name is what addresses, numbers, keys and patterns of an end are made from. Where both ends have
// the same program they are the same, too, so that the mirror image of a state is the state itself.
func (w *world) name(i int) int {
	if w.p.mirrored {
		return 0
	}
	return i
}

func (w *world) newEnd(name int) *worldEnd {
	e := &worldEnd{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(name + 1)}), base: uint64(name+1) << 32}
	rng := &fixedRand{byte(name)}
	table := mem.NewTable(rng, mem.Limits{})
	e.table = table
	e.whole = make([]byte, worldBytes+2*guardBytes)
	copy(e.whole, guard)
	copy(e.whole[guardBytes+worldBytes:], guard)
	e.buf = e.whole[guardBytes : guardBytes+worldBytes]
	var err error
	e.pd, err = table.AllocPD()
	w.must(err)
	e.region, err = table.Register(e.pd, mem.RegionAttr{Bytes: e.buf, IOVA: e.base, IOVASet: true, Access: allAccess})
	w.must(err)
	if w.p.windows {
		e.win, err = table.AllocMW(e.pd, mem.Type2B)
		w.must(err)
	}
	e.eng, err = transport.New(transport.Config{
		GIDs: []netip.Addr{e.addr}, MTU: ib.MTU512, Mem: table, Rand: rng, Room: w.p.room, Tuning: w.p.tuning,
	})
	w.must(err)
	e.cq, err = e.eng.CreateCQ(16, nil)
	w.must(err)
	return e
}

// connect makes the queue pairs of a life, with the same numbers in each.
func (w *world) connect() {
	for i, e := range w.ends {
		var err error
		e.qp, err = e.eng.CreateQP(transport.QPInitAttr{
			Type: ib.RC, PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq, QPN: ib.QPN(0x100 + w.name(i)),
			Caps: transport.QPCaps{MaxSendWR: 4 * maxOps, MaxRecvWR: maxOps, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		w.must(err)
	}
	for i, e := range w.ends {
		peer := w.name(1 - i)
		a := transport.QPAttr{
			Access: allAccess &^ mem.MWBind, PortNum: 1,
			AV: transport.AddressVector{DGID: ib.GIDFromAddr(w.ends[1-i].addr)}, PathMTU: worldMTU,
			DestQPN: ib.QPN(0x100 + peer), SQPSN: w.psn(), RQPSN: w.psn(), MaxRdAtomic: w.p.rdAtomic,
			MaxDestRdAtomic: w.p.rdAtomic, MinRNRTimer: 12, Timeout: 8, RetryCnt: w.p.retry, RNRRetry: w.p.rnrRetry,
			SilenceNs: w.p.silence,
		}
		for k, s := range []transport.QPState{transport.StateInit, transport.StateRTR, transport.StateRTS} {
			a.State = s
			w.must(e.qp.Modify(w.now, a, transport.AttrState|[...]transport.AttrMask{
				transport.AttrAccess | transport.AttrPKeyIndex | transport.AttrPort,
				transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN |
					transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer,
				transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt |
					transport.AttrRNRRetry | transport.AttrMaxRdAtomic | transport.AttrSilence,
			}[k]))
		}
	}
	w.beginLife()
}

// psn is the first PSN of both directions in this life.
func (w *world) psn() ib.PSN { return w.p.psn[w.life] }

// fixedRand gives keys; QP numbers are given.
type fixedRand struct{ next byte }

func (r *fixedRand) Read(b []byte) (int, error) {
	for i := range b {
		r.next = r.next*5 + 1
		b[i] = r.next
	}
	return len(b), nil
}

// actions returns what can happen next; none if everything is over.
func (w *world) actions() []action {
	var acts []action
	add := func(k actionKind, end int) { acts = append(acts, action{kind: k, end: uint8(end)}) }
	for i, e := range w.ends {
		if n := len(e.in); n > 0 {
			add(actDeliver, i)
			for k := 1; k < n && w.left.overtake > 0; k++ {
				acts = append(acts, action{actDeliver, uint8(i), uint8(k)})
			}
			if w.left.lose > 0 {
				add(actLose, i)
			}
			if w.left.dup > 0 {
				add(actDup, i)
			}
		}
		if w.p.lazy {
			if e.eng.HasReady() {
				add(actSend, i)
			}
			if e.cq.Len() > 0 {
				add(actPoll, i)
			}
		}
		if e.gone {
			continue
		}
		if w.mayPost(i) {
			add(actPost, i)
		}
		if e.recvs < w.p.recvs[i] {
			add(actRecv, i)
		}
		if w.life+1 < len(w.p.lives) {
			add(actDestroy, i)
		}
	}
	if w.ends[0].gone && w.ends[1].gone {
		add(actConnect, 0)
	}
	for i := range w.ends {
		if _, early, ok := w.timer(i); ok && (!early || w.left.early > 0) {
			add(actTimer, i)
		}
	}
	return acts
}

// timer returns when the timer of an end is due, and whether it is early then.
func (w *world) timer(i int) (at int64, early, ok bool) {
	at, ok = w.ends[i].eng.NextTimeout()
	if !ok {
		return 0, false, false
	}
	other, armed := w.ends[1-i].eng.NextTimeout()
	early = armed && other < at
	for _, e := range w.ends {
		early = early || len(e.in) > 0 || w.p.lazy && e.eng.HasReady()
	}
	return at, early, true
}

// do makes an action happen, and checks what comes of it.
func (w *world) do(a action) error {
	e := w.ends[a.end]
	var before [2]transport.Counters
	if !w.fast {
		before = [2]transport.Counters{w.ends[0].eng.Counters(), w.ends[1].eng.Counters()}
	}
	var handled, sent [2]int
	var err error
	w.acks, w.bad, w.over = w.acks[:0], nil, [2]uint64{}
	switch a.kind {
	case actDeliver, actDup, actLose:
		data := e.in[a.nth]
		e.in = append(append([][]byte{}, e.in[:a.nth]...), e.in[a.nth+1:]...)
		if a.nth > 0 {
			w.left.overtake--
		}
		switch a.kind {
		case actLose:
			w.left.lose--
			return nil
		case actDup:
			w.left.dup--
			e.in = append(e.in, data)
		}
		if w.p.trip {
			w.now += tripNs
		}
		rx := transport.RxPacket{Src: w.ends[1-a.end].addr, Dst: e.addr, HopLimit: 64, Data: bytes.Clone(data)}
		e.eng.HandlePacket(w.now, &rx)
		handled[a.end]++
	case actPost:
		err = w.post(int(a.end))
	case actRecv:
		err = w.postRecv(int(a.end))
	case actTimer:
		at, early, _ := w.timer(int(a.end))
		if early {
			w.left.early--
		}
		w.now = max(w.now, at)
		e.eng.HandleTimeout(w.now)
	case actDestroy:
		err = w.destroy(int(a.end))
	case actConnect:
		w.life++
		w.connect()
	case actSend:
		sent[a.end] = w.transmit(int(a.end), w.tx[:1])
	case actPoll:
		err = w.poll([2]bool{a.end == 0, a.end == 1})
	}
	if err != nil {
		return err
	}
	if !w.p.lazy {
		// What is complete is known before more is sent: see requested.
		if err := w.poll([2]bool{true, true}); err != nil {
			return err
		}
		for i := range w.ends {
			for {
				n := w.transmit(i, w.tx)
				if n == 0 {
					break
				}
				sent[i] += n
			}
		}
		if err := w.poll([2]bool{true, true}); err != nil {
			return err
		}
	}
	if w.bad != nil {
		return w.bad
	}
	for _, e := range w.ends {
		for _, ok := e.eng.PollEvent(); ok; _, ok = e.eng.PollEvent() {
		}
	}
	w.look()
	if !w.fast {
		if err := w.balance(&before, handled, sent); err != nil {
			return err
		}
		if err := w.after(); err != nil {
			return err
		}
	}
	for _, e := range w.ends {
		if !e.gone && e.qp.State() == transport.StateErr {
			e.freeze()
		}
	}
	return nil
}

// replay does again what was done and checked before.
func (w *world) replay(path []action) {
	w.fast = true
	for _, a := range path {
		_ = w.do(a)
	}
	w.fast = false
}

// transmit lets an end send.
func (w *world) transmit(i int, batch []transport.TxPacket) int {
	to := w.ends[1-i]
	n := w.ends[i].eng.PollTransmit(w.now, batch)
	for k := range batch[:n] {
		data := append(batch[k].AppendTo(nil), 0, 0, 0, 0)
		to.in = append(to.in, data)
		var p ib.Packet
		_ = p.Decode(data)
		if !p.Opcode.Info().Response {
			w.requested(i, &p)
		} else if p.Opcode.Info().Op == ib.OpReadResponse && w.ends[i].barred {
			w.bad = fmt.Errorf("%c: answers a READ, which the peer may not any more", 'a'+i)
		}
		if w.fast {
			continue
		}
		if p.Opcode.Info().Headers&ib.HasAETH != 0 {
			w.acks = append(w.acks, wireAck{i, p.PSN, p.AETH.Syndrome})
		}
		if w.log != nil {
			fmt.Fprintf(w.log, "    %c> %v psn %#x", 'a'+i, p.Opcode, uint32(p.PSN))
			if p.Opcode.Info().Headers&ib.HasAETH != 0 {
				fmt.Fprintf(w.log, " %v", p.AETH.Syndrome)
			}
			fmt.Fprintln(w.log)
		}
	}
	return n
}

// poll looks at completion queues. Receives come first: a success of the other end says that they
// are there.
func (w *world) poll(of [2]bool) error {
	var all [2][]transport.WC
	for i, e := range w.ends {
		if of[i] {
			var wcs [16]transport.WC
			all[i] = append(all[i], wcs[:e.cq.Poll(wcs[:])]...)
		}
	}
	for _, recvs := range []bool{true, false} {
		for i := range w.ends {
			for _, wc := range all[i] {
				if isRecv(wc.ID) == recvs {
					if w.log != nil {
						fmt.Fprintf(w.log, "    %c: completion %d, %v\n", 'a'+i, wc.ID, wc.Status)
					}
					if err := w.completed(i, wc); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// hash names the state: two worlds of one hash have the same future.
func (w *world) hash(h *stateHash) uint64 {
	var of [2]uint64
	for i, e := range w.ends {
		h.reset(w.now)
		h.engine(e.eng)
		h.bytes(e.buf[areaIn:]) // the rest never changes: see memory
		h.word(uint64(len(e.in)))
		for _, data := range e.in {
			h.bytes(data)
		}
		if e.win != nil {
			h.word(uint64(e.win.RKey()))
			h.bool(e.win.Bound())
		}
		h.queue(e.cq)
		h.bytes(e.model.key())
		of[i] = h.sum()
	}
	if w.p.mirrored && of[1] < of[0] {
		of[0], of[1] = of[1], of[0]
	}
	h.reset(w.now)
	h.word(of[0])
	h.word(of[1])
	h.bytes([]byte{w.left.lose, w.left.dup, w.left.overtake, w.left.early, byte(w.life)})
	return h.sum()
}
