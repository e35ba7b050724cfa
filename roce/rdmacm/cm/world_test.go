package cm

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// world is a network of agents in virtual time. What happens depends on the seed alone.
type world struct {
	t     testing.TB
	now   int64
	seq   uint64
	queue delivery
	rng   *rand.Rand
	nodes map[netip.Addr]*node
	order []*node
	delay int64 // one way
	qpns  ib.QPN

	// fault decides on each datagram: when its copies arrive, relative to the
	// usual time; none is a loss. nil: one copy on time.
	fault func(p *Packet, at mad.Attribute, nth int) []int64
	sent  map[mad.Attribute]int // datagrams so far, by message
	log   func(format string, args ...any)
}

// inFlight is a datagram on its way, or something else to happen.
type inFlight struct {
	at  int64
	seq uint64
	p   *Packet
	do  func()
}

type delivery []inFlight

func (d delivery) Len() int { return len(d) }
func (d delivery) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].seq < d[j].seq
}
func (d delivery) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *delivery) Push(x any)   { *d = append(*d, x.(inFlight)) }
func (d *delivery) Pop() any {
	x := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return x
}

// node is an agent with an application.
type node struct {
	*Agent
	w     *world
	addr  netip.Addr
	app   func(e *Event) // nil: the node is switched off
	guid  mad.GUID
	seen  []Event // all events
	muted bool    // cut off from the network
}

const service = mad.ServiceID(mad.PortSpaceTCP)<<16 | 7471

const sidrService = mad.ServiceID(mad.PortSpaceUDP)<<16 | 7471

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), nodes: map[netip.Addr]*node{}, delay: 1e5,
		sent: map[mad.Attribute]int{}, log: func(string, ...any) {},
	}
}

// source makes random bytes from the seed.
type source struct{ *rand.Rand }

func (s source) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return len(b), nil
}

func (w *world) node(last byte, limits Limits) *node {
	n := &node{w: w, addr: netip.AddrFrom4([4]byte{10, 0, 0, last}), guid: mad.GUID(w.rng.Uint64())}
	var err error
	n.Agent, err = New(Config{
		GUID: n.guid, Addrs: []netip.Addr{n.addr}, Rand: source{w.rng}, Limits: limits, MTU: ib.MTU4096,
	})
	require.NoError(w.t, err)
	n.app = func(*Event) {}
	w.nodes[n.addr] = n
	w.order = append(w.order, n)
	return n
}

// at makes something happen later.
func (w *world) after(ns int64, do func()) { w.push(inFlight{at: w.now + ns, do: do}) }

func (w *world) push(x inFlight) {
	w.seq++
	x.seq = w.seq
	heap.Push(&w.queue, x)
}

// settle takes the output of all nodes until there is none.
func (w *world) settle() {
	for again := true; again; {
		again = false
		for _, n := range w.order {
			for e, ok := n.PollEvent(); ok; e, ok = n.PollEvent() {
				again = true
				w.log("%10d %v event %v", w.now, n.addr, e.Type)
				n.seen = append(n.seen, e)
				n.app(&e)
			}
			var p Packet
			for n.PollTransmit(&p) {
				again = true
				w.transmit(n, p)
			}
		}
	}
}

func (w *world) transmit(n *node, p Packet) {
	at := attribute(&p)
	w.sent[at]++
	copies := []int64{0}
	if w.fault != nil {
		copies = w.fault(&p, at, w.sent[at])
	}
	w.log("%10d %v -> %v %v %d", w.now, p.Src, p.Dst, at, copies)
	if n.muted {
		return
	}
	for _, extra := range copies {
		w.push(inFlight{at: w.now + w.delay + extra, p: &p})
	}
}

func attribute(p *Packet) mad.Attribute {
	return mad.Attribute(binary.BigEndian.Uint16(p.Data[16:]))
}

// step lets the next thing happen; false if nothing is left.
func (w *world) step() bool {
	w.settle()
	next := int64(1<<63 - 1)
	var who *node
	for _, n := range w.order {
		if at, ok := n.NextTimeout(); ok && at < next {
			next, who = at, n
		}
	}
	if len(w.queue) > 0 && w.queue[0].at <= next {
		x := heap.Pop(&w.queue).(inFlight)
		require.GreaterOrEqual(w.t, x.at, w.now, "time goes back")
		w.now = x.at
		if x.do != nil {
			x.do()
		} else if n := w.nodes[x.p.Dst]; n != nil && !n.muted {
			n.HandleMAD(w.now, x.p.Src, x.p.Dst, x.p.Data[:])
		}
		w.settle()
		return true
	}
	if who == nil {
		return false
	}
	w.now = max(w.now, next)
	who.HandleTimeout(w.now)
	w.settle()
	return true
}

// run lets everything happen, and checks that it comes to an end.
func (w *world) run() {
	for range 10_000_000 {
		if !w.step() {
			return
		}
	}
	w.t.Fatal("the network does not come to rest")
}

// runFor lets what happens in the next ns happen.
func (w *world) runFor(ns int64) {
	end := w.now + ns
	done := false
	w.push(inFlight{at: end, do: func() { done = true }})
	for !done && w.step() {
	}
}

// request is a good REQ towards to.
func (n *node) request(to *node, private string) Request {
	return Request{
		Local: n.addr, Remote: to.addr, Service: service, QPN: n.qpn(),
		StartingPSN: ib.PSN(n.w.rng.Uint32() & ib.PSNMask), ResponderResources: 4, InitiatorDepth: 4,
		RetryCount: 7, RNRRetryCount: 7, MTU: ib.MTU1024, AckTimeout: 14,
		HopLimit: 64, Private: n.private(to, 4660, private),
	}
}

// private puts the header of RDMA-CM in front of s.
func (n *node) private(to *node, port uint16, s string) []byte {
	b := make([]byte, mad.CMAHeaderBytes)
	h := mad.CMAHeader{SrcPort: port, Src: n.addr, Dst: to.addr}
	require.NoError(n.w.t, h.Put(b))
	return append(b, s...)
}

// qpn returns a number that no other queue pair of the world has.
func (n *node) qpn() ib.QPN {
	n.w.qpns++
	return 100 + n.w.qpns
}

// connect sends a REQ.
func (n *node) connect(to *node, private string) *Conn {
	c, err := n.Connect(n.w.now, n.request(to, private), nil)
	require.NoError(n.w.t, err)
	return c
}

// trace is what happened to one connection at one end.
type trace struct {
	types []EventType
	last  Event
}

func (t *trace) String() string { return fmt.Sprint(t.types) }

// track notes an event of the connection.
func track(c *Conn, e *Event) *trace {
	t, _ := c.UserData.(*trace)
	if t == nil {
		t = &trace{}
		c.UserData = t
	}
	t.types = append(t.types, e.Type)
	t.last = *e
	return t
}

// checkOrder checks that the events of one end make sense: it is established
// at most once, disconnected at most once and only when it was established or
// accepted, and nothing but the end of TIMEWAIT follows an end.
func (t *trace) checkOrder(tb testing.TB) {
	over := false
	count := map[EventType]int{}
	for _, e := range t.types {
		count[e]++
		require.Equal(tb, 1, count[e], "%v twice: %v", e, t)
		require.False(tb, over && e != EventTimewaitExit, "%v after the end: %v", e, t)
		switch e {
		case EventRejected, EventUnreachable, EventDisconnected:
			over = true
		}
	}
}

// serve makes n a server that accepts everything after a delay.
func (n *node) serve(delay int64, opts ...func(c *Conn, e *Event)) *Listener {
	l, err := n.Listen(service, netip.Addr{}, 0)
	require.NoError(n.w.t, err)
	n.app = func(e *Event) {
		track(e.Conn, e)
		if e.Type == EventRequest {
			c := e.Conn
			n.w.after(delay, func() {
				if c.State() == ReqRcvd {
					require.NoError(n.w.t, c.Accept(n.w.now, n.accept("")))
				}
			})
		}
		for _, o := range opts {
			o(e.Conn, e)
		}
	}
	return l
}

func (n *node) accept(private string) Accept {
	return Accept{QPN: n.qpn(), StartingPSN: 1, ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: 7,
		Private: []byte(private)}
}

// client makes n answer replies at once.
func (n *node) client(opts ...func(c *Conn, e *Event)) {
	n.app = func(e *Event) {
		track(e.Conn, e)
		if e.Type == EventReply {
			require.NoError(n.w.t, e.Conn.Ready(n.w.now, nil))
		}
		for _, o := range opts {
			o(e.Conn, e)
		}
	}
}

// checkEmpty checks that nothing is left anywhere.
func (w *world) checkEmpty() {
	for _, n := range w.order {
		c := n.Counts()
		c.Listeners = 0
		require.Equal(w.t, Counts{}, c, "left at %v", n.addr)
	}
}
