package transport_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

var (
	everyFlag  = flag.Bool("every", false, "TestEverySchedule: all programs, for many minutes")
	depthFlag  = flag.Int("depth", 0, "TestEverySchedule: longest schedule, in actions; 0 for no bound")
	faultsFlag = flag.String("faults", "", "TestEverySchedule: lost,duplicated,overtaken,early for every program, as in 2,1,1,1")
)

// TestEverySchedule plays small programs under every schedule. Two engines and a wire are all the
// state there is: the engine has no clock, goroutine or source of randomness. In each state
// every action is tried that can happen next: deliver, lose, duplicate or overtake a packet, let a timer
// run, also while packets are still on their way, post the next request or receive. A state that was
// met before is not entered again.
//
// What is bounded is how many packets are lost, duplicated and overtaken and how many timers run early, by the
// program's budget. Within it the search is complete.
//
// The oracle is in schedules_programs_test.go. A failure prints its schedule.
func TestEverySchedule(t *testing.T) {
	var sum coverage
	for _, p := range schedulePrograms() {
		if !p.always && !*everyFlag {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			c := explore(t, p)
			t.Log(c)
			sum.add(c)
		})
	}
	t.Logf("%d programs: %v", sum.programs, sum)
}

// coverage is what a search has seen.
type coverage struct {
	programs, states, schedules, actions, depth, cut int
	took                                             time.Duration
}

func (c *coverage) add(d coverage) {
	c.programs += d.programs
	c.states += d.states
	c.schedules += d.schedules
	c.actions += d.actions
	c.cut += d.cut
	c.depth = max(c.depth, d.depth)
	c.took += d.took
}

func (c coverage) String() string {
	s := fmt.Sprintf("%d states, %d ends, %d actions, longest schedule %d, %v", c.states, c.schedules, c.actions, c.depth, c.took.Round(time.Millisecond))
	if c.cut > 0 {
		s += fmt.Sprintf(", %d cut", c.cut)
	}
	return s
}

// budget bounds what may go wrong in one schedule.
type budget struct {
	lose, dup, overtake uint8
	early               uint8 // timers that run while packets are on their way
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
	actTimer
	actLose
	actDup // deliver, and keep a copy behind all that is on the wire
)

func (a action) String() string {
	name := [...]string{"deliver", "post", "receive", "timer", "lose", "duplicate"}[a.kind]
	if a.nth > 0 {
		return fmt.Sprintf("%s to %c, overtaking %d", name, 'a'+a.end, a.nth)
	}
	return fmt.Sprintf("%s %c", name, 'a'+a.end)
}

// search is a depth-first search over the schedules of one program.
type search struct {
	t    testing.TB
	p    *program
	seen map[uint64]int // shortest schedule that led there
	path []action
	coverage
}

func explore(t testing.TB, p *program) coverage {
	s := &search{t: t, p: p, seen: map[uint64]int{}}
	s.programs = 1
	begin := time.Now()
	s.visit(newWorld(t, p))
	s.took = time.Since(begin)
	s.states = len(s.seen)
	return s.coverage
}

// visit explores all that can follow. It uses up w.
func (s *search) visit(w *world) {
	h := w.hash()
	if d, ok := s.seen[h]; ok && (d <= len(s.path) || *depthFlag == 0) {
		return
	}
	s.seen[h] = len(s.path)
	s.depth = max(s.depth, len(s.path))
	acts := w.actions()
	if len(acts) == 0 {
		s.schedules++
		s.check(w, w.final())
		return
	}
	if *depthFlag > 0 && len(s.path) >= *depthFlag {
		s.cut++
		return
	}
	for i, a := range acts {
		if i > 0 { // the first one had the world itself
			w = newWorld(s.t, s.p)
			for _, b := range s.path {
				_ = w.do(b)
			}
			s.actions += len(s.path)
		}
		s.path = append(s.path, a)
		s.actions++
		s.check(w, w.do(a))
		s.visit(w)
		s.path = s.path[:len(s.path)-1]
	}
}

// check ends the test with the schedule that led to a violation.
func (s *search) check(w *world, err error) {
	if err == nil {
		return
	}
	s.t.Helper()
	var b strings.Builder
	x := newWorld(s.t, s.p)
	x.log = &b
	fmt.Fprintf(&b, "%v\n", err)
	for _, a := range s.path {
		fmt.Fprintf(&b, "%v\n", a)
		_ = x.do(a)
	}
	s.t.Fatalf("after %d states:\n%s", len(s.seen), &b)
}

// world is two engines, the wire between them and their programs.
type world struct {
	t    testing.TB
	p    *program
	now  int64
	ends [2]*worldEnd
	left budget
	log  *strings.Builder // nil for none
	tx   []transport.TxPacket
}

// worldEnd is one side.
type worldEnd struct {
	eng    *transport.Engine
	cq     *transport.CQ
	qp     *transport.QP
	region *mem.Region
	addr   netip.Addr
	whole  []byte // memory and its guards
	buf    []byte
	base   uint64
	in     [][]byte // packets on their way here
	model
}

const (
	worldMTU   = ib.MTU256
	worldBytes = 8192
)

func newWorld(t testing.TB, p *program) *world {
	w := &world{t: t, p: p, now: second, left: p.budget, tx: make([]transport.TxPacket, 16)} // times that were never set are long ago
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range w.ends {
		e := &worldEnd{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), base: uint64(i+1) << 32}
		w.ends[i] = e
		rng := &fixedRand{byte(i)}
		table := mem.NewTable(rng, mem.Limits{})
		e.whole = make([]byte, worldBytes+2*guardBytes)
		copy(e.whole, guard)
		copy(e.whole[guardBytes+worldBytes:], guard)
		e.buf = e.whole[guardBytes : guardBytes+worldBytes]
		pd, err := table.AllocPD()
		must(err)
		e.region, err = table.Register(pd, mem.RegionAttr{Bytes: e.buf, IOVA: e.base, IOVASet: true, Access: allAccess})
		must(err)
		e.eng, err = transport.New(transport.Config{GIDs: []netip.Addr{e.addr}, MTU: worldMTU, Mem: table, Rand: rng, Tuning: p.tuning})
		must(err)
		e.cq, err = e.eng.CreateCQ(16, nil)
		must(err)
		e.qp, err = e.eng.CreateQP(transport.QPInitAttr{
			Type: ib.RC, PD: pd, SendCQ: e.cq, RecvCQ: e.cq, QPN: ib.QPN(0x100 + i),
			Caps: transport.QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		must(err)
	}
	for i, e := range w.ends {
		a := transport.QPAttr{
			Access: allAccess &^ mem.MWBind, PortNum: 1, AV: transport.AddressVector{DGID: ib.GIDFromAddr(w.ends[1-i].addr)}, PathMTU: worldMTU,
			DestQPN: ib.QPN(0x101 - i), SQPSN: testSQPSN0, RQPSN: testSQPSN0, MaxRdAtomic: p.rdAtomic, MaxDestRdAtomic: p.rdAtomic,
			MinRNRTimer: 12, Timeout: 8, RetryCnt: p.retry, RNRRetry: p.rnrRetry,
		}
		for k, s := range []transport.QPState{transport.StateInit, transport.StateRTR, transport.StateRTS} {
			a.State = s
			must(e.qp.Modify(w.now, a, transport.AttrState|[...]transport.AttrMask{
				transport.AttrAccess | transport.AttrPKeyIndex | transport.AttrPort,
				transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN | transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer,
				transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt | transport.AttrRNRRetry | transport.AttrMaxRdAtomic,
			}[k]))
		}
	}
	w.begin()
	return w
}

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
	flying := false
	for i, e := range w.ends {
		end := uint8(i)
		if n := len(e.in); n > 0 {
			flying = true
			acts = append(acts, action{kind: actDeliver, end: end})
			for k := 1; k < n && w.left.overtake > 0; k++ {
				acts = append(acts, action{actDeliver, end, uint8(k)})
			}
			if w.left.lose > 0 {
				acts = append(acts, action{kind: actLose, end: end})
			}
			if w.left.dup > 0 {
				acts = append(acts, action{kind: actDup, end: end})
			}
		}
		if e.posted < len(w.p.ops[i]) {
			acts = append(acts, action{kind: actPost, end: end})
		}
		if e.recvs < w.p.recvs[i] {
			acts = append(acts, action{kind: actRecv, end: end})
		}
	}
	if flying && w.left.early == 0 {
		return acts
	}
	if i, _, ok := w.timer(); ok {
		acts = append(acts, action{kind: actTimer, end: uint8(i)})
	}
	return acts
}

// timer returns the end whose timer is due first.
func (w *world) timer() (end int, at int64, ok bool) {
	for i, e := range w.ends {
		if t, armed := e.eng.NextTimeout(); armed && (!ok || t < at) {
			end, at, ok = i, t, true
		}
	}
	return end, at, ok
}

// do makes an action happen, lets both ends send what they then can, and checks what completed.
func (w *world) do(a action) error {
	e := w.ends[a.end]
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
		rx := transport.RxPacket{Src: w.ends[1-a.end].addr, Dst: e.addr, HopLimit: 64, Data: bytes.Clone(data)}
		e.eng.HandlePacket(w.now, &rx)
	case actPost:
		if err := w.post(int(a.end)); err != nil {
			return err
		}
	case actRecv:
		if err := w.postRecv(int(a.end)); err != nil {
			return err
		}
	case actTimer:
		for _, o := range w.ends {
			if len(o.in) > 0 {
				w.left.early--
				break
			}
		}
		_, at, _ := w.timer()
		w.now = max(w.now, at)
		e.eng.HandleTimeout(w.now)
	}
	return w.settle()
}

// settle sends what can be sent, and looks at what completed.
func (w *world) settle() error {
	for i, e := range w.ends {
		to := w.ends[1-i]
		for n := e.eng.PollTransmit(w.now, w.tx); n > 0; n = e.eng.PollTransmit(w.now, w.tx) {
			for k := range w.tx[:n] {
				data := append(w.tx[k].AppendTo(nil), 0, 0, 0, 0)
				to.in = append(to.in, data)
				if w.log != nil {
					var p ib.Packet
					_ = p.Decode(data)
					fmt.Fprintf(w.log, "    %c> %v psn %#x\n", 'a'+i, p.Opcode, uint32(p.PSN))
				}
			}
		}
		for _, ok := e.eng.PollEvent(); ok; _, ok = e.eng.PollEvent() {
		}
	}
	// Receives first: a success of the other end says that they are there.
	var all [2][]transport.WC
	for i, e := range w.ends {
		var wcs [16]transport.WC
		all[i] = append(all[i], wcs[:e.cq.Poll(wcs[:])]...)
	}
	for _, recvs := range []bool{true, false} {
		for i := range w.ends {
			for _, wc := range all[i] {
				if (wc.ID >= recvID) == recvs {
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
func (w *world) hash() uint64 {
	h := newStateHash(w.now)
	for _, e := range w.ends {
		h.engine(e.eng)
		h.bytes(e.buf)
		h.bytes(e.whole[:guardBytes])
		h.bytes(e.whole[guardBytes+worldBytes:])
		h.word(uint64(len(e.in)))
		for _, data := range e.in {
			h.bytes(data)
		}
		h.bytes(e.model.key())
	}
	h.bytes([]byte{w.left.lose, w.left.dup, w.left.overtake, w.left.early})
	return h.sum()
}

// key is what of the model tells states apart.
func (m *model) key() []byte {
	b := []byte{byte(m.posted), byte(m.recvs), byte(m.done), byte(m.failed), byte(m.received), byte(m.flushed)}
	return binary.AppendUvarint(b, uint64(m.status))
}
