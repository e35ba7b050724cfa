package verbs_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// two makes a connected pair on a virtual network.
func two() (a, b *side, closeBoth func()) {
	net := sim.New(sim.Config{Seed: 1})
	var sides [2]*side
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		l, err := net.Link(netip.MustParseAddr(addr))
		check(err)
		sides[i] = open(verbs.Config{Link: l, Rand: net.Rand()})
	}
	a, b = sides[0], sides[1]
	check(a.qp.Connect(b.qp.LocalInfo(0), nil))
	check(b.qp.Connect(a.qp.LocalInfo(0), nil))
	return a, b, func() { check(a.dev.Close()); check(b.dev.Close()) }
}

// A region may be known by other addresses than those of its bytes; from 0 on,
// for instance, so that the peer's addresses are offsets.
func ExamplePD_RegisterMR() {
	a, b, closeBoth := two()
	defer closeBoth()
	file := []byte("0123456789")
	mr, err := b.pd.RegisterMR(file, roce.RemoteRead, &verbs.MROptions{SetIOVA: true})
	check(err)
	check(a.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRRead, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 3)},
		RemoteAddr: 4, RKey: mr.RKey(),
	}))
	a.done(context.Background())
	fmt.Printf("%s\n", a.mr.Bytes()[:3])
	// Output: 456
}

// A window gives a peer a part of a region, under a key of its own that can be taken back.
func ExampleQP_BindMW() {
	ctx := context.Background()
	a, b, closeBoth := two()
	defer closeBoth()
	mw, err := b.pd.AllocMW(mem.Type2B)
	check(err)
	key, err := b.qp.BindMW(1, mw, b.mr, 100, 50, roce.RemoteWrite, verbs.SendSignaled)
	check(err)
	b.done(ctx)

	write := func(off uint64) verbs.WCStatus {
		check(a.qp.PostSend(&verbs.SendWR{
			Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
			RemoteAddr: b.mr.Addr() + off, RKey: key,
		}))
		var wc [1]verbs.WC
		_, err := a.cq.Wait(ctx, wc[:])
		check(err)
		return wc[0].Status
	}
	fmt.Println("inside: ", write(100))
	fmt.Println("outside:", write(150))
	// Output:
	// inside:  success
	// outside: remote access error
}

// Several queue pairs take their receive requests from one queue, and an event
// tells when it runs low.
func ExampleSRQ() {
	ctx := context.Background()
	a, b, closeBoth := two()
	defer closeBoth()
	srq, err := b.pd.CreateSRQ(verbs.SRQAttr{MaxWR: 8})
	check(err)
	for i := range 4 {
		check(srq.PostRecv(&verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{b.mr.SGE(i*64, 64)}}))
	}
	check(srq.Modify(3, -1)) // when fewer than 3 are left
	for i := range 2 {
		from, err := a.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: a.cq})
		check(err)
		to, err := b.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: b.cq, SRQ: srq})
		check(err)
		check(from.Connect(to.LocalInfo(0), nil))
		check(to.Connect(from.LocalInfo(0), nil))
		check(from.PostSend(&verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, i)}}))
		wc := b.done(ctx)
		fmt.Println("request", wc.ID, "took", wc.ByteLen, "bytes")
	}
	ev, err := b.dev.AsyncEvent(ctx)
	check(err)
	fmt.Println(ev.Type == verbs.EventSRQLimitReached)
	// Output:
	// request 0 took 0 bytes
	// request 1 took 1 bytes
	// true
}

// Datagrams: one queue pair sends to any other, and a receive buffer begins with
// 40 bytes for the global routing header.
func ExampleAH() {
	ctx := context.Background()
	a, b, closeBoth := two()
	defer closeBoth()
	const qkey, grhBytes = 0x1234, 40
	var qps [2]*verbs.QP
	for i, s := range []*side{a, b} {
		qp, err := s.pd.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: s.cq})
		check(err)
		check(qp.Activate(qkey))
		qps[i] = qp
	}
	check(qps[1].PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 100)}}))
	ah, err := a.pd.CreateAHTo(b.dev.GIDs()[0])
	check(err)
	defer ah.Close()
	copy(a.mr.Bytes(), "datagram")
	check(qps[0].PostSend(&verbs.SendWR{
		Opcode: verbs.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
		AH: ah, RemoteQPN: qps[1].Num(), RemoteQKey: qkey,
	}))
	wc := b.done(ctx)
	fmt.Printf("%s\n", b.mr.Bytes()[grhBytes:wc.ByteLen])
	// Output: datagram
}
