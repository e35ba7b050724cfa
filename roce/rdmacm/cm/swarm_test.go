package cm

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// TestSwarm runs random networks: a seed draws how bad the network is and what
// the applications do. Safety holds throughout; when the network gets well
// everything comes to an end and nothing is left.
func TestSwarm(t *testing.T) {
	seeds.Run(t, seeds.Fewer(60), swarm)
}

func swarm(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	loss := float64(w.rng.IntN(4)) * 0.1
	dup := float64(w.rng.IntN(4)) * 0.1
	late := float64(w.rng.IntN(4)) * 0.1
	nodes, conns := 2+w.rng.IntN(4), 1+w.rng.IntN(60)
	t.Logf("seed %d: loss %.1f dup %.1f late %.1f, %d nodes, %d connections", seed, loss, dup, late, nodes, conns)
	w.fault = func(*Packet, mad.Attribute, int) []int64 {
		copies := []int64{0}
		if w.rng.Float64() < loss {
			copies = nil
		}
		if w.rng.Float64() < dup {
			copies = append(copies, w.rng.Int64N(500e6))
		}
		if w.rng.Float64() < late {
			copies = append(copies, w.rng.Int64N(900e6))
		}
		return copies
	}
	requests := map[string]*Conn{} // by private data: at most one each, while it is remembered
	both := map[string][2]int{}    // how often each end was established
	name := map[*Conn]string{}
	var all []*node
	for i := range nodes {
		n := w.node(byte(i+1), Limits{})
		all = append(all, n)
		_, err := n.Listen(service, n.addr, 0)
		require.NoError(t, err)
		n.app = func(e *Event) {
			c := e.Conn
			track(c, e).checkOrder(t)
			switch e.Type {
			case EventRequest:
				key := string(e.Private[:8])
				name[c] = key
				if before := requests[key]; before != nil {
					// A REJ that was lost, and repeats that were, make a refused request new.
					require.Equal(t, Idle, before.State(), "request %s came twice", key)
				}
				requests[key] = c
				w.after(w.rng.Int64N(3e9), func() { serverMove(w, n, c) })
			case EventReply:
				w.after(w.rng.Int64N(2e9), func() {
					if c.State() != RepRcvd {
						return
					}
					if w.rng.IntN(10) == 0 {
						require.NoError(t, c.Reject(w.now, mad.RejectConsumer, nil, nil))
						return
					}
					require.NoError(t, c.Ready(w.now, nil))
					b := both[name[c]]
					b[0]++
					both[name[c]] = b
					closeLater(w, c)
				})
			case EventEstablished:
				b := both[name[c]]
				b[1]++
				both[name[c]] = b
				closeLater(w, c)
			case EventRejected, EventUnreachable, EventDisconnected:
				if w.rng.IntN(2) == 0 {
					c.Destroy(w.now)
				}
			}
		}
	}
	for i := range conns {
		from, to := all[w.rng.IntN(nodes)], all[w.rng.IntN(nodes)]
		w.after(w.rng.Int64N(5e9), func() {
			key := fmt.Sprintf("%08d", i)
			c := from.connect(to, key)
			name[c] = key
			if w.rng.IntN(10) == 0 {
				w.after(w.rng.Int64N(1e9), func() { c.Destroy(w.now) })
			}
		})
	}
	w.after(10e9, func() { w.fault = nil })
	w.run()
	for key, b := range both {
		require.LessOrEqual(t, b[0], 1, key)
		require.LessOrEqual(t, b[1], 1, key)
		require.GreaterOrEqual(t, b[0], b[1], "%s: the server was established, and the client was not", key)
	}
	// What the owners still hold makes no difference: the records are gone.
	w.checkEmpty()
}

func serverMove(w *world, n *node, c *Conn) {
	if c.State() != ReqRcvd {
		return
	}
	switch w.rng.IntN(8) {
	case 0:
		require.NoError(w.t, c.Reject(w.now, mad.RejectConsumer, nil, []byte("no")))
	case 1:
		c.Destroy(w.now)
	default:
		require.NoError(w.t, c.Accept(w.now, n.accept("")))
	}
}

func closeLater(w *world, c *Conn) {
	w.after(w.rng.Int64N(4e9), func() {
		if w.rng.IntN(3) == 0 {
			c.Destroy(w.now)
		} else if s := c.State(); s == Established || s == DReqSent || s == Timewait {
			require.NoError(w.t, c.Disconnect(w.now, nil))
		}
	})
}

// TestPeerVanishes cuts a node off after each datagram, in each scenario: the other one gives up in
// bounded time, and nothing is left of it. (A connection that was established and then used by
// nobody is found out by nobody; so the end that is left closes after a while.)
func TestPeerVanishes(t *testing.T) {
	for _, sc := range scenarios {
		for cut := 1; cut < 12; cut++ {
			for who := range 2 {
				w := newWorld(t, 3)
				c, s := w.node(1, Limits{}), w.node(2, Limits{})
				n := 0
				w.fault = func(*Packet, mad.Attribute, int) []int64 {
					if n++; n >= cut {
						w.order[who].muted = true
					}
					return []int64{0}
				}
				sc.start(w, c, s)
				w.after(60e9, func() {
					for _, x := range w.order {
						for _, y := range x.byID {
							y.Destroy(w.now)
						}
					}
				})
				w.run()
				require.Less(t, w.now, int64(180e9), "%s cut at %d", sc.name, cut)
				w.checkEmpty()
			}
		}
	}
}

// TestTenThousand opens and closes 10,000 connections, 500 at a time, over a
// network that loses some of everything, and checks that nothing is left.
func TestTenThousand(t *testing.T) {
	const batch = 500
	total := flood(10_000)
	w := newWorld(t, 99)
	w.fault = func(*Packet, mad.Attribute, int) []int64 {
		switch w.rng.IntN(50) {
		case 0:
			return nil
		case 1:
			return []int64{0, w.rng.Int64N(800e6)}
		}
		return []int64{0}
	}
	c, s := w.node(1, Limits{}), w.node(2, Limits{})
	up := map[*node]int{}
	s.serve(0, func(x *Conn, e *Event) {
		switch e.Type {
		case EventEstablished:
			up[s]++
		case EventTimewaitExit:
			x.Destroy(w.now)
		}
	})
	started := 0
	next := func() {
		if started < total {
			started++
			c.connect(s, fmt.Sprint(started))
		}
	}
	c.client(func(x *Conn, e *Event) {
		switch e.Type {
		case EventReply:
			up[c]++
			w.after(2e9, func() { require.NoError(t, x.Disconnect(w.now, nil)) })
		case EventDisconnected:
			x.Destroy(w.now)
			next()
		}
	})
	for range batch {
		next()
	}
	peak := 0
	for w.step() {
		c.seen, s.seen = nil, nil
		peak = max(peak, s.Counts().Conns)
	}
	require.Equal(t, total, up[c])
	require.Equal(t, total, up[s])
	require.LessOrEqual(t, peak, 2*batch)
	w.checkEmpty()
	require.Zero(t, cap(s.tx)+cap(s.events), "queues hold on to memory")
}

// TestHalfOpenFlood: peers that never answer a REP send REQs far faster than honest ones, from many
// addresses. The bound holds, and all honest clients get in.
func TestHalfOpenFlood(t *testing.T) {
	const limit, honest = 256, 200
	w := newWorld(t, 5)
	s := w.node(2, Limits{HalfOpen: limit, PerPeer: 32})
	s.serve(0)
	peak, waiting := 0, 0
	c := w.node(1, Limits{})
	up := 0
	c.client(func(x *Conn, e *Event) {
		if e.Type == EventReply {
			up++
		}
		require.NotEqual(t, EventUnreachable, e.Type)
		require.NotEqual(t, EventRejected, e.Type)
	})
	// 50 bad REQs for each millisecond, from 200 addresses that do not exist.
	forged := func() {
		var b [mad.Bytes]byte
		src := w.order[0].addr.As4()
		src[2], src[3] = 1, byte(w.rng.IntN(200))
		from := &node{w: w, addr: netipFrom(src), guid: mad.GUID(w.rng.Uint64())}
		r := from.request(s, "flood")
		m := mad.REQ{
			LocalCommID: mad.CommID(w.rng.Uint32() | 1), ServiceID: service, CAGUID: from.guid,
			QPN: from.qpn(), MTU: ib.MTU1024, PKey: ib.PKeyDefault, Private: r.Private,
			Primary: mad.Path{LocalGID: ib.GIDFromAddr(from.addr), RemoteGID: ib.GIDFromAddr(s.addr)},
		}
		require.NoError(t, encode(&b, mad.AttrREQ, mad.TID(w.rng.Uint64()), &m))
		s.HandleMAD(w.now, from.addr, s.addr, b[:])
	}
	ms := int64(flood(2000))
	for ms := range ms {
		w.after(ms*1e6, func() {
			for range 50 {
				forged()
			}
			w.settle()
			n := s.Counts()
			peak, waiting = max(peak, n.HalfOpen), max(waiting, n.Waiting)
			s.seen = nil
		})
	}
	for i := range int64(honest) {
		w.after(i*ms*1e6/honest+1, func() { c.connect(s, "honest") })
	}
	for w.step() {
		s.seen = nil
		if up == honest && w.now > 30e9 {
			break
		}
	}
	require.Equal(t, honest, up)
	require.LessOrEqual(t, peak, limit+1)
	t.Logf("half open at most %d, waiting at most %d, evicted %d, dropped %d", peak, waiting, s.stats.Evicted,
		s.stats.DropBacklog)
	require.NotZero(t, s.stats.Evicted)
	for _, x := range s.byID {
		x.Destroy(w.now)
	}
	for _, x := range c.byID {
		x.Destroy(w.now)
	}
	w.run()
	w.checkEmpty()
}

// TestFloodOfOne: a single address floods. Its own bound stops it, and nobody else notices.
func TestFloodOfOne(t *testing.T) {
	w := newWorld(t, 6)
	s := w.node(2, Limits{PerPeer: 16})
	s.serve(5e9) // a slow application: the backlog fills
	bad, good := w.node(1, Limits{}), w.node(3, Limits{})
	good.client()
	for range 3000 {
		bad.connect(s, "x")
	}
	w.runFor(1e9)
	require.Equal(t, 16, s.Counts().Waiting)
	x := good.connect(s, "y")
	w.runFor(10e9)
	require.Equal(t, Established, x.State())
}
