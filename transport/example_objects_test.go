package transport_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// sge names the first bytes of a node's memory.
func sge(n *node, length uint32) []transport.SGE {
	return []transport.SGE{{Addr: n.region.IOVA(), Length: length, LKey: n.region.LKey()}}
}

// An RDMA WRITE needs no receive at the other side, only its address and key.
func ExampleQP_PostSend() {
	a, b := newNode("192.0.2.1", make([]byte, 64)), newNode("192.0.2.2", make([]byte, 64))
	a.connect(b)
	b.connect(a)
	copy(a.region.Bytes(), "one-sided")
	err := a.qp.PostSend(0, &transport.SendWR{
		ID: 1, Opcode: transport.WRWrite, Flags: transport.SendSignaled, SGList: sge(a, 9),
		RemoteAddr: b.region.IOVA(), RKey: b.region.RKey(),
	})
	fmt.Println(err)
	carry(0, a, b)
	carry(0, b, a)
	fmt.Printf("%s\n", b.region.Bytes()[:9])
	// Output:
	// <nil>
	// one-sided
}

// A refused Modify says which attribute is at fault, and changes nothing.
func ExampleQP_Modify() {
	n := newNode("192.0.2.1", make([]byte, 64))
	err := n.qp.Modify(0, transport.QPAttr{State: transport.StateInit, PortNum: 2},
		transport.AttrState|transport.AttrPKeyIndex|transport.AttrPort|transport.AttrAccess)
	fmt.Println(err)
	var ae *transport.ArgError
	fmt.Println(errors.As(err, &ae), ae.Arg, n.qp.State())
	// Output:
	// roce: modify RC QP RESET->INIT: port_num: 2, and the device has port 1
	// true port_num RESET
}

// Waiting for a completion: arm, poll once more, and only then sleep.
func ExampleCQ_Arm() {
	a, b := newNode("192.0.2.1", make([]byte, 64)), newNode("192.0.2.2", make([]byte, 64))
	a.connect(b)
	b.connect(a)
	_ = b.qp.PostRecv(&transport.RecvWR{ID: 7})
	b.cq.Arm(true) // for a solicited one
	for _, flags := range []transport.SendFlags{0, transport.SendSolicited} {
		_ = b.qp.PostRecv(&transport.RecvWR{ID: 8})
		_ = a.qp.PostSend(0, &transport.SendWR{Opcode: transport.WRSend, Flags: flags})
		carry(0, a, b)
		ev, ok := b.engine.PollEvent()
		fmt.Println(ok, ok && ev.Type == transport.EventCompletion && ev.CQ == b.cq)
	}
	// Output:
	// false false
	// true true
}

// A shared receive queue tells when it runs low.
func ExampleSRQ() {
	n := newNode("192.0.2.1", make([]byte, 64))
	srq, _ := n.engine.CreateSRQ(n.region.PD(), transport.SRQAttr{MaxWR: 16, MaxSGE: 1}, nil)
	for id := range uint64(8) {
		_ = srq.PostRecv(&transport.RecvWR{ID: id, SGList: sge(n, 64)})
	}
	fmt.Println(srq.Modify(4, -1)) // EventSRQLimitReached when fewer than 4 are left
	fmt.Printf("%+v\n", srq.Query())
	fmt.Println(srq.Modify(-1, 4))
	// Output:
	// <nil>
	// {MaxWR:16 MaxSGE:1 Limit:4}
	// roce: modify SRQ: max_wr: 4 is below the 8 in use
}

// Datagrams go where an address handle says.
func ExampleEngine_CreateAH() {
	n := newNode("192.0.2.1", make([]byte, 64))
	ah, err := n.engine.CreateAH(n.region.PD(),
		transport.AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.9"))})
	fmt.Println(ah.Query().DGID, err)
	_, err = n.engine.CreateAH(n.region.PD(),
		transport.AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("2001:db8::9"))})
	fmt.Println(err)
	// Output:
	// 0000:0000:0000:0000:0000:ffff:c000:0209 <nil>
	// roce: create AH: ah_attr.dgid: 2001:db8::9 cannot be reached from 192.0.2.1: another address family
}
