package packet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// to makes a packet one for a queue pair.
func to(p edge.TxPacket, n ib.QPN) edge.TxPacket {
	binary.BigEndian.PutUint32(p.Header[4:], uint32(n))
	return p
}

// message is a message of the communication manager to queue pair 1.
func message(path *edge.Path, at mad.Attribute, put func(*mad.Data) error) edge.TxPacket {
	var b [mad.Bytes]byte
	h := mad.CMHeader(at, 1)
	if err := put(h.Put(&b)); err != nil {
		panic(err)
	}
	tx := edge.TxPacket{Path: path, PayloadLen: mad.Bytes, NumFrags: 1}
	tx.Frags[0] = b[:]
	bth := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QPNGSI},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}}
	tx.HeaderLen = uint8(bth.PutHeaders(tx.Header[:]))
	return tx
}

// Links of one address get what is for their slots, by frames of their own and by those whose
// first packet is for another; and requests come to who has announced the service.
func TestShare(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	for _, ab := range [][2]netip.Addr{{n.A4, n.B4}, {n.A6, n.B6}} {
		for _, ring := range []bool{true, false} {
			share(t, n, ab[0], ab[1], packet.Options{DisableRing: !ring})
		}
	}
}

func share(t *testing.T, n *linktest.Net, from, at netip.Addr, o packet.Options) {
	open := func(ns *linktest.Namespace, addr netip.Addr) (l *packet.Link) {
		o := o
		o.Addrs = []netip.Addr{addr}
		var err error
		ns.Do(func() { l, err = packet.Open(o) })
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return l
	}
	a, b, c := open(n.A, from), open(n.B, at), open(n.B, at)
	sb, sc := b.Capabilities().Slot, c.Capabilities().Slot
	require.Equal(t, [2]uint8{sb.Index, sc.Index}, [2]uint8{sb.Index, sb.Index + 1})
	r := rand.New(rand.NewPCG(1, 2))
	path := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, path) // resolves the neighbour

	// A frame with packets for both comes to the first one's.
	var forB, forC, mixed []edge.TxPacket
	for i := range 20 {
		p := linktest.Packet(r, path, 64)
		if i%2 == 0 {
			p = to(p, sb.QPN(5))
			forB = append(forB, p)
		} else {
			p = to(p, sc.QPN(5))
			forC = append(forC, p)
		}
		mixed = append(mixed, p)
	}
	before := a.Stats().TxDatagrams
	linktest.SendAll(t, a, mixed)
	datagrams, handedOn := 1, len(forC)
	if linktest.NoRuns(t, a) { // each comes by itself
		datagrams, handedOn = len(mixed), 0
	}
	require.Equal(t, before+uint64(datagrams), a.Stats().TxDatagrams)
	linktest.Await(t, b, forB)
	linktest.Drain(t, b) // the last of the frame, which is handed on
	linktest.Await(t, c, forC)
	require.EqualValues(t, handedOn, b.Stats().RxHandedOn)
	require.EqualValues(t, handedOn, c.Stats().RxHandedIn)
	linktest.SendAll(t, a, forC[:1])
	linktest.Await(t, c, forC[:1])
	require.EqualValues(t, handedOn, c.Stats().RxHandedIn, "this one came by itself")
	linktest.SendAll(t, a, forC[:1])
	linktest.SendAll(t, a, mixed[2:4])
	linktest.Await(t, b, mixed[2:3])
	linktest.Drain(t, b)
	require.NoError(t, c.Wait(0)) // which sees that something was handed on
	linktest.Await(t, c, []edge.TxPacket{forC[0], mixed[3]})

	service := mad.NewServiceID(mad.PortSpaceTCP, 7)
	req := message(path, mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: service, MTU: ib.MTU1024}).Put)
	rep := message(path, mad.AttrREP, (&mad.REP{LocalCommID: 1, RemoteCommID: mad.CommID(sc.CommID(99))}).Put)
	rej := message(path, mad.AttrREJ, (&mad.REJ{LocalCommID: 1, Reason: mad.RejectTimeout}).Put)
	// expect sends a message and then a packet to each, so that what does not come is not waited
	// for.
	expect := func(what string, m edge.TxPacket, toB, toC bool) {
		t.Helper()
		linktest.SendAll(t, a, []edge.TxPacket{m})
		linktest.SendAll(t, a, []edge.TxPacket{forB[0]})
		linktest.SendAll(t, a, []edge.TxPacket{forC[0]})
		for _, x := range []struct {
			l    link.Link
			want bool
			mark edge.TxPacket
		}{{b, toB, forB[0]}, {c, toC, forC[0]}} {
			var all []edge.TxPacket
			if x.want {
				all = append(all, m)
			}
			all = append(all, x.mark)
			for i, rx := range linktest.Receive(t, x.l, len(all)) {
				require.Equal(t, all[i].AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes], "%s: packet %d", what, i)
			}
		}
	}
	expect("about a connection", rep, false, true)
	require.NoError(t, b.ServeRequests())
	require.NoError(t, c.ServeRequests())
	expect("nobody has the service: one refuses", req, true, false)
	expect("nobody got a request", rej, false, false)
	require.EqualValues(t, 1, b.Stats().RxUnasked+c.Stats().RxUnasked, "one counts it")
	require.NoError(t, c.Announce(service, netip.Addr{}))
	require.ErrorIs(t, b.Announce(service, at), syscall.EADDRINUSE)
	expect("c has it", req, false, true)
	expect("for who got the request", rej, false, true)
	c.Withdraw(service, at)
	require.NoError(t, b.Announce(service, at))
	expect("b has it", req, true, false)
	require.NoError(t, b.Close())
	linktest.SendAll(t, a, []edge.TxPacket{req})
	linktest.SendAll(t, a, []edge.TxPacket{forC[0]})
	linktest.Await(t, c, []edge.TxPacket{req, forC[0]})
	require.NoError(t, c.Close())
	require.NoError(t, a.Close())
}

// Where addresses cannot be shared a link has them for itself, and says why, as does the error of
// the next one.
func TestAlone(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	open := func(a netip.Addr) (l *packet.Link, err error) {
		n.A.Do(func() { l, err = packet.Open(packet.Options{Addrs: []netip.Addr{a}}) })
		if err == nil {
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
		return l, err
	}
	l, err := open(n.A4)
	require.NoError(t, err)
	require.Empty(t, l.Capabilities().Alone)
	linktest.FewFiles(t, 100)
	_, err = open(n.A4)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "descriptors at an address, and this process may have")
	l, err = open(n.A6)
	require.NoError(t, err)
	require.Contains(t, l.Capabilities().Alone, "too many open files")
}

// A link of its own gets the packets for any queue pair, and nobody else gets its address.
func TestExclusive(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	a := openPacket(nil).In(t, n.A, n.A4)
	defer a.Close()
	b := openPacket(func(o *packet.Options) { o.Exclusive = true }).In(t, n.B, n.B4)
	defer b.Close()
	require.NotEmpty(t, b.Capabilities().Alone)
	_, err := b.(link.Slotted).Another()
	require.ErrorContains(t, err, b.Capabilities().Alone)
	n.A.Do(func() {
		second, err := a.(link.Slotted).Another()
		require.NoError(t, err)
		require.NotEqual(t, a.Capabilities().Slot, second.Capabilities().Slot)
		require.NoError(t, second.Close())
	})
	path := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, path) // resolves the neighbour
	r := rand.New(rand.NewPCG(4, 4))
	var out []edge.TxPacket
	for i := range 200 { // over all slots
		out = append(out, to(linktest.Packet(r, path, i), ib.QPN(i)<<16|0xabcd))
	}
	linktest.SendAll(t, a, out)
	linktest.Await(t, b, out)
	n.B.Do(func() {
		_, err := packet.Open(packet.Options{Addrs: []netip.Addr{n.B4}})
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	})
}
