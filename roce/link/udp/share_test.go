package udp

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// to is a packet for a queue pair.
func (p *pair) to(n ib.QPN, payload []byte) edge.TxPacket {
	tx := edge.TxPacket{Path: p.path, PayloadLen: uint16(len(payload)), Pad: uint8(ib.PadFor(len(payload)))}
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, Pad: tx.Pad, DestQP: n}}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	if len(payload) > 0 {
		tx.Frags[0], tx.NumFrags = payload, 1
	}
	return tx
}

// message is a message of the communication manager to queue pair 1.
func (p *pair) message(at mad.Attribute, put func(*mad.Data) error) edge.TxPacket {
	var b [mad.Bytes]byte
	h := mad.CMHeader(at, 1)
	if err := put(h.Put(&b)); err != nil {
		panic(err)
	}
	tx := edge.TxPacket{Path: p.path, PayloadLen: mad.Bytes, NumFrags: 1}
	tx.Frags[0] = b[:]
	bth := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QPNGSI},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}}
	tx.HeaderLen = uint8(bth.PutHeaders(tx.Header[:]))
	return tx
}

// drain returns what a link has.
func drain(t testing.TB, l *Link) (all []edge.RxPacket) {
	t.Helper()
	rx := make([]edge.RxPacket, 3)
	for {
		require.NoError(t, l.Wait(0)) // notes what is aside, but for requests, of which a thread tells
		l.share.Look = true
		n, err := l.Recv(rx)
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		for _, p := range rx[:n] {
			p.Data = append([]byte(nil), p.Data...)
			all = append(all, p)
		}
	}
}

func dests(ps []edge.RxPacket) (out []ib.QPN) {
	for _, p := range ps {
		var h ib.Packet
		_ = h.Decode(p.Data)
		out = append(out, h.DestQP)
	}
	return out
}

func slotOf(l *Link) ib.Slot { return l.Capabilities().Slot }

// A datagram with packets for several links comes to one of them, which hands the others
// on with all that the datagram said.
func TestStrays(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	c := open(t, p.path.Dst, Options{})
	require.Equal(t, ib.Slot{Index: 0, Bits: slots.Bits}, slotOf(p.b))
	require.Equal(t, ib.Slot{Index: 1, Bits: slots.Bits}, slotOf(c))
	p.path.TrafficClass, p.path.HopLimit = 0x68, 9
	mine, others := slotOf(p.b).QPN(5), slotOf(c).QPN(5)
	nobodys := ib.Slot{Index: 33, Bits: slots.Bits}.QPN(5)
	var batch []edge.TxPacket
	for i := range 10 {
		for _, n := range []ib.QPN{mine, others, others, nobodys, ib.QPNMulticast} {
			batch = append(batch, p.to(n, []byte{byte(i), 1, 2, 3}))
		}
	}
	p.a.Send(batch)
	require.EqualValues(t, 1, p.a.Stats().TxDatagrams)
	got := drain(t, p.b)
	require.Len(t, got, 20, "with those that say nothing of a queue pair")
	require.Subset(t, []ib.QPN{mine, ib.QPNMulticast}, dests(got))
	got = drain(t, c)
	require.Len(t, got, 20)
	for i, x := range got {
		require.Equal(t, others, dests(got)[i])
		require.Equal(t, byte(i/2), x.Data[ib.BTHBytes])
		require.Equal(t, p.path.Src, x.Src)
		require.Equal(t, p.path.Dst, x.Dst)
		require.EqualValues(t, 0x68, x.TrafficClass)
		require.EqualValues(t, 9, x.HopLimit)
		require.EqualValues(t, ib.UDPPort, x.SrcPort)
	}
	b, s := p.b.Stats(), c.Stats()
	require.EqualValues(t, 20, b.RxHandedOn)
	require.EqualValues(t, 10, b.RxNobody)
	require.EqualValues(t, 20, b.RxPackets)
	require.EqualValues(t, 20, s.RxHandedIn)
	require.EqualValues(t, 20, s.RxPackets)
	require.Zero(t, b.RxHandedLost+s.RxHandedLost+b.RxHandedIn+s.RxHandedOn)
	p.path.TrafficClass, p.path.HopLimit, p.path.Link = 0, 64, nil
	p.transfer(t, p.train())
}

// An inbox that is full costs packets, which are counted, and nothing else.
func TestStraysLost(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	c := open(t, p.path.Dst, Options{})
	payload := make([]byte, 4096)
	for range 300 {
		p.a.Send([]edge.TxPacket{p.to(slotOf(p.b).QPN(5), payload), p.to(slotOf(c).QPN(5), payload)})
		drain(t, p.b)
	}
	b := p.b.Stats()
	require.EqualValues(t, 300, b.RxHandedOn)
	require.Positive(t, b.RxHandedLost)
	require.Len(t, drain(t, c), 300-int(b.RxHandedLost))
}

// Requests come to the device that has announced the service, whichever of those that take requests
// reads them; what is about a connection comes to its slot.
func TestRequests(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	c := open(t, p.path.Dst, Options{})
	service := mad.NewServiceID(mad.PortSpaceTCP, 7)
	req := p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: service, MTU: ib.MTU1024}).Put)
	lookup := p.message(mad.AttrSIDRReq, (&mad.SIDRReq{RequestID: 1, ServiceID: service}).Put)
	rep := p.message(mad.AttrREP, (&mad.REP{LocalCommID: 1, RemoteCommID: mad.CommID(slotOf(c).CommID(99))}).Put)
	anyone := p.message(mad.AttrREJ, (&mad.REJ{LocalCommID: 1, Reason: mad.RejectTimeout}).Put)
	send := func(x edge.TxPacket) (toB, toC int) {
		p.a.Send([]edge.TxPacket{x})
		toB, toC = len(drain(t, p.b)), len(drain(t, c))
		return toB + len(drain(t, p.b)), toC
	}
	expect := func(what string, x edge.TxPacket, wantB, wantC int) {
		t.Helper()
		b, c := send(x)
		require.Equal(t, [2]int{wantB, wantC}, [2]int{b, c}, what)
	}
	expect("a message about a connection", rep, 0, 1)
	require.NoError(t, p.b.ServeRequests())
	require.NoError(t, p.b.ServeRequests())
	expect("nobody has the service, b refuses", req, 1, 0)
	require.NoError(t, c.Announce(service, netip.Addr{}))
	require.ErrorIs(t, p.b.Announce(service, netip.IPv4Unspecified()), link.ErrServiceInUse)
	require.ErrorIs(t, p.b.Announce(service, p.path.Dst), syscall.EADDRINUSE)
	require.NoError(t, p.b.Announce(service, p.path.Src), "not an address of the link")
	expect("c does not read requests", req, 0, 1)
	expect("lookup", lookup, 0, 1)
	require.NoError(t, c.ServeRequests())
	for range 20 {
		expect("either reads", req, 0, 1)
	}
	expect("it takes a request back", anyone, 0, 1)
	forged := p.message(mad.AttrREJ, (&mad.REJ{LocalCommID: 2, Reason: mad.RejectTimeout}).Put)
	expect("nobody has such a request", forged, 0, 0)
	require.EqualValues(t, 1, p.b.Stats().RxUnasked+c.Stats().RxUnasked)
	c.Withdraw(service, netip.Addr{})
	require.NoError(t, p.b.Announce(service, p.path.Dst))
	expect("b has it", req, 1, 0)
	require.NoError(t, c.Close())
	p.a.Send([]edge.TxPacket{req})
	require.Len(t, drain(t, p.b), 1, "c is gone")
	require.ErrorIs(t, c.ServeRequests(), link.ErrClosed)
}

// A request comes after the packets that came before it, by a socket of its own or by another
// device: a peer acknowledges one connection and then asks for the next.
func TestRequestsComeAfterEarlierPackets(t *testing.T) {
	p := newPair(t, Options{}, Options{RxBuffers: 3, DisableGRO: true})
	c := open(t, p.path.Dst, Options{RxBuffers: 3, DisableGRO: true})
	require.NoError(t, p.b.ServeRequests())
	send := func(service mad.ServiceID, l *Link) {
		req := p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: service, MTU: ib.MTU1024}).Put)
		for range 20 {
			p.a.Send([]edge.TxPacket{p.to(slotOf(l).QPN(5), make([]byte, 256))})
			p.a.Send([]edge.TxPacket{req})
		}
	}
	inOrder := func(l *Link) {
		t.Helper()
		packets, requests := 0, 0
		for _, d := range dests(drain(t, l)) {
			if d != ib.QPNGSI {
				packets++
				continue
			}
			requests++
			require.GreaterOrEqual(t, packets, requests)
		}
		require.Equal(t, 20, packets)
		require.Equal(t, 20, requests)
	}
	send(1, p.b)
	inOrder(p.b)
	require.NoError(t, c.Announce(2, netip.Addr{}))
	send(2, c)
	require.Empty(t, drain(t, p.b), "handed on")
	inOrder(c)
}

// A flood of requests does not keep packets from a link, nor packets requests.
func TestRequestsAndPacketsTakeTurns(t *testing.T) {
	p := newPair(t, Options{}, Options{RxBuffers: 1, DisableGRO: true, SocketBufferBytes: 64 << 10})
	require.NoError(t, p.b.ServeRequests())
	req := p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)
	flood := func() {
		p.a.Send([]edge.TxPacket{req})
		p.a.Send([]edge.TxPacket{p.to(77, make([]byte, 256))})
	}
	for range 20 {
		flood()
	}
	require.NoError(t, p.b.Wait(0))
	p.b.share.Look = true
	rx := make([]edge.RxPacket, 128)
	last, most := map[ib.QPN]int{}, map[ib.QPN]int{}
	for call := range 5000 {
		flood()
		n, err := p.b.Recv(rx)
		require.NoError(t, err)
		require.NotZero(t, n)
		for _, d := range dests(rx[:n]) {
			last[d] = call
		}
		for _, d := range []ib.QPN{77, ib.QPNGSI} {
			most[d] = max(most[d], call-last[d])
		}
	}
	t.Logf("calls without packets: %d, without requests: %d", most[77], most[ib.QPNGSI])
	require.LessOrEqual(t, most[77], 1)
	require.Less(t, most[ib.QPNGSI], 1000, "a full buffer comes before a request")
}

// A request wakes one of all links that wait for some, and not each.
func TestRequestWakesOne(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	links := []*Link{p.b}
	for range 15 {
		links = append(links, open(t, p.path.Dst, Options{}))
	}
	var wakes atomic.Int64
	var wg sync.WaitGroup
	got, awake := make(chan struct{}), make(chan struct{}, 1000)
	for _, l := range links {
		require.NoError(t, l.ServeRequests())
		require.NoError(t, l.Wait(0)) // for the wake of that
		wg.Go(func() {
			rx := make([]edge.RxPacket, 4)
			for {
				n, err := l.Recv(rx)
				for range n {
					got <- struct{}{}
				}
				if err != nil {
					return
				}
				if n > 0 {
					continue
				}
				if l.Wait(-1) != nil {
					return
				}
				if l.share.herd.there.Load() {
					wakes.Add(1)
				}
				awake <- struct{}{}
			}
		})
	}
	wakeAll := func() {
		for _, l := range links {
			for len(awake) > 0 {
				<-awake
			}
			l.Wake()
			<-awake // so there was time for those that requests woke
		}
	}
	const requests = 10
	req := p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)
	for range requests {
		p.a.Send([]edge.TxPacket{req})
		<-got
		wakeAll()
	}
	woken := wakes.Load()
	for _, l := range links {
		l.local.Life.Fail(link.ErrClosed) // nobody may wait any more
		l.Wake()
	}
	wg.Wait()
	t.Logf("%d wakes for %d requests", woken, requests)
	require.LessOrEqual(t, woken, int64(2*requests))
}

// A request that is younger than the look comes after what its peer sent before, although the
// link's own sockets never run empty.
func TestLookAsideOfOneMoment(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	require.NoError(t, p.b.ServeRequests())
	mine := slotOf(p.b).QPN(5)
	req := p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)
	ask := func() { p.a.Send([]edge.TxPacket{p.to(mine, nil)}); p.a.Send([]edge.TxPacket{req}) }
	var got []ib.QPN
	recv := func(want int) {
		rx := make([]edge.RxPacket, 4)
		n, err := p.b.Recv(rx)
		require.NoError(t, err)
		require.Equal(t, want, n)
		got = append(got, dests(rx[:n])...)
	}
	ask()
	p.b.share.Look = true
	recv(1)
	ask()
	for _, s := range p.b.rx.socks {
		s.before.Empty() // as much was taken as they can hold
	}
	for range 3 {
		recv(1)
	}
	require.Equal(t, []ib.QPN{mine, ib.QPNGSI, mine, ib.QPNGSI}, got)
}

// A link that polls without waiting looks aside now and then.
func TestLookAsideWithoutWait(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	require.NoError(t, p.b.ServeRequests())
	p.a.Send([]edge.TxPacket{p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)})
	rx := make([]edge.RxPacket, 4)
	for range asideTurns {
		if n, err := p.b.Recv(rx); n > 0 {
			require.NoError(t, err)
			return
		}
	}
	t.Fatal("the request was not looked for")
}

// Where addresses cannot be shared a link has them for itself, and a second one is told what to do.
func TestAlone(t *testing.T) {
	for name, sabotage := range map[string]func(t *testing.T, a netip.Addr){
		"no descriptors": func(t *testing.T, a netip.Addr) {
			linktest.FewFiles(t, 100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := loopback()
			sabotage(t, a)
			l := open(t, a, Options{})
			require.Zero(t, slotOf(l))
			require.Contains(t, l.Capabilities().Alone, "too many open files")
			require.NoError(t, l.ServeRequests())
			require.NoError(t, l.Announce(1, netip.Addr{}))
			l.Withdraw(1, netip.Addr{})
			_, err := Open([]netip.Addr{a}, Options{})
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			require.ErrorContains(t, err, "ulimit -n")
			require.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()), "has it for itself")
			p := &pair{a: open(t, loopback(), Options{}), b: l, rng: newPair(t, Options{}, Options{}).rng}
			p.path = linktest.NewPath(p.a, p.b)
			p.transfer(t, p.train())
		})
	}
}

// A process that may not open as many files cannot join those that share an address, and hears why.
func TestCannotJoin(t *testing.T) {
	a := loopback()
	require.Empty(t, open(t, a, Options{}).Capabilities().Alone)
	linktest.FewFiles(t, 100)
	_, err := Open([]netip.Addr{a}, Options{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, a.String()+": the address cannot be shared here")
	require.ErrorContains(t, err, "descriptors at an address, and this process may have")
}

// What the kernel drops since nobody has the slot is counted, once for a device, whatever the
// number of its links.
func TestKernelDropsAreCounted(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	second, err := p.b.Another()
	require.NoError(t, err)
	for range 50 {
		p.a.Send([]edge.TxPacket{p.to(ib.Slot{Index: 9, Bits: slots.Bits}.QPN(5), make([]byte, 1024))})
	}
	s := p.b.Stats()
	require.GreaterOrEqual(t, s.RxNobody, uint64(40))
	require.Zero(t, second.Stats().RxNobody)
	require.NoError(t, second.Close())
	require.NoError(t, p.b.Close())
	require.Equal(t, s, p.b.Stats())
}
