package transport_test

import (
	"crypto/rand"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// node is one device of the example: an engine, memory and a queue pair.
type node struct {
	addr   netip.Addr
	engine *transport.Engine
	region *mem.Region
	cq     *transport.CQ
	qp     *transport.QP
}

func newNode(addr string, buf []byte) *node {
	n := &node{addr: netip.MustParseAddr(addr)}
	table := mem.NewTable(rand.Reader, mem.Limits{})
	pd, err := table.AllocPD()
	check(err)
	n.region, err = table.Register(pd, mem.RegionAttr{Bytes: buf, Access: mem.LocalWrite | mem.RemoteWrite})
	check(err)
	n.engine, err = transport.New(transport.Config{
		GIDs: []netip.Addr{n.addr}, MTU: ib.MTU1024, Mem: table, Rand: rand.Reader,
	})
	check(err)
	n.cq, err = n.engine.CreateCQ(16, nil)
	check(err)
	n.qp, err = n.engine.CreateQP(transport.QPInitAttr{
		Type: ib.RC, PD: pd, SendCQ: n.cq, RecvCQ: n.cq,
		Caps: transport.QPCaps{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	check(err)
	return n
}

// connect takes the queue pair through INIT and RTR to RTS.
func (n *node) connect(to *node) {
	check(n.qp.Modify(0, transport.QPAttr{State: transport.StateInit, PortNum: 1, Access: mem.RemoteWrite},
		transport.AttrState|transport.AttrPKeyIndex|transport.AttrPort|transport.AttrAccess))
	check(n.qp.Modify(0, transport.QPAttr{
		State: transport.StateRTR, AV: transport.AddressVector{DGID: ib.GIDFromAddr(to.addr)},
		PathMTU: ib.MTU1024, DestQPN: to.qp.Number(), MaxDestRdAtomic: 1, MinRNRTimer: 12,
	}, transport.AttrState|transport.AttrAV|transport.AttrPathMTU|transport.AttrDestQPN|
		transport.AttrRQPSN|transport.AttrMaxDestRdAtomic|transport.AttrMinRNRTimer))
	check(n.qp.Modify(0, transport.QPAttr{
		State: transport.StateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1,
	}, transport.AttrState|transport.AttrSQPSN|transport.AttrTimeout|transport.AttrRetryCnt|
		transport.AttrRNRRetry|transport.AttrMaxRdAtomic))
}

// carry is the link: it gives what one engine sends to the other.
func carry(now int64, from, to *node) {
	batch := make([]transport.TxPacket, 16)
	for n := from.engine.PollTransmit(now, batch); n > 0; n = from.engine.PollTransmit(now, batch) {
		for i := range batch[:n] {
			data := append(batch[i].AppendTo(nil), 0, 0, 0, 0) // a real link appends the ICRC
			to.engine.HandlePacket(now, &transport.RxPacket{Src: from.addr, Dst: to.addr, Data: data})
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Two engines, joined by a loop that carries packets: a SEND from one to the
// other. A shell does the same with sockets and a clock.
func ExampleEngine() {
	inbox := make([]byte, 64)
	a, b := newNode("192.0.2.1", []byte("hello, RoCE")), newNode("192.0.2.2", inbox)
	a.connect(b)
	b.connect(a)

	check(b.qp.PostRecv(&transport.RecvWR{ID: 1, SGList: []transport.SGE{
		{Addr: b.region.IOVA(), Length: 64, LKey: b.region.LKey()},
	}}))
	check(a.qp.PostSend(0,
		&transport.SendWR{ID: 2, Opcode: transport.WRSend, Flags: transport.SendSignaled, SGList: []transport.SGE{
			{Addr: a.region.IOVA(), Length: 11, LKey: a.region.LKey()},
		}}))
	carry(0, a, b)
	carry(1000, b, a)

	var wc [1]transport.WC
	for _, n := range []*node{b, a} {
		for n.cq.Poll(wc[:]) > 0 {
			fmt.Println("request", wc[0].ID, wc[0].Status, wc[0].ByteLen, "bytes")
		}
	}
	fmt.Printf("%s\n", inbox[:11])
	// Output:
	// request 1 success 11 bytes
	// request 2 success 11 bytes
	// hello, RoCE
}
