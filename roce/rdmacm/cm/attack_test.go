package cm

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// TestAttackSwarm: a seed draws the bounds of a server and what attackers send to it, in their own
// name, in the name of nobody, and in that of its clients. No bound is ever exceeded, no connection
// of a client ends but by the wish of one of its ends, and when the attack is over all clients have
// got in and nothing is left.
func TestAttackSwarm(t *testing.T) {
	n := 40
	if seeds.Race {
		n = 1 // a seed takes a second there, and nothing here has goroutines
	}
	seeds.Run(t, n, attackSwarm)
}

// siege is a server under attack.
type siege struct {
	*world
	s       *node
	l       *Listener
	limits  Limits
	clients []*node
	held    map[*Conn]bool // that the server's owner has
	wished  map[*Conn]bool // of clients: one of the ends has ended them
	last    []forgedREQ
}

// forgedREQ is what an attacker remembers of a REQ.
type forgedREQ struct {
	from *node
	id   mad.CommID
	tid  mad.TID
	qpn  ib.QPN
}

func attackSwarm(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	g := &siege{world: w, held: map[*Conn]bool{}, wished: map[*Conn]bool{}}
	g.limits = Limits{HalfOpen: 64 + w.rng.IntN(200), PerPeer: 4 + w.rng.IntN(32), Timewait: 8 + w.rng.IntN(100)}
	g.s = w.node(1, g.limits)
	var err error
	g.l, err = g.s.Listen(service, g.s.addr, 1+w.rng.IntN(64))
	require.NoError(t, err)
	if w.rng.IntN(2) == 0 {
		g.l.SetMaxConns(8 + w.rng.IntN(30))
	}
	if w.rng.IntN(2) == 0 {
		g.l.SetMaxUntaken(2 + w.rng.IntN(20))
	}
	rate := 1 + w.rng.IntN(20)
	t.Logf("seed %d: %+v, backlog %d, at most %d, %d not taken, %d forged a millisecond", seed, g.limits,
		g.l.backlog, g.l.maxConns, g.l.maxUntaken, rate)
	g.s.app = g.serve
	up := map[*Conn]bool{}
	for i := range 3 {
		n := w.node(byte(2+i), Limits{})
		g.clients = append(g.clients, n)
		n.app = func(e *Event) { g.client(e, up) }
	}
	const total = 30
	for i := range total {
		w.after(w.rng.Int64N(1500e6), func() {
			n := g.clients[i%len(g.clients)]
			n.connect(g.s, "honest")
		})
	}
	for ms := range int64(1500) {
		w.after(ms*1e6, func() {
			for range rate {
				g.forge()
			}
			w.settle()
			g.check()
		})
	}
	w.run()
	g.check()
	require.Len(t, up, total, "not all clients have got in")
	require.Empty(t, g.held)
	require.Zero(t, g.l.queued+g.l.open+g.l.untaken+g.l.untakenRequests())
	w.checkEmpty()
}

// check compares the accounts with the bounds and with what there is.
func (g *siege) check() {
	l, c := g.l, g.s.Counts()
	require.LessOrEqual(g.t, l.queued, l.backlog)
	require.LessOrEqual(g.t, l.untakenRequests(), l.queued)
	require.LessOrEqual(g.t, c.HalfOpen, g.limits.HalfOpen)
	require.LessOrEqual(g.t, c.Timewait, g.limits.Timewait)
	for _, p := range g.s.peers {
		require.LessOrEqual(g.t, p, g.limits.PerPeer)
	}
	open, untaken := 0, 0
	for x := range g.held {
		if x.open {
			open++
		}
		if x.untaken {
			untaken++
		}
	}
	require.Equal(g.t, open, l.open)
	require.Equal(g.t, untaken, l.untaken)
	if l.maxConns > 0 {
		require.LessOrEqual(g.t, l.open, l.maxConns)
	}
	require.LessOrEqual(g.t, len(g.s.events)+len(g.s.offers), 1)
}

// serve is the application of the server.
func (g *siege) serve(e *Event) {
	c, w := e.Conn, g.world
	switch e.Type {
	case EventRequest:
		g.held[c] = true
		w.after(w.rng.Int64N(5e6), func() {
			switch {
			case e.SIDRReq != nil && c.State() == SIDRReqRcvd:
				require.NoError(w.t, c.AnswerLookup(w.now, LookupAnswer{QPN: 5}))
				g.drop(c)
			case c.State() == ReqRcvd:
				require.NoError(w.t, c.Accept(w.now, g.s.accept("")))
			default:
				g.drop(c)
			}
		})
	case EventEstablished:
		w.after(w.rng.Int64N(50e6), c.Taken)
		if w.rng.IntN(4) == 0 {
			w.after(w.rng.Int64N(500e6), func() { g.drop(c) })
		}
	case EventRejected, EventUnreachable, EventDisconnected:
		if x := g.peer(c); x != nil && x.state == Established {
			require.True(w.t, g.wished[x], "a connection ended that nobody wanted to end")
		}
		w.after(w.rng.Int64N(50e6), func() { g.drop(c) })
	}
}

// peer is the client's end of a connection of the server, if it has one.
func (g *siege) peer(c *Conn) *Conn {
	for _, n := range g.clients {
		if x := n.byID[c.remoteID]; x != nil && n.addr == c.remote {
			return x
		}
	}
	return nil
}

// drop ends the server's interest in a connection.
func (g *siege) drop(c *Conn) {
	if g.held[c] {
		if x := g.peer(c); x != nil {
			g.wished[x] = true
		}
		delete(g.held, c)
		c.Destroy(g.now)
	}
}

// client is the application of a client.
func (g *siege) client(e *Event, up map[*Conn]bool) {
	c, w := e.Conn, g.world
	switch e.Type {
	case EventReply:
		require.NoError(w.t, c.Ready(w.now, nil))
		up[c] = true
		w.after(w.rng.Int64N(500e6), func() {
			g.wished[c] = true
			c.Destroy(w.now)
		})
	case EventDisconnected:
		require.True(w.t, g.wished[c], "a connection ended that nobody wanted to end")
		c.Destroy(w.now)
	case EventRejected, EventUnreachable:
		w.t.Fatalf("a client was told: %v %v", e.Type, e.Reason)
	}
}

// forge sends something to the server that its sender never sent.
func (g *siege) forge() {
	w := g.world
	from := &node{w: w, addr: netipFrom([4]byte{10, 9, 0, byte(w.rng.IntN(200))}), guid: mad.GUID(w.rng.Uint64())}
	victim := g.clients[w.rng.IntN(len(g.clients))]
	if w.rng.IntN(3) == 0 {
		from = victim
	}
	r := forgedREQ{from: from, id: mad.CommID(w.rng.Uint32() | 1), tid: mad.TID(w.rng.Uint64()), qpn: from.qpn()}
	again := len(g.last) > 0 && w.rng.IntN(2) == 0
	if again {
		r = g.last[w.rng.IntN(len(g.last))]
	}
	var at mad.Attribute
	var m putter
	switch w.rng.IntN(8) {
	case 0: // the queue pair and GUID of a connected client
		r.from, r.id = victim, mad.CommID(w.rng.Uint32()|1)
		for _, c := range victim.byID {
			if c.state == Established {
				r.qpn = min(r.qpn, c.localQPN) // one that a second run takes, too
			}
		}
		fallthrough
	case 1, 2, 3:
		g.last = append(g.last, r)
		if len(g.last) > 50 {
			g.last = g.last[1:]
		}
		at, m = mad.AttrREQ, &mad.REQ{
			LocalCommID: r.id, ServiceID: service, CAGUID: r.from.guid, QPN: r.qpn, MTU: ib.MTU1024,
			PKey: ib.PKeyDefault, Private: r.from.private(g.s, 1, "forged"),
			RemoteCMTimeout: ib.TimeoutCode(w.rng.IntN(32)), LocalCMTimeout: ib.TimeoutCode(w.rng.IntN(32)),
			Primary: mad.Path{LocalGID: ib.GIDFromAddr(r.from.addr), RemoteGID: ib.GIDFromAddr(g.s.addr),
				AckTimeout: ib.TimeoutCode(w.rng.IntN(32))},
		}
	case 4, 5: // takes it back
		guid := [8]byte{}
		for i := range guid {
			guid[i] = byte(r.from.guid >> (56 - 8*i))
		}
		at, m = mad.AttrREJ, &mad.REJ{LocalCommID: r.id, Rejected: mad.SubjectOther,
			Reason: mad.RejectTimeout, Info: guid[:], InfoLen: 8}
	case 6:
		at, m = mad.AttrDREP, &mad.DREP{LocalCommID: r.id, RemoteCommID: mad.CommID(w.rng.Uint32())}
	case 7:
		at, m = mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: mad.CommID(w.rng.Uint32()),
			Acknowledged: mad.SubjectREP, ServiceTimeout: 31}
	}
	var b [mad.Bytes]byte
	require.NoError(w.t, encode(&b, at, r.tid, m))
	g.s.HandleMAD(w.now, r.from.addr, g.s.addr, b[:])
}
