package cm

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/schedules"
)

// mishaps bound what may go wrong in one schedule.
type mishaps struct {
	lose, dup, overtake uint8
	early               uint8 // timers that run while a datagram is on its way
	slow                uint8 // timers that run while an application has something to do
}

// step is one action of a schedule.
type step struct {
	kind   stepKind
	end    uint8 // who receives, has the timer, or acts
	nth    uint8 // datagram on its way, or record
	choice byte  // what the application does
}

type stepKind uint8

const (
	stepDeliver stepKind = iota
	stepLose
	stepDup // deliver, and keep a copy behind all that is on its way
	stepTimer
	stepConnect
	stepResolve
	stepListen
	stepUnlisten
	stepTake
	stepAnswer // what its owner does with a connection that waits for it, or is up
	stepDestroy
	stepData // something comes on the queue pair: COMM_EST
	stepDie  // the process ends without a word, and another one begins
)

func (s step) String() string {
	name := [...]string{
		"deliver to", "lose to", "duplicate to", "timer of", "connect", "resolve", "listen",
		"close the listener of", "take a request", "answer of", "destroy by", "data to", "death of",
	}[s.kind]
	t := fmt.Sprintf("%s %c", name, 'a'+s.end)
	if s.choice != 0 {
		t += fmt.Sprintf(": %s", choices[s.choice])
	}
	if s.nth > 0 {
		t += fmt.Sprintf(" (%d)", s.nth)
	}
	return t
}

// choices are what the application may do.
var choices = map[byte]string{'a': "accept", 'y': "ready", 'r': "reject", 'd': "destroy", 'c': "disconnect"}

// twoEnds is two agents, the wire between them and what their applications do.
type twoEnds struct {
	p     *program
	now   int64
	ends  [2]*schedEnd
	conns []*record // of both ends, in the order of their beginning
	left  mishaps
	log   io.Writer
	began int64
}

// schedEnd is one side.
type schedEnd struct {
	*Agent
	script    script
	addr      netip.Addr
	numbers   *fewIDs
	listener  *Listener
	in        []Packet // on their way here
	asked     int      // connects and lookups so far
	life      int
	destroyed int
	died      int
	closed    bool // the listener
	wills     map[mad.CommID]bool
}

// record is a connection, or a lookup, as one application sees it.
type record struct {
	c       *Conn
	end     int
	key     string // of the request; the same at both ends
	passive bool
	events  string // a letter each

	accepted, refused, readied, closing, destroyed bool
	dead                                           bool // its process has died
}

// fewIDs makes numbers. Transaction IDs are always new; communication IDs come from the start again
// if few is not 0.
type fewIDs struct {
	end  uint32
	n    uint32
	few  uint32
	turn uint32
}

func (f *fewIDs) Read(b []byte) (int, error) {
	f.n++
	id := f.n
	if f.few > 0 {
		f.turn++
		id = 1 + f.turn%f.few
	}
	binary.BigEndian.PutUint32(b, f.n)
	binary.BigEndian.PutUint32(b[4:], (f.end+1)<<16|id)
	return len(b), nil
}

func (w *twoEnds) logf(f string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, f, args...)
	}
}

func (w *twoEnds) logPacket(f string, end int, p *Packet) {
	if w.log != nil {
		fmt.Fprintf(w.log, "    "+f+"%s\n", 'a'+end, describe(p))
	}
}

const schedStart = 1000e9 // moments that were never set are long ago

func newTwoEnds(p *program, log io.Writer) *twoEnds {
	w := &twoEnds{p: p, now: schedStart, began: schedStart, left: p.faults, log: log}
	for i := range w.ends {
		e := &schedEnd{addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), script: p.ends[i],
			numbers: &fewIDs{end: uint32(i), few: p.ends[i].ids}}
		w.ends[i] = e
		w.begin(e)
	}
	return w
}

// begin starts a process.
func (w *twoEnds) begin(e *schedEnd) {
	guid := mad.GUID(e.addr.As4()[3])
	if !e.script.sameGUID {
		guid |= mad.GUID(e.life) << 8
	}
	e.life++
	var err error
	e.Agent, err = New(Config{
		GUID: guid, Addrs: []netip.Addr{e.addr}, Rand: e.numbers, Tries: w.p.tries, LookNs: w.p.lookNs,
		ServiceTimeout: 18, ReqHoldNs: w.p.holdNs,
	})
	if err != nil {
		panic(err)
	}
	e.KeepWills()
	e.wills = map[mad.CommID]bool{}
	e.numbers.turn = 0
	e.listener = nil
	if e.script.listens == atOnce && !e.closed {
		w.listen(e)
	}
}

func (w *twoEnds) listen(e *schedEnd) {
	var err error
	if e.listener, err = e.Listen(w.service(), netip.Addr{}, 0); err != nil {
		panic(err)
	}
}

func (w *twoEnds) service() mad.ServiceID {
	if w.p.lookup {
		return sidrService
	}
	return service
}

// Actions implements schedules.World.
func (w *twoEnds) Actions() (acts []step, over bool) {
	flying := false
	for i, e := range w.ends {
		end := uint8(i)
		for k := range e.in {
			flying = true
			if k > 0 && (w.left.overtake == 0 || slices.Contains(e.in[:k], e.in[k])) {
				continue
			}
			acts = append(acts, step{kind: stepDeliver, end: end, nth: uint8(k)})
			if k > 0 {
				continue
			}
			if w.left.lose > 0 {
				acts = append(acts, step{kind: stepLose, end: end})
			}
			if w.left.dup > 0 {
				acts = append(acts, step{kind: stepDup, end: end})
			}
		}
	}
	busy := len(acts)
	for i, e := range w.ends {
		end := uint8(i)
		if e.asked < e.script.asks && w.mayAsk(i) {
			kind := stepConnect
			if w.p.lookup {
				kind = stepResolve
			}
			acts = append(acts, step{kind: kind, end: end})
		}
		if e.script.listens == later && e.listener == nil && !e.closed {
			acts = append(acts, step{kind: stepListen, end: end})
		}
		if e.script.takes && e.listener != nil && e.listener.Takeable() {
			acts = append(acts, step{kind: stepTake, end: end})
		}
	}
	for i, r := range w.conns {
		for _, c := range []byte(w.choices(r)) {
			acts = append(acts, step{stepAnswer, uint8(r.end), uint8(i), c})
		}
	}
	pending := len(acts) > busy
	at, who := w.timer()
	if who != 0 && !w.resting(flying || pending) {
		switch {
		case flying && w.left.early == 0, !flying && pending && w.left.slow == 0:
		default:
			for i := range w.ends {
				if t, ok := w.ends[i].NextTimeout(); ok && t == at {
					acts = append(acts, step{kind: stepTimer, end: uint8(i)})
				}
			}
		}
	}
	over = len(acts) == 0
	// What an application may do, and need not.
	for i, r := range w.conns {
		e := w.ends[r.end]
		if r.dead {
			continue
		}
		if e.destroyed < e.script.destroys && !r.destroyed && r.c.state != Idle {
			acts = append(acts, step{kind: stepDestroy, end: uint8(r.end), nth: uint8(i)})
		}
		if w.p.data && r.passive && r.c.state.halfOpen() && w.sentData(r) {
			acts = append(acts, step{kind: stepData, end: uint8(r.end), nth: uint8(i)})
		}
	}
	for i, e := range w.ends {
		if e.script.unlistens && e.listener != nil {
			acts = append(acts, step{kind: stepUnlisten, end: uint8(i)})
		}
		if e.died < e.script.dies && len(w.conns) > 0 {
			acts = append(acts, step{kind: stepDie, end: uint8(i)})
		}
	}
	return acts, over
}

// mayAsk reports whether the next request may be made.
func (w *twoEnds) mayAsk(end int) bool {
	e := w.ends[end]
	for _, r := range w.conns {
		if r.end == end && !r.passive && !r.dead &&
			(e.script.serial == whenOver && !r.over() || e.script.serial == whenGone && !r.c.gone) {
			return false
		}
	}
	return true
}

// over reports whether the owner knows that the connection is over.
func (r *record) over() bool {
	return r.refused || r.destroyed || strings.ContainsAny(r.events, "RUDS")
}

// sentData reports whether the peer may have sent something on the connection.
func (w *twoEnds) sentData(r *record) bool {
	return slices.ContainsFunc(w.conns, func(o *record) bool { return o.readied && paired(o, r) })
}

// paired reports whether two records are the ends of one connection.
func paired(a, b *record) bool {
	return a.end != b.end && a.key == b.key && a.c.localID == b.c.remoteID && a.c.remoteID == b.c.localID
}

// choices are what the owner of a connection has to choose from.
func (w *twoEnds) choices(r *record) string {
	e := w.ends[r.end]
	if r.dead || r.destroyed {
		return ""
	}
	switch r.c.state {
	case ReqRcvd, SIDRReqRcvd:
		return e.script.request
	case RepRcvd:
		return e.script.reply
	case Established:
		if r.passive && !strings.Contains(r.events, "E") {
			return ""
		}
		return e.script.up
	}
	return ""
}

// timer returns when the next timer is due, and how many ends have one.
func (w *twoEnds) timer() (at int64, ends int) {
	for _, e := range w.ends {
		if t, ok := e.NextTimeout(); ok {
			if ends == 0 || t < at {
				at = t
			}
			ends++
		}
	}
	return at, ends
}

// resting reports whether nothing is left but to look after peers from time to time.
func (w *twoEnds) resting(busy bool) bool {
	return !busy && len(w.ends[0].timers)+len(w.ends[1].timers) == 0 && !w.anyRoom()
}

func (w *twoEnds) anyRoom() bool {
	for _, e := range w.ends {
		if _, ok := e.roomAt(); ok {
			return true
		}
	}
	return false
}

// Do implements schedules.World.
func (w *twoEnds) Do(s step) error {
	e := w.ends[s.end]
	var r *record
	switch s.kind {
	case stepAnswer, stepDestroy, stepData:
		r = w.conns[s.nth]
	}
	switch s.kind {
	case stepDeliver, stepDup, stepLose:
		p := e.in[s.nth]
		e.in = slices.Delete(slices.Clone(e.in), int(s.nth), int(s.nth)+1)
		if s.nth > 0 {
			w.left.overtake--
		}
		switch s.kind {
		case stepLose:
			w.left.lose--
			w.logPacket("%c does not get ", int(s.end), &p)
			return nil
		case stepDup:
			w.left.dup--
			e.in = append(e.in, p)
		}
		w.logPacket("%c gets ", int(s.end), &p)
		e.HandleMAD(w.now, p.Src, p.Dst, p.Data[:])
	case stepTimer:
		at, _ := w.timer()
		if len(w.ends[0].in)+len(w.ends[1].in) > 0 {
			w.left.early--
		} else if w.pending() {
			w.left.slow--
		}
		w.now = max(w.now, at)
		w.logf("    at %d ms\n", (w.now-w.began)/1e6)
		e.HandleTimeout(w.now)
	case stepConnect, stepResolve:
		if err := w.ask(int(s.end)); err != nil {
			return err
		}
	case stepListen:
		w.listen(e)
	case stepUnlisten:
		e.listener.Close()
		e.listener, e.closed = nil, true
	case stepTake:
		l, ok := e.PollListener()
		if !ok {
			return fmt.Errorf("%c: a request is there to take, and no listener is offered", 'a'+s.end)
		}
		ev, ok := l.Next()
		if !ok {
			return fmt.Errorf("%c: a listener is offered that has no request", 'a'+s.end)
		}
		l.offer() // as PollEvent does
		if err := w.event(int(s.end), &ev); err != nil {
			return err
		}
	case stepAnswer:
		if err := w.answer(r, s.choice); err != nil {
			return err
		}
	case stepDestroy:
		e.destroyed++
		w.destroy(r)
	case stepData:
		r.c.CommEstablished()
	case stepDie:
		e.died++
		for _, r := range w.conns {
			r.dead = r.dead || r.end == int(s.end)
		}
		w.begin(e)
	}
	return w.settle()
}

// pending reports whether an application has something to do.
func (w *twoEnds) pending() bool {
	for i, e := range w.ends {
		if e.asked < e.script.asks && w.mayAsk(i) || e.script.listens == later && e.listener == nil && !e.closed ||
			e.script.takes && e.listener != nil && e.listener.Takeable() {
			return true
		}
	}
	return slices.ContainsFunc(w.conns, func(r *record) bool { return w.choices(r) != "" })
}

// ask makes the next request of an end.
func (w *twoEnds) ask(end int) error {
	e, to := w.ends[end], w.ends[1-end]
	key := fmt.Sprintf("%c%d", 'a'+end, e.asked)
	qpn := ib.QPN(100*(end+1) + e.asked)
	if e.script.sameQPN {
		qpn = ib.QPN(100 * (end + 1))
	}
	e.asked++
	private := make([]byte, mad.CMAHeaderBytes)
	h := mad.CMAHeader{SrcPort: 4660, Src: e.addr, Dst: to.addr}
	if err := h.Put(private); err != nil {
		return err
	}
	private = append(private, key...)
	r := &record{end: end, key: key}
	var err error
	if w.p.lookup {
		r.c, err = e.Resolve(w.now,
			Lookup{Local: e.addr, Remote: to.addr, Service: w.service(), Private: private, ListenNs: w.p.listenNs}, nil)
	} else {
		r.c, err = e.Connect(w.now, Request{
			Local: e.addr, Remote: to.addr, Service: w.service(), QPN: qpn, MTU: ib.MTU1024, AckTimeout: 14,
			Private: private, ListenNs: w.p.listenNs,
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("%c asks: %w", 'a'+end, err)
	}
	w.conns = append(w.conns, r)
	return nil
}

// answer does what an owner has chosen.
func (w *twoEnds) answer(r *record, choice byte) error {
	var err error
	switch choice {
	case 'a':
		r.accepted = true
		if w.p.lookup {
			err = r.c.AnswerLookup(w.now, LookupAnswer{QPN: 5, Private: []byte(r.key)})
		} else {
			err = r.c.Accept(w.now, Accept{QPN: ib.QPN(1000 + slices.Index(w.conns, r)), Private: []byte(r.key)})
		}
	case 'y':
		r.readied = true
		err = r.c.Ready(w.now, []byte(r.key))
	case 'r':
		r.refused = true
		if w.p.lookup {
			err = r.c.AnswerLookup(w.now, LookupAnswer{Status: mad.SIDRRejected})
		} else {
			err = r.c.Reject(w.now, mad.RejectConsumer, nil, []byte("no"))
		}
	case 'c':
		r.closing = true
		err = r.c.Disconnect(w.now, nil)
	case 'd':
		w.destroy(r)
	}
	return err
}

func (w *twoEnds) destroy(r *record) {
	r.destroyed = true
	r.c.Destroy(w.now)
}

// settle takes what both ends have to say, and checks it.
func (w *twoEnds) settle() error {
	for i, e := range w.ends {
		poll := e.PollEvent
		if e.script.takes {
			poll = e.PollConnEvent
		}
		for ev, ok := poll(); ok; ev, ok = poll() {
			if err := w.event(i, &ev); err != nil {
				return err
			}
		}
		var p Packet
		for e.PollTransmit(&p) {
			if p.Src != e.addr || p.Dst != w.ends[1-i].addr {
				return fmt.Errorf("%c: a datagram from %v to %v", 'a'+i, p.Src, p.Dst)
			}
			w.logPacket("%c sends ", i, &p)
			w.ends[1-i].in = append(w.ends[1-i].in, p)
		}
		if err := w.checkEnd(i); err != nil {
			return err
		}
	}
	return nil
}

// schedRules say what of an agent is state. Moments are only told apart as far as a decision does.
var schedRules = schedules.Rules{
	Skip: map[string]bool{
		"Agent.cfg": true, "Agent.local": true, "Agent.stats": true, "Agent.keepWills": true,
		"Conn.a": true, "Conn.UserData": true, "Listener.a": true, "Listener.UserData": true,
	},
	Times: map[string]int64{
		"Agent.clock": 10e9, "looks.at": 0,
		"Conn.retryAt": 0, "Conn.repNs": patienceNs, "Conn.endNs": 0, "Conn.holdNs": 0, "Conn.listenEndNs": 0,
		"Conn.askedNs": DefaultRetryNs, "Conn.deadline": 0, "peerNode.askedNs": suspectNs,
		"peerNode.heardNs": 10e9, "peerNode.returnedAt": returnedNs,
	},
	When: map[string]func(reflect.Value) bool{
		"Conn.deadline": func(c reflect.Value) bool { return c.FieldByName("heapIndex").Int() >= 0 },
		"Conn.retryAt":  isHalfOpen, "Conn.repNs": isHalfOpen,
		"Conn.endNs":       func(c reflect.Value) bool { return isHalfOpen(c) || stateOf(c) == Timewait },
		"Conn.holdNs":      func(c reflect.Value) bool { return isHalfOpen(c) || isAsking(c) },
		"Conn.listenEndNs": func(c reflect.Value) bool { return isAsking(c) || stateOf(c) == SIDRReqSent },
		"Conn.askedNs":     func(c reflect.Value) bool { return c.FieldByName("asked").Bool() },
	},
}

func stateOf(c reflect.Value) State   { return State(c.FieldByName("state").Uint()) }
func isHalfOpen(c reflect.Value) bool { return stateOf(c).halfOpen() }
func isAsking(c reflect.Value) bool   { return stateOf(c) == ReqSent || stateOf(c) == MRAReqRcvd }

// Hash implements schedules.World.
func (w *twoEnds) Hash() uint64 {
	s := schedules.NewState(&schedRules, w.now)
	s.Add(&w.left)
	for _, e := range w.ends {
		s.Add(e.Agent)
		s.Add(e.listener)
		s.Add(e.numbers)
		s.Add(&e.in)
		s.Add(&[]int{e.asked, e.life, e.destroyed, e.died})
		s.Add(&e.closed)
	}
	for _, r := range w.conns {
		// Of one that is gone only what it was counts.
		s.Add(&[]bool{r.passive, r.accepted, r.refused, r.readied, r.closing, r.destroyed, r.dead, r.c.gone, r.c.up})
		s.Bytes([]byte(r.key))
		s.Bytes([]byte(r.events))
		s.Word(uint64(r.c.localID))
		s.Word(uint64(r.c.remoteID))
		if !r.dead && !r.c.gone {
			s.Add(r.c)
		}
	}
	return s.Sum()
}
