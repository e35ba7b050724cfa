package fault_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// The first transmission of PSN 5 is lost; the message arrives nevertheless,
// and the counters tell what happened.
func Example() {
	network := sim.New(sim.Config{})
	var faults *fault.Link
	open := func(addr string, wrap func(link.Link) (link.Link, error)) (*verbs.Device, *verbs.QP,
		*verbs.CQ, *verbs.MR) {
		l, err := network.Link(netip.MustParseAddr(addr))
		check(err)
		d, err := verbs.Open(verbs.Config{Link: l, WrapLink: wrap})
		check(err)
		pd, err := d.AllocPD()
		check(err)
		cq, err := d.CreateCQ(16, nil)
		check(err)
		mr, err := pd.RegisterMR(make([]byte, 1<<16), verbs.AccessAll, nil)
		check(err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq})
		check(err)
		qp.SetPSN(0)
		return d, qp, cq, mr
	}
	a, qa, cq, src := open("10.0.0.1", func(l link.Link) (link.Link, error) {
		faults = fault.New(l, fault.Rule{PSN: ib.PSN(5), HasPSN: true, Iteration: 1, Action: fault.Drop})
		return faults, nil
	})
	defer a.Close()
	b, qb, _, dst := open("10.0.0.2", nil)
	defer b.Close()
	check(qa.Connect(qb.LocalInfo(0), nil))
	check(qb.Connect(qa.LocalInfo(0), nil))

	check(qa.PostSend(&verbs.SendWR{
		Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{src.SGE(0, 1<<16)},
		RemoteAddr: dst.Addr(), RKey: dst.RKey(),
	}))
	var wc [1]verbs.WC
	_, err := cq.Wait(context.Background(), wc[:])
	check(err)
	fmt.Println(wc[0].Status, "drops:", faults.Hits(0), "sequence NAKs:", a.Counters().RcvdSeqErr)
	// Output: success drops: 1 sequence NAKs: 1
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
