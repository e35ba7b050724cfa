package transport_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// node is an engine with registered memory and a connected QP: what a shell
// sets up for one side.
type node struct {
	addr   netip.Addr
	eng    *transport.Engine
	pd     *mem.PD
	region *mem.Region
	cq     *transport.CQ
	qp     *transport.QP
}

func newNode(addr string) *node {
	n := &node{addr: netip.MustParseAddr(addr)}
	table := mem.NewTable(rand.Reader, mem.Limits{})
	n.pd, _ = table.AllocPD()
	n.region, _ = table.Register(n.pd, mem.RegionAttr{
		Bytes: make([]byte, 4096), Access: mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead,
	})
	n.eng, _ = transport.New(transport.Config{
		GIDs: []netip.Addr{n.addr}, MTU: ib.MTU4096, Mem: table, Rand: rand.Reader,
	})
	n.cq, _ = n.eng.CreateCQ(16, nil)
	n.qp, _ = n.eng.CreateQP(transport.QPInitAttr{
		Type: ib.RC, PD: n.pd, SendCQ: n.cq, RecvCQ: n.cq,
		Caps: transport.QPCaps{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return n
}

// connect takes the QP to RTS; both sides have told each other address, QP
// number and first PSN, for example over TCP.
func (n *node) connect(peer *node) error {
	const psn = 0x123456
	for _, step := range []struct {
		to   transport.QPState
		mask transport.AttrMask
	}{
		{transport.StateInit, transport.AttrPKeyIndex | transport.AttrPort | transport.AttrAccess},
		{transport.StateRTR, transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN |
			transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer},
		{transport.StateRTS, transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt |
			transport.AttrRNRRetry | transport.AttrMaxRdAtomic},
	} {
		err := n.qp.Modify(0, transport.QPAttr{
			State: step.to, PortNum: 1, Access: mem.RemoteWrite | mem.RemoteRead,
			AV:      transport.AddressVector{DGID: ib.GIDFromAddr(peer.addr)},
			PathMTU: ib.MTU1024, DestQPN: peer.qp.Number(), RQPSN: psn, SQPSN: psn,
			MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		}, step.mask|transport.AttrState)
		if err != nil {
			return err
		}
	}
	return nil
}

// carry moves what one engine has to send to the other. A link would add IP,
// UDP and the ICRC, and check the ICRC on the other side.
func carry(now int64, from, to *node) {
	batch := make([]transport.TxPacket, 8)
	for n := from.eng.PollTransmit(now, batch); n > 0; n = from.eng.PollTransmit(now, batch) {
		for i := range batch[:n] {
			tx := &batch[i]
			data := append(tx.AppendTo(nil), 0, 0, 0, 0)
			to.eng.HandlePacket(now, &transport.RxPacket{Src: tx.Path.Src, Dst: tx.Path.Dst, Data: data})
		}
	}
}

func (n *node) sge(length uint32) []transport.SGE {
	return []transport.SGE{{Addr: n.region.IOVA(), Length: length, LKey: n.region.LKey()}}
}

// Two engines, and between them nothing but a loop that carries packets.
func Example() {
	a, b := newNode("192.0.2.1"), newNode("192.0.2.2")
	if err := errors.Join(a.connect(b), b.connect(a)); err != nil {
		fmt.Println(err)
		return
	}
	now := int64(0)
	_ = b.qp.PostRecv(now, &transport.RecvWR{ID: 7, SGList: b.sge(100)})

	copy(a.region.Bytes(), "hello, verbs")
	_ = a.qp.PostSend(now, &transport.SendWR{
		ID: 1, Opcode: transport.WRSend, Flags: transport.SendSignaled, SGList: a.sge(12),
	})
	carry(now, a, b) // the SEND
	carry(now, b, a) // its acknowledgement

	var wcs [4]transport.WC
	for _, n := range []*node{b, a} {
		for _, wc := range wcs[:n.cq.Poll(wcs[:])] {
			fmt.Println(wc.ID, wc.Status, wc.ByteLen)
		}
	}
	fmt.Printf("%s\n", b.region.Bytes()[:12])
	// Output:
	// 7 success 12
	// 1 success 12
	// hello, verbs
}

// An RDMA WRITE needs no receive at the other side, only its address and key.
func ExampleQP_PostSend() {
	a, b := newNode("192.0.2.1"), newNode("192.0.2.2")
	_ = errors.Join(a.connect(b), b.connect(a))
	copy(a.region.Bytes(), "one-sided")
	err := a.qp.PostSend(0, &transport.SendWR{
		ID: 1, Opcode: transport.WRWrite, Flags: transport.SendSignaled, SGList: a.sge(9),
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
	n := newNode("192.0.2.1")
	err := n.qp.Modify(0, transport.QPAttr{State: transport.StateInit, PortNum: 2},
		transport.AttrState|transport.AttrPKeyIndex|transport.AttrPort|transport.AttrAccess)
	fmt.Println(err)
	var ae *transport.AttrError
	fmt.Println(errors.As(err, &ae), ae.Attr, n.qp.State())
	// Output:
	// transport: modify RC QP RESET->INIT: port_num: 2, and the device has port 1
	// true port_num RESET
}

// Waiting for a completion: arm, poll once more, and only then sleep.
func ExampleCQ_Arm() {
	a, b := newNode("192.0.2.1"), newNode("192.0.2.2")
	_ = errors.Join(a.connect(b), b.connect(a))
	_ = b.qp.PostRecv(0, &transport.RecvWR{ID: 7})
	b.cq.Arm(true) // for a solicited one
	for _, flags := range []transport.SendFlags{0, transport.SendSolicited} {
		_ = b.qp.PostRecv(0, &transport.RecvWR{ID: 8})
		_ = a.qp.PostSend(0, &transport.SendWR{Opcode: transport.WRSend, Flags: flags})
		carry(0, a, b)
		ev, ok := b.eng.PollEvent()
		fmt.Println(ok, ok && ev.Type == transport.EventCompletion && ev.CQ == b.cq)
	}
	// Output:
	// false false
	// true true
}

// A shared receive queue tells when it runs low.
func ExampleSRQ() {
	n := newNode("192.0.2.1")
	srq, _ := n.eng.CreateSRQ(n.pd, transport.SRQAttr{MaxWR: 16, MaxSGE: 1}, nil)
	for id := range uint64(8) {
		_ = srq.PostRecv(0, &transport.RecvWR{ID: id, SGList: n.sge(64)})
	}
	fmt.Println(srq.Modify(4, -1)) // EventSRQLimitReached when fewer than 4 are left
	fmt.Printf("%+v\n", srq.Query())
	fmt.Println(srq.Modify(-1, 4))
	// Output:
	// <nil>
	// {MaxWR:16 MaxSGE:1 Limit:4}
	// transport: modify SRQ: max_wr: 4 is below the 8 in use
}

// Datagrams go where an address handle says.
func ExampleEngine_CreateAH() {
	n := newNode("192.0.2.1")
	ah, err := n.eng.CreateAH(n.pd, transport.AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.9"))})
	fmt.Println(ah.Query().DGID, err)
	_, err = n.eng.CreateAH(n.pd, transport.AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("2001:db8::9"))})
	fmt.Println(err)
	// Output:
	// 0000:0000:0000:0000:0000:ffff:c000:0209 <nil>
	// transport: create AH: ah_attr.dgid: 2001:db8::9 cannot be reached from 192.0.2.1: another address family
}
