package verbs_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// A binding has the completions of a queue in memory that it reads by itself, and is called when
// there is one: here it counts what a write to an eventfd would tell. This is Go; see the
// documentation of Ring for C.
func ExampleCQ_Ring() {
	net := sim.New(sim.Config{Seed: 1})
	la, err := net.Link(netip.MustParseAddr("10.0.0.1"))
	check(err)
	lb, err := net.Link(netip.MustParseAddr("10.0.0.2"))
	check(err)
	a, b := open(verbs.Config{Link: la, Rand: net.Rand()}), open(verbs.Config{Link: lb, Rand: net.Rand()})
	defer b.dev.Close()
	defer a.dev.Close()
	wakes := 0
	cq, err := a.dev.CreateCQWith(16, verbs.CQOptions{Ring: true, OnEvent: func(*verbs.CQ) { wakes++ }})
	check(err)
	qp, err := a.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq})
	check(err)
	peer, err := b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: b.cq})
	check(err)
	check(qp.Connect(peer.LocalInfo(0), nil))
	check(peer.Connect(qp.LocalInfo(0), nil))

	check(cq.RequestNotify(false))
	check(qp.PostSend(&verbs.SendWR{
		ID: 7, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	ring := cq.Ring()
	tail, head := (*atomic.Uint64)(ring), (*atomic.Uint64)(unsafe.Add(ring, 64))
	for tail.Load() == head.Load() {
		cq.Progress()
		net.Step() // in a simulation time passes when somebody lets it
	}
	slot := unsafe.Add(ring, verbs.RingHeaderBytes)
	fmt.Println("wr_id", *(*uint64)(slot), "status", *(*uint32)(unsafe.Add(slot, 8)), "opcode", *(*uint32)(unsafe.Add(slot, 12)))
	head.Store(head.Load() + 1)
	fmt.Println("wakes", wakes)
	check(qp.Close())
	check(cq.Close()) // the memory is gone
	// Output:
	// wr_id 7 status 0 opcode 1
	// wakes 1
}
