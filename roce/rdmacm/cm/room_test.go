package cm

import (
	"slices"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// connBytes is what the owner holds for a connection in these tests: there is room for 227.
const connBytes = 288 << 10

// crowd is a server whose connections take memory, and all that happens to it.
func crowd(t *testing.T, seed uint64, clients int) (w *world, s *node, cs []*node, up map[EventType]int) {
	w = newWorld(t, seed)
	w.delay = 20e6
	s, up = w.node(200, Limits{}), map[EventType]int{}
	count := func(e *Event) { up[e.Type]++ }
	_, err := s.Listen(service, s.addr, 0)
	require.NoError(t, err)
	s.app = func(e *Event) {
		count(e)
		if e.Type == EventRequest {
			a := s.accept("")
			a.Bytes = connBytes
			require.NoError(t, e.Conn.Accept(w.now, a))
		}
	}
	for i := range clients {
		c := w.node(byte(i+1), Limits{})
		c.client()
		cs = append(cs, c)
	}
	return w, s, cs, up
}

// TestCrowd: of a thousand honest clients that come at once none is told that it is connected
// and then given up, and all of them get in.
func TestCrowd(t *testing.T) {
	for _, clients := range []int{1, 8} {
		const conns = 1000
		w, s, cs, up := crowd(t, 1, clients)
		for i := range conns {
			cs[i%clients].connect(s, "")
		}
		most := 0
		for range 100 {
			w.runFor(100e6)
			most = max(most, s.Counts().HalfBytes)
		}
		require.Zero(t, s.Stats().Evicted)
		require.Equal(t, map[EventType]int{EventRequest: conns, EventEstablished: conns}, up)
		for _, c := range cs {
			for _, e := range c.seen {
				require.Equal(t, EventReply, e.Type)
			}
		}
		require.LessOrEqual(t, most, DefaultLimits.HalfOpenBytes)
		require.Greater(t, most, DefaultLimits.HalfOpenBytes/2)
	}
}

// TestCrowdOverBadNetwork: the same, and the network loses one datagram in ten. One that is given
// up for others learns it. (One whose four answers are lost is given up for nobody, and told once.)
func TestCrowdOverBadNetwork(t *testing.T) {
	seeds.Run(t, seeds.Fewer(7), func(t *testing.T, seed uint64) {
		const conns = 600
		w, s, cs, up := crowd(t, seed, 8)
		w.fault = func(*Packet, mad.Attribute, int) []int64 {
			if w.rng.IntN(10) == 0 {
				return nil
			}
			return []int64{0}
		}
		for i := range conns {
			cs[i%8].connect(s, "")
		}
		w.runFor(100e9)
		held := 0
		for _, c := range cs {
			held += c.Counts().Conns
		}
		require.InDelta(t, held, s.Counts().Conns, float64(s.Stats().Timeouts), "%v, %+v", up, s.Stats())
		require.Greater(t, held, conns*9/10)
	})
}

// TestRoomOfSilentPeers: peers that ignore the REP lose their place to requests that wait, the
// oldest first, and not before their time; one that has asked for time is no exception.
func TestRoomOfSilentPeers(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, attacker(0), 0)
	require.NoError(t, err)
	l, err := f.a.Listen(service, f.addr, 0)
	require.NoError(t, err)
	var conns []*Conn
	accept := func() {
		c := f.next()
		require.NoError(t, c.Accept(f.now, Accept{QPN: ib.QPN(77 + len(conns)), Bytes: 16 << 20}))
		conns = append(conns, c)
	}
	full := func() {
		t.Helper()
		require.False(t, l.Takeable())
		_, ok := f.a.PollEvent()
		require.False(t, ok)
	}
	for i := range uint32(4) {
		f.request(attacker(i))
		accept()
		f.now += 100e6
	}
	var b [mad.Bytes]byte
	require.NoError(t, encode(&b, mad.AttrMRA, 1, &mad.MRA{
		LocalCommID: conns[0].remoteID, RemoteCommID: conns[0].localID, Acknowledged: mad.SubjectREP,
		ServiceTimeout: 25,
	}))
	f.a.HandleMAD(f.now, conns[0].remote, f.addr, b[:])
	require.Equal(t, MRARepRcvd, conns[0].State())
	f.request(attacker(5))
	f.request(attacker(6))
	full()
	for i := range 2 {
		due := int64(i)*100e6 + f.a.patience
		for f.now < due {
			at, ok := f.a.NextTimeout()
			require.True(t, ok)
			full()
			f.now = at
			f.a.HandleTimeout(at)
		}
		require.Equal(t, due, f.now)
		e, ok := f.a.PollEvent()
		require.True(t, ok)
		require.Equal(t, EventUnreachable, e.Type)
		require.Equal(t, conns[i], e.Conn)
		accept()
	}
	require.EqualValues(t, 2, f.a.Stats().Evicted)
	f.now += 2e9
	f.a.HandleTimeout(f.now)
	require.EqualValues(t, 2, f.a.Stats().Evicted, "nobody waits")
	require.Equal(t, 4, f.a.Counts().HalfOpen)
}

// TestRoomIsOffered: whatever makes room, the requests that wait for it are offered, of each
// listener; and a listener that is closed waits no more.
func TestRoomIsOffered(t *testing.T) {
	f := newFlooded(t)
	f.a.cfg.Limits.HalfOpen = 1
	a, err := f.a.Listen(service, f.addr, 0)
	require.NoError(t, err)
	b, err := f.a.Listen(sidrService, f.addr, 0)
	require.NoError(t, err)
	for i := range uint32(6) {
		f.request(attacker(i))
	}
	for name, free := range map[string]func(*Conn){
		"established": func(c *Conn) { c.CommEstablished() },
		"destroyed":   func(c *Conn) { c.Destroy(f.now) },
		"rejected":    func(c *Conn) { require.NoError(t, c.Reject(f.now, mad.RejectConsumer, nil, nil)) },
	} {
		e, ok := a.Next()
		require.True(t, ok, name)
		_, ok = a.Next()
		require.False(t, ok, "one is in the owner's hand")
		require.NoError(t, e.Conn.Accept(f.now, Accept{QPN: 77}))
		_, ok = a.Next()
		require.False(t, ok)
		free(e.Conn)
		for e, ok := f.a.PollConnEvent(); ok; e, ok = f.a.PollConnEvent() {
			require.Equal(t, EventEstablished, e.Type)
		}
		l, ok := f.a.PollListener()
		require.True(t, ok, name)
		require.Equal(t, a, l)
	}
	e, ok := a.Next()
	require.True(t, ok)
	e.Conn.Destroy(f.now)
	e, ok = a.Next()
	require.True(t, ok)
	require.NoError(t, e.Conn.Accept(f.now, Accept{QPN: 77}))
	_, ok = a.Next()
	require.False(t, ok)
	require.Len(t, f.a.blocked, 1)
	a.Close()
	require.Empty(t, f.a.blocked)
	b.Close()
}

// TestGreedyPeer: a peer that has all the room and does not answer keeps another one
// waiting for patienceNs, and takes nothing from those that answer.
func TestGreedyPeer(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, f.addr, 0)
	require.NoError(t, err)
	serve := func() (conns []*Conn) {
		for e, ok := f.a.PollEvent(); ok; e, ok = f.a.PollEvent() {
			if e.Type == EventRequest {
				require.NoError(t, e.Conn.Accept(f.now, Accept{QPN: 77, Bytes: 1 << 20}))
				conns = append(conns, e.Conn)
			}
		}
		return conns
	}
	f.request(attacker(1))
	honest := serve()[0]
	honest.CommEstablished()
	for range 200 {
		f.request(attacker(2))
	}
	require.Len(t, serve(), 64-64/keptPart)
	f.request(attacker(3))
	require.Empty(t, serve())
	last := (*Conn)(nil)
	for f.now < 3*patienceNs {
		at, _ := f.a.NextTimeout()
		f.now = at
		f.a.HandleTimeout(at)
		for _, c := range serve() {
			last = c
		}
		require.LessOrEqual(t, f.a.Counts().HalfBytes, DefaultLimits.HalfOpenBytes)
	}
	require.Equal(t, attacker(3), last.Remote())
	require.Equal(t, Established, honest.State())
}

// TestHugeConnection: one that takes more than all the room is by itself.
func TestHugeConnection(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, f.addr, 0)
	require.NoError(t, err)
	for range 2 {
		f.request(attacker(1))
		c := f.next()
		require.NoError(t, c.Accept(f.now, Accept{QPN: 77, Bytes: 2 * DefaultLimits.HalfOpenBytes}))
		f.request(attacker(2))
		_, ok := f.a.PollEvent()
		require.False(t, ok)
		c.Destroy(f.now)
		f.next().Destroy(f.now)
		require.Zero(t, f.a.Counts().HalfBytes)
	}
	require.Empty(t, f.a.peers)
}

// TestGivenUpPeerLearns: a client that believes that it is connected, because every RTU was
// lost, learns that the server has given it up: even if the first REJ is lost.
func TestGivenUpPeerLearns(t *testing.T) {
	for _, lateRTU := range []bool{false, true} {
		w, s, cs, _ := crowd(t, 1, 2)
		rejs := 0
		var late *Packet
		w.fault = func(p *Packet, at mad.Attribute, _ int) []int64 {
			switch {
			case at == mad.AttrRTU && p.Src == cs[0].addr:
				q := *p
				late = &q
				return nil
			case at == mad.AttrREJ:
				if rejs++; rejs == 1 || lateRTU && rejs < 5 {
					return nil
				}
			}
			return []int64{0}
		}
		x := cs[0].connect(s, "")
		w.runFor(100e6)
		require.Equal(t, Established, x.State())
		s.Agent.cfg.Limits.HalfOpenBytes = connBytes
		y := cs[1].connect(s, "")
		w.runFor(1400e6)
		require.Equal(t, Established, y.State())
		require.EqualValues(t, 1, s.Stats().Evicted)
		if lateRTU {
			require.Equal(t, Established, x.State())
			rejs = 10
			s.HandleMAD(w.now, late.Src, late.Dst, late.Data[:])
			w.runFor(100e6)
		}
		told := func(e Event) bool { return e.Type == EventDisconnected }
		require.True(t, slices.ContainsFunc(cs[0].seen, told))
	}
}

// TestHonestClientsInFlood: while thousands of requests a second come from addresses that
// never answer, clients that do get in, by what is left of the patience. When the flood
// is over it is whole again.
func TestHonestClientsInFlood(t *testing.T) {
	seeds.Long(t)
	const honest, beginNs, everyNs, endNs = 50, 2e9, 40e6, 6e9
	rate := int64(max(flood(6000), 2000)) // a second
	w, s, cs, _ := crowd(t, 1, 1)
	w.delay = 100e3
	up := 0
	cs[0].client(func(_ *Conn, e *Event) {
		require.Equal(t, EventReply, e.Type)
		up++
	})
	var b [mad.Bytes]byte
	n := uint32(0)
	var attack func()
	attack = func() {
		n++
		from := &node{w: w, addr: attacker(n)}
		m := mad.REQ{
			LocalCommID: mad.CommID(n), ServiceID: service, CAGUID: mad.GUID(n), QPN: from.qpn(), MTU: ib.MTU1024,
			PKey: ib.PKeyDefault, Private: from.private(s, 1, "flood"),
			Primary: mad.Path{LocalGID: ib.GIDFromAddr(from.addr), RemoteGID: ib.GIDFromAddr(s.addr)},
		}
		require.NoError(t, encode(&b, mad.AttrREQ, mad.TID(n), &m))
		s.HandleMAD(w.now, from.addr, s.addr, b[:])
		if w.now < endNs {
			w.after(1e9/rate, attack)
		}
	}
	w.after(0, attack)
	for i := range int64(honest) {
		w.after(beginNs+i*everyNs, func() { cs[0].connect(s, "") })
	}
	most := 0
	for w.now < endNs {
		w.step()
		s.seen = nil
		most = max(most, s.Counts().HalfBytes)
	}
	require.Equal(t, honest, up)
	require.LessOrEqual(t, most, DefaultLimits.HalfOpenBytes)
	require.Less(t, s.patience, int64(patienceNs)/2)
	w.runFor(60e9)
	require.EqualValues(t, patienceNs, s.patience)
}
