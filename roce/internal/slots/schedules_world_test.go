//go:build linux

package slots

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/schedules"
	"github.com/goroce/goroce/transport/edge"
)

// slotWorld is processes at one or two addresses. The rules are those of the package; what they
// stand on is in schedules_ground_test.go. A step is one system call of a process.
type slotWorld struct {
	p      *slotProgram
	now    int64
	addrs  []*memoryAndLocks // nil: nobody has the address
	actors []*actor
	left   slotBudget
	lives  [][Count]life // of each slot at each address, the last one
	count  int           // lives so far
	asked  int           // requests so far
	log    io.Writer
	broken error
	// One was killed while it gave its slot back: it may have left the socket for requests deaf,
	// see set.quiet.
	cutOff bool
}

// life is the time that a device has a slot.
type life struct {
	n     int // 0: never
	owner int
	over  bool
	at    int64 // then
}

// slotBudget bounds what may happen besides what the processes do.
type slotBudget struct {
	kills    uint8 // of processes, at any step
	packets  uint8 // that peers send to queue pairs
	requests uint8 // that peers send
	rests    uint8 // how often the time passes in which a slot rests
}

// actor is a process.
type actor struct {
	w     *slotWorld
	id    int
	ops   []string
	at    int // the operation that it is in
	l     *Lease
	next  func() (string, bool)
	stop  func()
	yield func(string) bool // nil: it need not wait for its turn

	wants   string // the call that it is about to make
	learned uint64 // a hash of what its calls have brought in this operation
	done    bool
	dead    bool
	met     int // addresses
	reaped  int // of these, after its death

	has       bool // a slot, and does not give it back yet
	heard     bool
	serving   bool
	announced bool
	announces bool // it has, at some time
}

// killed ends a process in the middle of what it does.
type killed struct{}

const slotStart = 1e15

func newSlotWorld(p *slotProgram, log io.Writer) *slotWorld {
	w := &slotWorld{p: p, now: slotStart, left: p.budget, log: log, addrs: make([]*memoryAndLocks, max(p.addresses, 1))}
	w.lives = make([][Count]life, len(w.addrs))
	if p.kept {
		for i := range w.addrs {
			w.addrs[i] = newMemoryAndLocks()
			w.addrs[i].members = 1
		}
	}
	for i, ops := range p.actors {
		a := &actor{w: w, id: i + 1, ops: ops}
		w.actors = append(w.actors, a)
		a.next, a.stop = iter.Pull(a.run)
		a.advance()
	}
	return w
}

// Close ends what runs. schedules.Explore calls it.
func (w *slotWorld) Close() {
	for _, a := range w.actors {
		a.dead = true
		a.stop()
	}
}

// run is the process. It yields before each call.
func (a *actor) run(yield func(string) bool) {
	defer func() {
		if x := recover(); x != nil {
			if _, ok := x.(killed); !ok {
				panic(x)
			}
		}
	}()
	a.yield = yield
	for a.at = range a.ops {
		a.learned = 0
		a.do(a.ops[a.at])
	}
	a.at = len(a.ops)
}

// advance lets the process run up to its next call.
func (a *actor) advance() {
	wants, ok := a.next()
	a.wants, a.done = wants, !ok
}

// await waits for the turn of the process.
func (a *actor) await(addr int, f string, args ...any) {
	if a.yield == nil {
		return
	}
	call := fmt.Sprintf(f, args...)
	if addr > 0 {
		call += fmt.Sprintf(" at the address %d", addr)
	}
	if a.dead || !a.yield(call) {
		panic(killed{})
	}
}

// learn notes what a call has brought.
func (a *actor) learn(s string) {
	h := fnv.New64a()
	fmt.Fprint(h, a.learned, a.wants, s)
	a.learned = h.Sum64()
	if s != "" {
		a.w.logf("    %s\n", s)
	}
}

func (w *slotWorld) logf(f string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, f, args...)
	}
}

// violated notes the first rule that is broken.
func (w *slotWorld) violated(f string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(f, args...)
	}
}

// schedService is what processes announce.
const schedService = mad.ServiceID(0x0106_0007) // that of messages

// do is one operation of the process.
func (a *actor) do(op string) {
	w := a.w
	switch op {
	case "open":
		a.l = &Lease{slot: -1, now: func() int64 { return w.now }}
		for i := range w.addrs {
			a.await(i, "meet")
			a.meet(i)
			a.l.sets = append(a.l.sets, a.set(i))
			a.l.services = append(a.l.services, map[mad.ServiceID]int{})
		}
		if a.p().backwards && a.id == 2 { // the same addresses in another order
			slices.Reverse(a.l.sets)
		}
		if err := a.l.take(0); err != nil {
			w.violated("process %d gets no slot: %v", a.id, err)
			return
		}
		a.begins()
	case "hear":
		for i := range a.l.sets {
			_ = a.l.Hear(i)
		}
		a.heard = true
	case "serve":
		_ = a.l.HearRequests(0)
		a.serving = true
	case "announce":
		if a.l.Announce(0, schedService) != nil {
			break
		}
		for _, b := range w.actors {
			if b != a && b.announced && !b.dead {
				w.violated("processes %d and %d have announced one service", b.id, a.id)
			}
		}
		a.announced, a.announces = true, true
	case "withdraw":
		a.announced = false
		a.l.Withdraw(0, schedService)
	case "read":
		for i := range w.addrs {
			a.await(i, "read the socket and the inbox")
			a.read(i)
		}
	case "requests":
		for range w.p.budget.requests {
			a.await(0, "read a request")
			if !a.request() {
				break
			}
		}
	case "close":
		a.ends()
		a.l.Close()
		for i := range w.addrs {
			a.leave(i)
		}
	}
}

func (a *actor) p() *slotProgram { return a.w.p }

func (a *actor) set(i int) *set {
	s := &set{ground: &fakeGround{a, i}, locks: -1,
		address: Address{Addr: netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)})}}
	for k := range s.fds {
		s.fds[k] = -1
	}
	return s
}

// meet gets the descriptors of an address from those who have it, or makes them.
func (a *actor) meet(i int) {
	w := a.w
	if w.addrs[i] == nil {
		w.addrs[i] = newMemoryAndLocks()
		w.lives[i] = [Count]life{} // nobody knows of those before
	}
	w.addrs[i].members++
	a.met++
	a.learn("")
}

// leave gives them back, with all locks.
func (a *actor) leave(i int) {
	m := a.w.addrs[i]
	m.release(a.id, 0, until(0, 0))
	if m.members--; m.members == 0 {
		a.w.addrs[i] = nil
	}
	a.met--
}

// begins is called when the process has its slot.
func (a *actor) begins() {
	w, k := a.w, a.l.slot
	w.logf("    process %d has slot %d\n", a.id, k)
	for _, b := range w.actors {
		if b != a && b.has && !b.dead && b.l.slot == k {
			w.violated("processes %d and %d have slot %d", b.id, a.id, k)
		}
	}
	a.has = true
	for i := range w.lives {
		if old := w.lives[i][k]; old.n > 0 && (!old.over || w.now-old.at < restNs) {
			w.violated("process %d has slot %d, which has not rested", a.id, k)
		}
		w.count++
		w.lives[i][k] = life{n: w.count, owner: a.id}
	}
}

// ends is called when it gives its slot back, or dies.
func (a *actor) ends() {
	w := a.w
	if a.has {
		for i := range w.lives {
			if x := &w.lives[i][a.l.slot]; x.owner == a.id && !x.over {
				x.over, x.at = true, w.now
			}
		}
	}
	a.has, a.heard, a.serving, a.announced = false, false, false, false
}

// read takes what has come for the process.
func (a *actor) read(i int) {
	m, k := a.w.addrs[i], a.l.slot
	for _, d := range m.udp[k] {
		if want := a.w.lives[i][k]; d.life != want.n {
			a.w.violated("process %d reads a packet that is for one before it in slot %d", a.id, k)
		}
	}
	for _, d := range m.inbox[k] {
		a.w.logf("    request %d from the inbox\n", d.n)
		if !a.announces {
			a.w.violated("process %d gets a request for a service that it never announced", a.id)
		}
	}
	m.udp[k], m.inbox[k] = nil, nil
	a.learn("")
}

// request takes a request, and hands it on to whom it is for. It reports whether there was one.
func (a *actor) request() bool {
	m := a.w.addrs[0]
	if len(m.udp[Requests]) == 0 {
		a.learn("none")
		return false
	}
	d := m.udp[Requests][0]
	m.udp[Requests] = slices.Clone(m.udp[Requests][1:])
	a.learn(fmt.Sprintf("request %d", d.n))
	p := edge.RxPacket{
		Data: bytes.Clone(messages(0)[mad.AttrREQ]), SrcPort: uint16(d.n),
		Src: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 2}),
	}
	switch to := a.l.For(0, &p); to {
	case a.l.slot:
		if !a.announced {
			a.w.violated("process %d has a request for itself, and has announced nothing", a.id)
		}
	case Anyone, Nobody:
	default:
		a.l.HandOn(0, to, &p)
		a.l.Flush()
	}
	return true
}

// slotStep is an action.
type slotStep struct {
	kind slotStepKind
	n    uint8 // process, or slot
	call string
}

type slotStepKind uint8

const (
	slotCall slotStepKind = iota
	slotKill
	slotReap // the kernel takes what a dead process has at one address
	slotPacket
	slotRequest
	slotRest
)

func (s slotStep) String() string {
	switch s.kind {
	case slotCall:
		return fmt.Sprintf("process %d: %s", s.n, s.call)
	case slotKill:
		return fmt.Sprintf("process %d is killed", s.n)
	case slotReap:
		return fmt.Sprintf("an address loses process %d", s.n)
	case slotPacket:
		return fmt.Sprintf("a packet for slot %d", s.n)
	case slotRequest:
		return "a request"
	}
	return "2 seconds pass"
}

// Actions implements schedules.World.
func (w *slotWorld) Actions() (acts []slotStep, over bool) {
	for _, a := range w.actors {
		switch {
		case a.dead && a.met > 0:
			acts = append(acts, slotStep{slotReap, uint8(a.id), ""})
		case !a.dead && !a.done:
			acts = append(acts, slotStep{slotCall, uint8(a.id), a.wants})
		}
	}
	over = len(acts) == 0
	for _, a := range w.actors {
		if w.left.kills > 0 && !a.dead && a.met > 0 {
			acts = append(acts, slotStep{slotKill, uint8(a.id), ""})
		}
	}
	if w.left.packets > 0 && w.addrs[0] != nil {
		for k, x := range w.lives[0][:len(w.actors)+1] {
			if x.n > 0 && (!x.over || w.now-x.at < restNs) {
				acts = append(acts, slotStep{slotPacket, uint8(k), ""})
			}
		}
	}
	if w.left.requests > 0 && w.addrs[0] != nil {
		acts = append(acts, slotStep{slotRequest, 0, ""})
	}
	if w.left.rests > 0 && !over {
		acts = append(acts, slotStep{slotRest, 0, ""})
	}
	return acts, over
}

// Do implements schedules.World.
func (w *slotWorld) Do(s slotStep) error {
	switch s.kind {
	case slotCall:
		w.actors[s.n-1].advance()
	case slotKill:
		w.left.kills--
		a := w.actors[s.n-1]
		w.cutOff = w.cutOff || !a.done && a.ops[a.at] == "close"
		a.ends()
		a.dead = true
		a.stop()
	case slotReap:
		a := w.actors[s.n-1]
		for i := range w.addrs { // in the order in which it has met them
			if i == a.reaped {
				a.reaped++
				a.leave(i)
				break
			}
		}
	case slotPacket:
		w.left.packets--
		w.addrs[0].arrive(int(s.n), datagram{life: w.lives[0][s.n].n})
	case slotRequest:
		w.left.requests--
		w.asked++
		w.addrs[0].arrive(Requests, datagram{n: w.asked})
	case slotRest:
		w.left.rests--
		w.now += restNs
	}
	return w.broken
}

// Hash implements schedules.World.
func (w *slotWorld) Hash() uint64 {
	s := schedules.NewState(&schedules.Rules{}, 0)
	s.Word(uint64(w.now))
	s.Add(&w.left)
	s.Add(&w.cutOff)
	s.Add(&w.addrs)
	for i := range w.lives {
		for _, x := range w.lives[i][:len(w.actors)+1] {
			s.Add(&x)
		}
	}
	s.Word(uint64(w.asked))
	for _, a := range w.actors {
		s.Add(&[]int{a.at, a.met, a.reaped})
		s.Add(&[]bool{a.done, a.dead, a.has, a.heard, a.serving, a.announced, a.announces})
		if a.dead || a.done && a.met == 0 {
			continue
		}
		s.Word(a.learned)
		s.Bytes([]byte(a.wants))
		if a.l != nil {
			s.Word(uint64(a.l.slot + 1))
		}
	}
	return s.Sum()
}

// Final implements schedules.World.
func (w *slotWorld) Final() error {
	live := map[int]*actor{}
	serving, closed := false, false
	for _, a := range w.actors {
		if a.dead {
			continue
		}
		if a.has {
			live[a.l.slot] = a
			for i := range w.addrs {
				if a.heard && w.addrs[i].deaf[a.l.slot] {
					return fmt.Errorf("process %d has slot %d, and hears nothing", a.id, a.l.slot)
				}
			}
		}
		serving = serving || a.serving
		closed = closed || a.met == 0 && slices.Contains(a.ops, "serve")
	}
	m := w.addrs[0]
	if m == nil {
		return nil
	}
	if serving && m.deaf[Requests] && !w.cutOff {
		return fmt.Errorf("a process serves, and no request is heard")
	}
	if closed && !serving && !m.deaf[Requests] && w.left.kills == w.p.budget.kills {
		return fmt.Errorf("nobody serves, and requests are kept")
	}
	// Who comes later can have each slot that nobody has, after its rest.
	later := &actor{w: w, id: len(w.actors) + 1}
	l := &Lease{slot: -1, now: func() int64 { return w.now }}
	for i := range w.addrs {
		later.meet(i)
		l.sets = append(l.sets, later.set(i))
	}
	for k := range len(w.actors) + 1 {
		free := false
		for range 3 { // it may have died: that is noticed, and then it rests, at each address
			if free, _, _ = l.try(k); free {
				break
			}
			w.now += restNs
		}
		if free != (live[k] == nil) {
			return fmt.Errorf("slot %d: free: %t, a device has it: %t", k, free, live[k] != nil)
		}
		for i := range w.addrs {
			if free && len(w.addrs[i].udp[k])+len(w.addrs[i].inbox[k]) > 0 {
				return fmt.Errorf("slot %d is not empty", k)
			}
		}
	}
	return nil
}
