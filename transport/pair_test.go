package transport_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// A pair is two engines in virtual time, joined by a wire whose packets a test
// can see and edit: drop, duplicate, delay, reorder, change. Either engine can
// be missing; then the test plays that peer (see puppet_test.go).
//
// The ICRC is not the engine's business. A packet that a link damages is dropped by the shell, so
// damage is modelled as loss; a change made by onSend is one that the ICRC does not see.
type pair struct {
	t     testing.TB
	now   int64
	delay int64 // one way, ns
	ends  [2]*end
	// flying are the packets on the wire. Tests may edit it between steps.
	flying []*flight
	seq    int
	// onSend sees every packet as it is sent, before it is put on the wire.
	onSend func(*flight)
	path   *transport.Path // of the packet that is being sent
	// hold, if it returns true, keeps the engines from sending for now, as a
	// shell does that handles a batch of packets first.
	hold func() bool
	// together, if set, returns for how long packets wait for others, to be handled as one batch.
	together func() int64
	// log is every packet sent since the last look at it, lost ones included.
	log     []*flight
	logging bool
	conns   map[connKey]*conn
	batch   []transport.TxPacket
	steps   int
	watcher *watcher // nil for none
	tuning  [2]transport.Tuning
	gso     [2]bool // packets of an end come in runs
	pathMTU int

	slowStart bool
}

// end is one side of a pair.
type end struct {
	p      *pair
	i      int
	name   string
	addr   netip.Addr
	eng    *transport.Engine // nil for a puppet
	mem    *mem.Table
	pd     *mem.PD
	region *mem.Region
	buf    []byte // the registered memory
	whole  []byte // buf with its guards
	cq     *transport.CQ
	base   uint64 // address of buf[0] in work requests and on the wire
	inbox  []*flight
	awayTo int64 // until then it handles nothing, and packets wait
	events []transport.Event
	qps    []*transport.QP
}

// flight is a packet on the wire.
type flight struct {
	from   *end
	sent   int64
	at     int64 // when it arrives
	seq    int
	nth    int // how often this opcode and PSN were sent to this QP before
	data   []byte
	rx     transport.RxPacket
	pkt    ib.Packet // decoded from data as sent
	rel    int       // PSN relative to the first one of its direction
	lost   bool
	copies int             // extra copies to deliver
	path   *transport.Path // nil: made up by a test
}

type connKey struct {
	end int
	qpn ib.QPN
}

// conn is what the log needs to know about a QP.
type conn struct {
	rqPSN, sqPSN ib.PSN
	peer         ib.QPN
	seen         map[sending]int
}

// sending names what may be sent more than once.
type sending struct {
	op  ib.Opcode
	psn ib.PSN
}

const (
	guardBytes = 64
	guardByte  = 0xA5
	bufBytes   = 1 << 20
	us         = 1000
	ms         = 1000 * us
	second     = 1000 * ms
)

// guard lies before and after registered memory.
var guard = bytes.Repeat([]byte{guardByte}, guardBytes)

type pairConfig struct {
	mtu    ib.MTU
	tuning [2]transport.Tuning
	v6     bool
	puppet bool // the second end is played by the test
	seed   uint64
	cqe    int
	bytes  int // of memory at each end; 0 for bufBytes
	room   [2]transport.Room
	gso    [2]bool
	mr     mem.Access // of both regions; 0 for everything but FlushPersistent
	tracer transport.Tracer
	// slowStart has windows begin small.
	slowStart bool
}

const allAccess = mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal | mem.MWBind

func newPair(t testing.TB, c pairConfig) *pair {
	t.Helper()
	p := &pair{
		t: t, delay: us, logging: true, conns: map[connKey]*conn{},
		batch: make([]transport.TxPacket, 16), tuning: c.tuning, gso: c.gso, slowStart: c.slowStart,
	}
	if c.mtu == 0 {
		c.mtu = ib.MTU1024
	}
	if c.cqe == 0 {
		c.cqe = 1024
	}
	if c.mr == 0 {
		c.mr = allAccess
	}
	if c.bytes == 0 {
		c.bytes = bufBytes
	}
	addrs := [2]string{"192.0.2.1", "192.0.2.2"}
	if c.v6 {
		addrs = [2]string{"2001:db8::1", "2001:db8::2"}
	}
	for i := range p.ends {
		var seed [32]byte
		seed[0], seed[1], seed[2] = byte(c.seed), byte(c.seed>>8), byte(i)
		binary.LittleEndian.PutUint64(seed[8:], c.seed>>16)
		rng := rand.NewChaCha8(seed)
		e := &end{p: p, i: i, name: string(rune('a' + i)), addr: netip.MustParseAddr(addrs[i]), base: uint64(i+1) << 32}
		p.ends[i] = e
		e.mem = mem.NewTable(rng, mem.Limits{})
		e.whole = make([]byte, c.bytes+2*guardBytes)
		copy(e.whole, guard)
		copy(e.whole[guardBytes+c.bytes:], guard)
		e.buf = e.whole[guardBytes : guardBytes+c.bytes : guardBytes+c.bytes]
		var err error
		e.pd, err = e.mem.AllocPD()
		require.NoError(t, err)
		e.region, err = e.mem.Register(e.pd, mem.RegionAttr{Bytes: e.buf, IOVA: e.base, IOVASet: true, Access: c.mr})
		require.NoError(t, err)
		if c.puppet && i == 1 {
			continue
		}
		e.eng, err = transport.New(transport.Config{
			GIDs: []netip.Addr{e.addr}, MTU: c.mtu, Mem: e.mem, Rand: rng, Tuning: c.tuning[i],
			Tracer: c.tracer, Room: c.room[i], GSO: c.gso[i],
		})
		require.NoError(t, err)
		e.cq, err = e.eng.CreateCQ(c.cqe, nil)
		require.NoError(t, err)
	}
	t.Cleanup(p.close)
	return p
}

// close checks what must hold at the end of any test: not a byte outside the
// registered memory changed, and nothing is left to do.
func (p *pair) close() {
	for _, e := range p.ends {
		e.checkGuards()
		for _, qp := range e.qps {
			_ = qp.Destroy()
		}
		if e.eng != nil {
			_, armed := e.eng.NextTimeout()
			require.False(p.t, armed, "%s: a timer outlived the QPs", e.name)
			require.Zero(p.t, e.eng.RoomUsed(), "%s: room that nobody gives back", e.name)
			require.Zero(p.t, e.eng.PollTransmit(p.now, p.batch), "%s: packets outlived the QPs", e.name)
		}
	}
}

func (e *end) checkGuards() {
	require.Equal(e.p.t, guard, e.whole[:guardBytes], "%s: bytes before the region", e.name)
	require.Equal(e.p.t, guard, e.whole[guardBytes+len(e.buf):], "%s: bytes after the region", e.name)
}

func (e *end) peer() *end { return e.p.ends[1-e.i] }

// sge names length bytes at off of the end's memory.
func (e *end) sge(off, length int) transport.SGE {
	return transport.SGE{Addr: e.base + uint64(off), Length: uint32(length), LKey: e.region.LKey()}
}

// transmit puts what the end has to send on the wire.
func (p *pair) transmit(e *end) {
	if e.eng == nil {
		return
	}
	for {
		n := e.eng.PollTransmit(p.now, p.batch)
		for i := range p.batch[:n] {
			tx := &p.batch[i]
			data := append(tx.AppendTo(nil), 0, 0, 0, 0)
			if tx.UDPPayloadLen() != len(data) {
				p.t.Fatalf("UDPPayloadLen is %d, of %d bytes", tx.UDPPayloadLen(), len(data))
			}
			p.path = tx.Path
			p.put(e, data, tx.Path.Src, tx.Path.Dst, tx.Path.TrafficClass)
			p.path = nil
		}
		if n == 0 {
			return
		}
		p.countStep()
	}
}

// put sends data from e to the other end.
func (p *pair) put(e *end, data []byte, src, dst netip.Addr, tclass uint8) {
	f := &flight{from: e, path: p.path, sent: p.now, at: p.now + p.delay, seq: p.seq, data: data}
	p.seq++
	f.rx = transport.RxPacket{Src: src, Dst: dst, TrafficClass: tclass, HopLimit: 64, InRun: p.gso[e.i]}
	if err := f.pkt.Decode(data); err != ib.DecodeOK {
		p.t.Fatalf("%s sent % x: %v", e.name, data, err)
	}
	c := p.conns[connKey{1 - e.i, f.pkt.DestQP}]
	if c == nil {
		c = &conn{seen: map[sending]int{}}
	}
	if f.pkt.Opcode.Info().Response {
		f.rel = f.pkt.PSN.Diff(c.sqPSN)
	} else {
		f.rel = f.pkt.PSN.Diff(c.rqPSN)
	}
	key := sending{f.pkt.Opcode, f.pkt.PSN}
	f.nth = c.seen[key]
	c.seen[key]++
	if p.onSend != nil {
		p.onSend(f)
	}
	if p.watcher != nil {
		p.watcher.sent(f)
	}
	if p.logging {
		p.log = append(p.log, f)
	}
	if f.lost {
		return
	}
	for range f.copies + 1 {
		p.flying = append(p.flying, f)
	}
}

// pump lets both ends send all they can now.
func (p *pair) pump() {
	for _, e := range p.ends {
		p.transmit(e)
		e.takeEvents()
	}
}

// next returns when something happens next, and the index of the packet that
// arrives then, or -1 if it is a timer.
func (p *pair) next() (at int64, packet int, ok bool) {
	packet = -1
	for i, f := range p.flying {
		t := max(f.at, f.from.peer().awayTo)
		if !ok || t < at || t == at && f.before(p.flying[packet]) {
			at, packet, ok = t, i, true
		}
	}
	for _, e := range p.ends {
		if e.eng == nil {
			continue
		}
		// What has waited comes before the timers that were due meanwhile.
		if t, armed := e.eng.NextTimeout(); armed && (!ok || max(t, e.awayTo) < at) {
			at, packet, ok = max(t, e.awayTo), -1, true
		}
	}
	return at, packet, ok
}

// before is the order of packets that wait.
func (f *flight) before(g *flight) bool {
	return f.at < g.at || f.at == g.at && f.seq < g.seq
}

// step makes the next thing happen unless it is later than limit; it reports whether anything did.
func (p *pair) step(limit int64) bool {
	if p.hold == nil || len(p.flying) == 0 || !p.hold() {
		p.pump()
	}
	at, i, ok := p.next()
	if !ok || at > limit {
		return false
	}
	p.countStep()
	p.now = max(p.now, at)
	if i >= 0 {
		p.deliver(p.arrivals(i)...)
	} else {
		for _, e := range p.ends {
			if e.eng != nil && e.awayTo <= p.now {
				e.eng.HandleTimeout(p.now)
			}
		}
	}
	if p.hold == nil {
		p.pump()
	}
	return true
}

const maxSteps = 5_000_000

// countStep ends a test in which something goes on for ever.
func (p *pair) countStep() {
	if p.steps++; p.steps > maxSteps {
		p.t.Fatalf("no end after %d steps; last packets:\n%s", maxSteps, strings.Join(p.lines(20), "\n"))
	}
}

// take removes packet i from the wire.
func (p *pair) take(i int) *flight {
	f := p.flying[i]
	p.flying = append(p.flying[:i], p.flying[i+1:]...)
	return f
}

// arrivals takes packet i from the wire, and those to the same end that arrive next and soon
// enough.
func (p *pair) arrivals(i int) []*flight {
	fs := []*flight{p.take(i)}
	if p.together == nil {
		return fs
	}
	for until := p.now + p.together(); ; {
		at, i, ok := p.next()
		if !ok || i < 0 || at > until || p.flying[i].from != fs[0].from {
			return fs
		}
		p.now = max(p.now, at)
		fs = append(fs, p.take(i))
	}
}

func (p *pair) deliver(fs ...*flight) {
	to := fs[0].from.peer()
	if to.eng == nil {
		to.inbox = append(to.inbox, fs...)
		return
	}
	batch := make([]transport.RxPacket, len(fs))
	for i, f := range fs {
		if p.watcher != nil {
			p.watcher.arrived(f)
		}
		batch[i] = f.rx
		batch[i].Data = bytes.Clone(f.data)
	}
	to.eng.HandlePackets(p.now, batch)
	for i, f := range fs {
		// The engine must not hold on to the bytes, nor have touched them.
		if !bytes.Equal(f.data, batch[i].Data) {
			p.t.Fatalf("%v: the engine changed the packet", f)
		}
		clear(batch[i].Data)
	}
}

// run goes on until nothing is left to happen: no packet on the wire and no
// timer. Lingering after a fatal NAK takes a while.
func (p *pair) run() {
	for p.step(1 << 62) {
	}
}

// advance runs for d nanoseconds.
func (p *pair) advance(d int64) {
	end := p.now + d
	for p.step(end) {
	}
	p.now = end
}

// settle runs until no packet is on the wire and none is to be sent; timers
// that are due later stay armed.
func (p *pair) settle() {
	p.pump()
	for len(p.flying) > 0 {
		sort.SliceStable(p.flying, func(i, j int) bool { return p.flying[i].at < p.flying[j].at })
		p.step(p.flying[len(p.flying)-1].at)
	}
}
