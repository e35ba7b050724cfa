package main

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// stageRig is a send queue with a ring, whose C half is the test, and the memory of its peer.
type stageRig struct {
	t    *testing.T
	net  *sim.Fabric
	q    *userQP
	cq   *verbs.CQ
	here *verbs.MR
	mem  []byte
	peer *verbs.MR
	ids  []uint64 // of completions
}

const stageRoom = 8

func newStageRig(t *testing.T) *stageRig {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &stageRig{t: t, net: sim.New(sim.Config{Seed: 1}), mem: make([]byte, 64)}
	end := func(addr string, memory []byte) (*verbs.CQ, *verbs.QP, *verbs.MR) {
		l, err := r.net.Link(netip.MustParseAddr(addr))
		must(err)
		d, err := verbs.Open(verbs.Config{Link: l, Rand: r.net.Rand()})
		must(err)
		t.Cleanup(func() { _ = d.Close() })
		pd, err := d.AllocPD()
		must(err)
		cq, err := d.CreateCQ(64, nil)
		must(err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: cq, Caps: verbs.QPCaps{MaxSendWR: stageRoom, MaxInline: 64},
		})
		must(err)
		mr, err := pd.RegisterMR(memory, verbs.AccessAll, nil)
		must(err)
		return cq, qp, mr
	}
	cq, qp, here := end("10.0.0.1", make([]byte, 64))
	_, peer, there := end("10.0.0.2", r.mem)
	must(qp.Connect(peer.LocalInfo(0), nil))
	must(peer.Connect(qp.LocalInfo(0), nil))
	r.cq, r.here, r.peer = cq, here, there
	r.q = &userQP{QP: qp, ctx: &userContext{}, ring: &sendRing{}}
	r.q.ctx.stage.looks = true // the test looks
	return r
}

// put puts in a WRITE of one byte, inline, as the C half does.
func (r *stageRig) put(id uint64, value byte) {
	ring := r.q.ring
	tail := ring.tail.Load()
	s := &ring.slots[tail%uint64(len(ring.slots))]
	*s = sendSlot{id: id, remoteAddr: r.peer.Addr(), rkey: uint32(r.peer.RKey()),
		flags: uint8(verbs.SendInline | verbs.SendSignaled), dataLength: 1}
	s.content[0] = value
	ring.tail.Store(tail + 1)
}

// direct is a call that posts nothing.
func (r *stageRig) direct() {
	r.q.scratch.mu.Lock()
	defer r.q.scratch.mu.Unlock()
	r.q.takeStaged()
	r.q.allowStaging()
}

// settleNet lets all packets arrive, and notes completions.
func (r *stageRig) settleNet() {
	for r.net.Step() {
	}
	wcs := make([]verbs.WC, 64)
	n, err := r.cq.Poll(wcs)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range wcs[:n] {
		if wcs[i].Status != verbs.WCSuccess {
			r.t.Fatal(wcs[i].Status)
		}
		r.ids = append(r.ids, wcs[i].ID)
	}
}

// open opens the ring.
func (r *stageRig) open() {
	r.q.ring.wanted = 1
	r.direct()
	if r.q.ring.open.Load() != 1 {
		r.t.Fatal("not open")
	}
}

func (r *stageRig) expect(what string, got, want uint64) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s is %d, not %d", what, got, want)
	}
}

// What is put in leaves in order, and the limit is what the queue has room for.
func TestStageTakes(t *testing.T) {
	r := newStageRig(t)
	r.direct()
	r.expect("open without being wanted", uint64(r.q.ring.open.Load()), 0)
	r.open()
	r.expect("limit", r.q.ring.limit.Load(), stageRoom)
	for i := range uint64(3) {
		r.put(i+1, byte(i+10))
	}
	r.q.flush()
	r.expect("head", r.q.ring.head.Load(), 3)
	r.expect("limit with 3 on their way", r.q.ring.limit.Load(), stageRoom)
	r.settleNet()
	r.expect("memory", uint64(r.mem[0]), 12)
	r.q.flush()
	r.expect("limit when they have arrived", r.q.ring.limit.Load(), 3+stageRoom)

	// All places of the ring, many times, by calls that post something else, too.
	for id := uint64(4); id < 1000; id++ {
		r.put(id, byte(id))
		if id%stageRoom == 3 {
			r.direct()
			r.settleNet()
			r.expect("memory", uint64(r.mem[0]), uint64(byte(id)))
		}
	}
	r.q.settle()
	r.settleNet()
	for i, id := range r.ids {
		if id != uint64(i+1) {
			t.Fatalf("completion %d is of request %d", i+1, id)
		}
	}
	r.expect("completions", uint64(len(r.ids)), 999)
}

// A burst that did not fit, since the limit is older than what has ended, fits afterwards, and its
// first part has not left by itself.
func TestStageMoreRoom(t *testing.T) {
	r := newStageRig(t)
	r.open()
	for i := range uint64(stageRoom - 2) {
		r.put(i+1, 0)
	}
	r.q.flush()
	r.expect("limit with all but two on their way", r.q.ring.limit.Load(), stageRoom)
	r.put(7, 0)
	r.put(8, 0)
	r.settleNet()
	r.q.moreRoom()
	r.expect("limit when they have arrived", r.q.ring.limit.Load(), stageRoom-2+stageRoom)
	r.expect("head", r.q.ring.head.Load(), stageRoom-2)
	r.q.forgetRing()
	r.q.moreRoom() // there is none
}

// All that a slot says becomes the request.
func TestStageRequest(t *testing.T) {
	s := sendSlot{id: 1, remoteAddr: 2, rkey: 3, imm: 0, opcode: 3, flags: 2 | 4, sges: 2}
	binary.BigEndian.PutUint32((*[4]byte)(unsafe.Pointer(&s.imm))[:], 0x01020304)
	list := (*[2]verbs.SGE)(unsafe.Pointer(&s.content))
	list[0], list[1] = verbs.SGE{Addr: 5, Length: 6, LKey: 7}, verbs.SGE{Addr: 8, Length: 9, LKey: 10}
	wr := s.request()
	if wr.ID != 1 || wr.Opcode != verbs.WRSendImm || wr.Flags != verbs.SendSignaled|verbs.SendSolicited ||
		wr.Imm != 0x01020304 {
		t.Errorf("%+v", wr)
	}
	if wr.RemoteAddr != 2 || wr.RKey != 3 || len(wr.SGList) != 2 || wr.SGList[0] != list[0] ||
		wr.SGList[1] != list[1] || wr.Inline != nil {
		t.Errorf("%+v", wr)
	}
	// Without data inline data is none, and not a list; what makes no sense stays within the slot.
	s.flags, s.sges, s.dataLength = 8, 0, 0
	if wr = s.request(); wr.Inline == nil || len(wr.Inline) != 0 || wr.SGList != nil {
		t.Errorf("%+v", wr)
	}
	s.dataLength = 255
	if wr = s.request(); len(wr.Inline) != len(s.content) {
		t.Errorf("%d bytes", len(wr.Inline))
	}
	s.flags, s.sges, s.opcode = 0, 255, 255
	if wr = s.request(); len(wr.SGList) != 6 {
		t.Errorf("%d pieces", len(wr.SGList))
	}
}

// A request that the program leaves alone is taken at the second look, and closes the ring: the
// next one leaves at once.
func TestStageInVain(t *testing.T) {
	r := newStageRig(t)
	for penalty := range 3 {
		for range 1<<penalty - 1 {
			r.direct()
			r.expect("open after waits in vain", uint64(r.q.ring.open.Load()), 0)
		}
		r.open()
		r.put(uint64(penalty+1), 1)
		r.q.look()
		r.expect("taken at the first look", r.q.ring.head.Load(), uint64(penalty))
		r.q.look()
		r.expect("taken at the second look", r.q.ring.head.Load(), uint64(penalty+1))
		r.expect("open", uint64(r.q.ring.open.Load()), 0)
		r.expect("open rings", uint64(len(r.q.ctx.stage.list())), 0)
		r.settleNet()
	}
	// Many that the program has come back for end that.
	for r.q.ring.open.Load() == 0 {
		r.direct()
	}
	for round := range 2 {
		r.q.ring.limit.Store(1000)
		for range stageRoom {
			r.put(uint64(round), 1)
		}
		r.q.flush()
		r.settleNet()
	}
	if r.q.staged.penalty == 0 {
		t.Error("8 are not many")
	}
	r.q.staged.penalty, r.q.staged.skip = 3, 0
	for range manyStaged { // more than the queue has room for: the C half would not
		r.q.ring.tail.Add(1)
	}
	r.q.flush()
	r.expect("penalty", uint64(r.q.staged.penalty), 0)
}

// A ring that nobody uses is closed, and one that is used is not.
func TestStageCloses(t *testing.T) {
	r := newStageRig(t)
	r.open()
	for i := range uint64(3 * stageLooks) {
		r.put(i, 1)
		r.q.look()
		r.q.flush()
		r.settleNet()
		r.expect("open", uint64(r.q.ring.open.Load()), 1)
	}
	for range stageLooks {
		r.expect("open", uint64(r.q.ring.open.Load()), 1)
		r.q.look()
	}
	r.q.look()
	r.expect("open", uint64(r.q.ring.open.Load()), 0)
	r.expect("open rings", uint64(len(r.q.ctx.stage.list())), 0)
	r.open()
	r.q.forgetRing()
	r.expect("open rings", uint64(len(r.q.ctx.stage.list())), 0)
	r.q.look()
	r.q.flush()
	r.direct()
}

// A queue of which a request is lost ends: the program was told that it is posted.
func TestStageOverfull(t *testing.T) {
	r := newStageRig(t)
	r.open()
	for i := range uint64(stageRoom + 1) {
		r.put(i, 1)
	}
	r.q.flush()
	if s := r.q.State(); s != verbs.StateErr {
		t.Errorf("the queue is in %v", s)
	}
	r.expect("head", r.q.ring.head.Load(), stageRoom+1)
}
