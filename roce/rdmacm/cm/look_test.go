package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

const lookTestNs = 500e6

// lookers returns two nodes that look after each other, with n connections from the first to the
// second.
func lookers(t *testing.T, n int) (w *world, c, s *node, conns []*Conn) {
	w = newWorld(t, 1)
	c, s = w.node(1, Limits{}), w.node(2, Limits{})
	c.cfg.LookNs, s.cfg.LookNs = lookTestNs, lookTestNs
	s.serve(0)
	c.client()
	for range n {
		conns = append(conns, c.connect(s, ""))
		w.runFor(1e6)
	}
	for _, x := range conns {
		require.Equal(t, Established, x.State())
	}
	return w, c, s, conns
}

// A node that is there is asked at its rate, however many connections there are, and nothing comes
// of it; nor of one that says nothing.
func TestLook(t *testing.T) {
	w, c, s, conns := lookers(t, 20)
	before := w.sent[mad.AttrDREQ]
	w.runFor(10e9)
	require.InDelta(t, 10e9/lookTestNs, w.sent[mad.AttrDREQ]-before, 4, "one asks, and so the other need not")
	require.Zero(t, w.sent[mad.AttrDREP])
	require.NotZero(t, s.Stats().Asked)
	require.Zero(t, s.Stats().DropUnmatched)
	s.muted = true
	w.runFor(100e9)
	for _, x := range conns {
		require.Equal(t, Established, x.State())
	}
	s.muted = false
	for _, x := range conns {
		require.NoError(t, x.Disconnect(w.now, nil))
	}
	w.run() // comes to rest: nobody is left to ask
	w.checkEmpty()
	require.Empty(t, c.looks.nodes)
}

// A node that has forgotten all: each connection ends within two times.
func TestLookFindsRestart(t *testing.T) {
	w, c, s, conns := lookers(t, 300)
	fresh, err := New(Config{GUID: s.guid + 1, Addrs: []netip.Addr{s.addr}, Rand: source{w.rng}})
	require.NoError(t, err)
	s.Agent = fresh
	w.runFor(2*lookTestNs + 1e8)
	for _, x := range conns {
		require.NotEqual(t, Established, x.State())
	}
	gone := 0
	for _, e := range c.seen {
		if e.Type == EventDisconnected {
			require.True(t, e.Gone)
			gone++
		}
	}
	require.Equal(t, len(conns), gone)
	require.EqualValues(t, len(conns), c.Stats().Stale)
}

// Many nodes take turns, so that there are a thousand questions a second at most.
func TestLookAtMany(t *testing.T) {
	const nodes = 1000
	a := newWorld(t, 1).node(1, Limits{}).Agent
	a.cfg.LookNs = lookTestNs
	for i := range nodes {
		c, err := a.newConn(a.cfg.Addrs[0], a.cfg.Addrs[0])
		require.NoError(t, err)
		c.remoteGUID, c.remoteID = mad.GUID(i), mad.CommID(i+1)
		c.setState(Established)
	}
	asked := map[mad.CommID]int{}
	var p Packet
	total := 0
	for {
		at, ok := a.NextTimeout()
		require.True(t, ok)
		if at > 2e9 {
			break
		}
		a.HandleTimeout(at)
		for a.PollTransmit(&p) {
			var m mad.DREQ
			m.Decode((*mad.Data)(p.Data[mad.HeaderBytes:]))
			require.True(t, mad.Asks(p.Data[:]))
			asked[m.RemoteCommID]++
			total++
		}
	}
	require.Len(t, asked, nodes, "each had its turn")
	require.LessOrEqual(t, total, 2000)
}

// A question that comes back is asked again, and the second time all connections to the node are
// over. What does not quote the question itself is nothing.
func TestReturned(t *testing.T) {
	w, c, s, conns := lookers(t, 3)
	s.muted = true
	question := func() (q Packet) {
		t.Helper()
		at, ok := c.lookAt()
		require.True(t, ok)
		c.HandleTimeout(at)
		require.True(t, c.PollTransmit(&q))
		return q
	}
	q := question()
	for n := range len(q.Data) {
		c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: q.Data[:min(n, mad.HeaderBytes+3)]})
	}
	forged := q
	forged.Data[15] ^= 1 // the transaction ID
	c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: forged.Data[:]})
	c.HandleReturned(w.now, edge.Returned{From: c.addr, Quote: q.Data[:]})
	require.Zero(t, c.Stats().Returned)

	c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: q.Data[:64]})
	c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: q.Data[:64]}) // the same counts once
	require.EqualValues(t, 1, c.Stats().Returned)
	for _, x := range conns {
		require.Equal(t, Established, x.State())
	}
	require.True(t, c.PollTransmit(&q), "asked again at once")
	c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: q.Data[:64]})
	for _, x := range conns {
		require.Equal(t, Timewait, x.State())
	}
	require.EqualValues(t, 3, c.Stats().Lost)
}

// A second one that comes much later is a first one.
func TestReturnedTooLate(t *testing.T) {
	w, c, s, conns := lookers(t, 1)
	s.muted = true
	var q Packet
	for range 5 {
		w.now += returnedNs
		c.HandleTimeout(w.now)
		for c.PollTransmit(&q) {
			c.HandleReturned(w.now, edge.Returned{From: s.addr, Quote: q.Data[:]})
			for c.PollTransmit(&q) { // the network lost it
			}
		}
	}
	require.Equal(t, Established, conns[0].State())
}

// A REQ that comes back: nobody is there to refuse it.
func TestReturnedREQ(t *testing.T) {
	w := newWorld(t, 1)
	c, s := w.node(1, Limits{}), w.node(2, Limits{})
	conn, err := c.Connect(0, Request{Local: c.addr, Remote: s.addr, Service: service, QPN: ib.QPN(77)}, nil)
	require.NoError(t, err)
	var q Packet
	require.True(t, c.PollTransmit(&q))
	forged := q
	forged.Data[8] ^= 1
	c.HandleReturned(0, edge.Returned{From: s.addr, Quote: forged.Data[:]})
	require.Equal(t, ReqSent, conn.State())
	c.HandleReturned(0, edge.Returned{From: s.addr, Quote: q.Data[:48]})
	e, ok := c.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventUnreachable, e.Type)
	require.True(t, e.NoPort)
	require.Zero(t, c.Counts().Tables)
}

// The queue pair's retries ask, too, and not at any rate.
func TestSuspect(t *testing.T) {
	w, c, _, conns := lookers(t, 2)
	before := c.Stats().Looks
	for range 1000 {
		conns[0].Suspect(w.now)
		conns[1].Suspect(w.now)
		w.now += 1e5 // 0.1 ms
	}
	require.InDelta(t, 100e6/suspectNs, c.Stats().Looks-before, 2)
}

// A request to a host that no way leads to ends at once. A question about a connection that comes
// back so says nothing: the way may come back.
func TestNoWayToTheHost(t *testing.T) {
	w, c, s, conns := lookers(t, 2)
	s.muted = true
	at, ok := c.lookAt()
	require.True(t, ok)
	c.HandleTimeout(at)
	var q Packet
	require.True(t, c.PollTransmit(&q))
	for range 3 {
		c.HandleReturned(w.now, edge.Returned{From: s.addr, NoHost: true, Quote: q.Data[:64]})
	}
	for _, x := range conns {
		require.Equal(t, Established, x.State())
	}

	_, err := c.Connect(w.now, Request{Local: c.addr, Remote: s.addr, Service: service, QPN: ib.QPN(77)}, nil)
	require.NoError(t, err)
	require.True(t, c.PollTransmit(&q))
	c.HandleReturned(w.now, edge.Returned{From: s.addr, NoHost: true, Quote: q.Data[:64]})
	e, ok := c.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventUnreachable, e.Type)
	require.True(t, e.NoHost)
	require.False(t, e.NoPort)
}
