package verbs_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// side is one of the two programs that an example plays.
type side struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(cfg verbs.Config) *side {
	s := &side{}
	var err error
	s.dev, err = verbs.Open(cfg)
	check(err)
	s.pd, err = s.dev.AllocPD()
	check(err)
	s.cq, err = s.dev.CreateCQ(64, nil)
	check(err)
	s.mr, err = s.pd.RegisterMR(make([]byte, 4096), verbs.AccessAll, nil)
	check(err)
	s.qp, err = s.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq})
	check(err)
	return s
}

// done waits for one completion.
func (s *side) done(ctx context.Context) verbs.WC {
	var wc [1]verbs.WC
	_, err := s.cq.Wait(ctx, wc[:])
	check(err)
	check(verbs.WCError(&wc[0]))
	return wc[0]
}

// Two devices, usually in two programs on two hosts: connect, WRITE, READ and SEND. What LocalInfo
// and the MR say has to get from one to the other, over TCP for instance.
func Example() {
	ctx := context.Background()
	a := open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.1")}})
	defer a.dev.Close()
	b := open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.2")}})
	defer b.dev.Close()
	check(a.qp.Connect(b.qp.LocalInfo(0), nil))
	check(b.qp.Connect(a.qp.LocalInfo(0), nil))

	copy(a.mr.Bytes(), "written")
	check(a.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 7)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	a.done(ctx)

	check(a.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRRead, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(100, 7)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	a.done(ctx)
	fmt.Printf("read back: %s\n", a.mr.Bytes()[100:107])

	check(b.qp.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	copy(a.mr.Bytes(), "hello")
	check(a.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 5)},
	}))
	wc := b.done(ctx)
	fmt.Printf("received: %s\n", b.mr.Bytes()[:wc.ByteLen])
	// Output:
	// read back: written
	// received: hello
}

// The same on a virtual network, where a tenth of all packets is lost and timeouts take no time.
func Example_simulation() {
	ctx := context.Background()
	net := sim.New(sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.1}})
	var sides [2]*side
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		l, err := net.Link(netip.MustParseAddr(addr))
		check(err)
		sides[i] = open(verbs.Config{Link: l, Rand: net.Rand()})
		defer sides[i].dev.Close()
	}
	a, b := sides[0], sides[1]
	check(a.qp.Connect(b.qp.LocalInfo(0), nil))
	check(b.qp.Connect(a.qp.LocalInfo(0), nil))
	for range 100 {
		check(a.qp.PostSend(&verbs.SendWR{
			Opcode: verbs.WRFetchAdd, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 1,
		}))
		a.done(ctx)
	}
	fmt.Println("counted to", b.mr.Bytes()[0], "with losses:", net.Stats().Lost > 0)
	// Output:
	// counted to 100 with losses: true
}

// A path that loses packets shows in the statistics of its queue pairs.
func ExampleQP_Stats() {
	net := sim.New(sim.Config{Seed: 2, Up: sim.Pipe{Latency: 50_000}})
	var sides [2]*side
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		l, err := net.Link(netip.MustParseAddr(addr))
		check(err)
		sides[i] = open(verbs.Config{Link: l, Rand: net.Rand()})
		defer sides[i].dev.Close()
	}
	a, b := sides[0], sides[1]
	check(a.qp.Connect(b.qp.LocalInfo(0), nil))
	check(b.qp.Connect(a.qp.LocalInfo(0), nil))
	write := func() {
		check(a.qp.PostSend(&verbs.SendWR{
			Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 64)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		}))
		a.done(context.Background())
	}
	write()
	s := a.qp.Stats()
	fmt.Println("round trip of at least 100 µs:", s.SmoothedRTT >= 100*time.Microsecond, "sent again:",
		s.RetransmittedPkts)
	net.SetFaults(a.dev.Addrs()[0], b.dev.Addrs()[0], sim.Faults{Loss: 1})
	net.At(net.Now()+100_000, func() { net.SetFaults(a.dev.Addrs()[0], b.dev.Addrs()[0], sim.Faults{}) })
	write()
	s = a.qp.Stats()
	fmt.Println("sent again:", s.RetransmittedPkts)
	// Output:
	// round trip of at least 100 µs: true sent again: 0
	// sent again: 1
}

func ExampleCompletionChannel() {
	ctx := context.Background()
	net := sim.New(sim.Config{})
	l, err := net.Link(netip.MustParseAddr("10.0.0.1"))
	check(err)
	s := open(verbs.Config{Link: l})
	defer s.dev.Close()
	ch, err := s.dev.CreateCompletionChannel()
	check(err)
	cq, err := s.dev.CreateCQ(16, &verbs.CQOptions{Channel: ch})
	check(err)
	qp, err := s.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq})
	check(err)
	check(qp.ToInit(0))
	check(qp.PostRecv(&verbs.RecvWR{ID: 7}))
	check(cq.RequestNotify(false))
	// A QP in error completes what was posted.
	check(qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState))
	got, err := ch.Get(ctx)
	check(err)
	var wc [4]verbs.WC
	n, err := got.Poll(wc[:])
	check(err)
	fmt.Println(n, wc[0].ID, wc[0].Status)
	// Output: 1 7 Work Request Flushed Error
}
