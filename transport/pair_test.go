package transport_test

import (
	"bytes"
	"fmt"
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
// The ICRC is not the engine's business. A packet that a link damages is
// dropped by the shell, so damage is modelled as loss; a change made by
// onSend is one that the ICRC does not see.
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
	// hold, if it returns true, keeps the engines from sending for now, as a
	// shell does that handles a batch of packets first.
	hold func() bool
	// log is every packet sent since the last look at it, lost ones included.
	log     []*flight
	logging bool
	conns   map[connKey]*conn
	batch   []transport.TxPacket
	steps   int
	watcher *watcher // nil for none
	pathMTU int
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
	copies int // extra copies to deliver
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
	mr     mem.Access // of both regions; 0 for everything but FlushPersistent
	tracer transport.Tracer
}

const allAccess = mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal | mem.MWBind

func newPair(t testing.TB, c pairConfig) *pair {
	t.Helper()
	p := &pair{
		t: t, delay: us, logging: true, conns: map[connKey]*conn{},
		batch: make([]transport.TxPacket, 16),
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
	addrs := [2]string{"192.0.2.1", "192.0.2.2"}
	if c.v6 {
		addrs = [2]string{"2001:db8::1", "2001:db8::2"}
	}
	for i := range p.ends {
		var seed [32]byte
		seed[0], seed[1], seed[2] = byte(c.seed), byte(c.seed>>8), byte(i)
		rng := rand.NewChaCha8(seed)
		e := &end{p: p, i: i, name: string(rune('a' + i)), addr: netip.MustParseAddr(addrs[i]), base: uint64(i+1) << 32}
		p.ends[i] = e
		e.mem = mem.NewTable(rng, mem.Limits{})
		e.whole = make([]byte, bufBytes+2*guardBytes)
		copy(e.whole, guard)
		copy(e.whole[guardBytes+bufBytes:], guard)
		e.buf = e.whole[guardBytes : guardBytes+bufBytes : guardBytes+bufBytes]
		var err error
		e.pd, err = e.mem.AllocPD()
		require.NoError(t, err)
		e.region, err = e.mem.Register(e.pd, mem.RegionAttr{Bytes: e.buf, IOVA: e.base, IOVASet: true, Access: c.mr})
		require.NoError(t, err)
		if c.puppet && i == 1 {
			continue
		}
		e.eng, err = transport.New(transport.Config{
			GIDs: []netip.Addr{e.addr}, MTU: c.mtu, Mem: e.mem, Rand: rng, Tuning: c.tuning[i], Tracer: c.tracer,
		})
		require.NoError(t, err)
		e.cq, err = e.eng.CreateCQ(c.cqe, nil)
		require.NoError(t, err)
	}
	t.Cleanup(p.close)
	return p
}

// close checks what must hold at the end of any test: not a byte outside the
// registered memory changed, and nothing holds on to it.
func (p *pair) close() {
	for _, e := range p.ends {
		e.checkGuards()
		for _, qp := range e.qps {
			_ = qp.Destroy()
		}
		if e.eng != nil {
			_, armed := e.eng.NextTimeout()
			require.False(p.t, armed, "%s: a timer outlived the QPs", e.name)
			require.Zero(p.t, e.eng.PollTransmit(p.now, p.batch), "%s: packets outlived the QPs", e.name)
		}
		require.Zero(p.t, e.region.Pins(), "%s: memory is still pinned", e.name)
	}
}

func (e *end) checkGuards() {
	require.Equal(e.p.t, guard, e.whole[:guardBytes], "%s: bytes before the region", e.name)
	require.Equal(e.p.t, guard, e.whole[guardBytes+bufBytes:], "%s: bytes after the region", e.name)
}

func (e *end) peer() *end { return e.p.ends[1-e.i] }

// sge names length bytes at off of the end's memory.
func (e *end) sge(off, length int) transport.SGE {
	return transport.SGE{Addr: e.base + uint64(off), Length: uint32(length), LKey: e.region.LKey()}
}

// link is one QP of a connection with the end that it belongs to.
type link struct {
	*end
	qp     *transport.QP
	attr   transport.QPAttr // as connected
	nextID uint64
}

type linkConfig struct {
	typ    ib.Transport // RC
	attr   func(l *link, a *transport.QPAttr)
	caps   transport.QPCaps
	sigAll bool
	srq    [2]*transport.SRQ
	cq     [2]*transport.CQ // send and receive CQ of either end; nil for the end's own
	until  transport.QPState
}

const (
	testSQPSN0 = ib.PSN(0xFFFFFE) // the PSNs of most tests wrap
	testSQPSN1 = ib.PSN(0x000100)
	puppetQPN  = ib.QPN(0xABCD)
)

// connect makes a QP at each end and connects them.
func (p *pair) connect(c linkConfig) (a, b *link) {
	p.t.Helper()
	if c.typ == 0 {
		c.typ = ib.RC
	}
	if c.caps == (transport.QPCaps{}) {
		c.caps = transport.QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256}
	}
	if c.until == 0 {
		c.until = transport.StateRTS
	}
	var ls [2]*link
	for i, e := range p.ends {
		ls[i] = &link{end: e}
		if e.eng == nil {
			continue
		}
		cq := e.cq
		if c.cq[i] != nil {
			cq = c.cq[i]
		}
		qp, err := e.eng.CreateQP(transport.QPInitAttr{
			Type: c.typ, PD: e.pd, SendCQ: cq, RecvCQ: cq, SRQ: c.srq[i], Caps: c.caps, SigAll: c.sigAll,
		})
		require.NoError(p.t, err)
		ls[i].qp = qp
		e.qps = append(e.qps, qp)
	}
	psn := [2]ib.PSN{testSQPSN0, testSQPSN1}
	for i, l := range ls {
		peer := puppetQPN
		if q := ls[1-i].qp; q != nil {
			peer = q.Number()
		}
		l.attr = transport.QPAttr{
			Access: allAccess &^ mem.MWBind, PortNum: 1, QKey: 0x11111111,
			AV: transport.AddressVector{DGID: ib.GIDFromAddr(l.peer().addr)}, PathMTU: ib.MTU1024,
			DestQPN: peer, RQPSN: psn[1-i], SQPSN: psn[i], MaxRdAtomic: 4, MaxDestRdAtomic: 4,
			MinRNRTimer: 12, Timeout: 8, RetryCnt: 7, RNRRetry: 7, // 1 ms
		}
	}
	for _, l := range ls {
		if c.attr != nil {
			c.attr(l, &l.attr)
		}
		if l.qp != nil {
			l.bringUp(c.until)
		}
	}
	return ls[0], ls[1]
}

// bringUp takes a QP in RESET through the states with the link's attributes.
func (l *link) bringUp(until transport.QPState) {
	steps := map[ib.Transport][3]transport.AttrMask{
		ib.RC: {
			transport.AttrAccess,
			transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN | transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer,
			transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt | transport.AttrRNRRetry | transport.AttrMaxRdAtomic | transport.AttrWindow,
		},
		ib.UC: {
			transport.AttrAccess,
			transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN,
			transport.AttrSQPSN,
		},
		ib.UD: {transport.AttrQKey, 0, transport.AttrSQPSN},
	}[l.qp.Type()]
	steps[0] |= transport.AttrPKeyIndex | transport.AttrPort
	for i, s := range []transport.QPState{transport.StateInit, transport.StateRTR, transport.StateRTS} {
		if s > until {
			break
		}
		a := l.attr
		a.State = s
		require.NoError(l.p.t, l.qp.Modify(l.p.now, a, transport.AttrState|steps[i]))
	}
	l.register()
}

// register tells the log where the PSNs of the link start.
func (l *link) register() {
	l.p.conns[connKey{l.i, l.qp.Number()}] = &conn{rqPSN: l.attr.RQPSN, sqPSN: l.attr.SQPSN, peer: l.attr.DestQPN, seen: map[sending]int{}}
	l.p.pathMTU = l.attr.PathMTU.Bytes()
}

// post posts a work request; it is signalled and has an ID unless one was set.
func (l *link) post(wr transport.SendWR) uint64 {
	l.p.t.Helper()
	id, err := l.tryPost(wr)
	require.NoError(l.p.t, err)
	return id
}

func (l *link) tryPost(wr transport.SendWR) (uint64, error) {
	if wr.ID == 0 {
		l.nextID++
		wr.ID = l.nextID
	}
	wr.Flags |= transport.SendSignaled
	return wr.ID, l.qp.PostSend(l.p.now, &wr)
}

// recv posts a receive into length bytes at off.
func (l *link) recv(id uint64, off, length int) {
	l.p.t.Helper()
	wr := transport.RecvWR{ID: id}
	if length > 0 {
		wr.SGList = []transport.SGE{l.sge(off, length)}
	}
	require.NoError(l.p.t, l.qp.PostRecv(l.p.now, &wr))
}

// Work requests on the whole memory of either end: off is that of both the
// local and the remote bytes unless said otherwise.

func (l *link) send(off, n int) transport.SendWR {
	return transport.SendWR{Opcode: transport.WRSend, SGList: []transport.SGE{l.sge(off, n)}}
}

func (l *link) write(off, roff, n int) transport.SendWR {
	return transport.SendWR{Opcode: transport.WRWrite, SGList: []transport.SGE{l.sge(off, n)},
		RemoteAddr: l.peer().base + uint64(roff), RKey: l.peer().region.RKey()}
}

func (l *link) read(off, roff, n int) transport.SendWR {
	wr := l.write(off, roff, n)
	wr.Opcode = transport.WRRead
	return wr
}

func (l *link) fetchAdd(off, roff int, add uint64) transport.SendWR {
	wr := l.write(off, roff, 8)
	wr.Opcode, wr.CompareAdd = transport.WRFetchAdd, add
	return wr
}

func (l *link) compareSwap(off, roff int, cmp, swap uint64) transport.SendWR {
	wr := l.write(off, roff, 8)
	wr.Opcode, wr.CompareAdd, wr.Swap = transport.WRCompareSwap, cmp, swap
	return wr
}

func with(wr transport.SendWR, change func(*transport.SendWR)) transport.SendWR {
	change(&wr)
	return wr
}

// fill writes a pattern that depends on the seed into the end's memory.
func (e *end) fill(off, n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	for i := range e.buf[off : off+n] {
		e.buf[off+i] = byte(rng.Uint32())
	}
	return e.buf[off : off+n]
}

// poll returns all completions of the end's CQ.
func (e *end) poll() []transport.WC { return pollCQ(e.cq) }

func pollCQ(cq *transport.CQ) []transport.WC {
	var all []transport.WC
	var buf [16]transport.WC
	for n := cq.Poll(buf[:]); n > 0; n = cq.Poll(buf[:]) {
		all = append(all, buf[:n]...)
	}
	return all
}

// wantWC polls and compares ID and status, as in "1 success".
func (e *end) wantWC(want ...string) []transport.WC {
	e.p.t.Helper()
	wcs := e.poll()
	var got []string
	for _, wc := range wcs {
		got = append(got, fmt.Sprintf("%d %v", wc.ID, wc.Status))
	}
	require.Equal(e.p.t, want, got, "completions of %s", e.name)
	return wcs
}

// wantEvents compares the types of all events since the last look.
func (e *end) wantEvents(want ...transport.EventType) {
	e.p.t.Helper()
	e.takeEvents()
	var got []transport.EventType
	for _, ev := range e.events {
		got = append(got, ev.Type)
	}
	e.events = nil
	require.Equal(e.p.t, want, got, "events of %s", e.name)
}

func (e *end) takeEvents() {
	if e.eng == nil {
		return
	}
	for ev, ok := e.eng.PollEvent(); ok; ev, ok = e.eng.PollEvent() {
		e.events = append(e.events, ev)
	}
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
			p.put(e, data, tx.Path.Src, tx.Path.Dst, tx.Path.TrafficClass)
		}
		if n == 0 {
			return
		}
		p.countStep()
	}
}

// put sends data from e to the other end.
func (p *pair) put(e *end, data []byte, src, dst netip.Addr, tclass uint8) {
	f := &flight{from: e, sent: p.now, at: p.now + p.delay, seq: p.seq, data: data}
	p.seq++
	f.rx = transport.RxPacket{Src: src, Dst: dst, TrafficClass: tclass, HopLimit: 64}
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
		if !ok || f.at < at || packet >= 0 && f.at == at && f.seq < p.flying[packet].seq {
			at, packet, ok = f.at, i, true
		}
	}
	for _, e := range p.ends {
		if e.eng == nil {
			continue
		}
		if t, armed := e.eng.NextTimeout(); armed && (!ok || t < at) {
			at, packet, ok = t, -1, true
		}
	}
	return at, packet, ok
}

// step makes the next thing happen unless it is later than limit; it reports
// whether anything did.
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
		f := p.flying[i]
		p.flying = append(p.flying[:i], p.flying[i+1:]...)
		p.deliver(f)
	} else {
		for _, e := range p.ends {
			if e.eng != nil {
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

func (p *pair) deliver(f *flight) {
	to := f.from.peer()
	if to.eng == nil {
		to.inbox = append(to.inbox, f)
		return
	}
	if p.watcher != nil {
		p.watcher.arrived(f)
	}
	rx := f.rx
	rx.Data = append([]byte(nil), f.data...)
	to.eng.HandlePacket(p.now, &rx)
	// The engine must not hold on to the bytes, nor have touched them.
	if !bytes.Equal(f.data, rx.Data) {
		p.t.Fatalf("%v: the engine changed the packet", f)
	}
	clear(rx.Data)
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

// lines returns the last n packets as text.
func (p *pair) lines(n int) []string {
	var all []string
	for _, f := range p.log[max(0, len(p.log)-n):] {
		all = append(all, f.String())
	}
	return all
}

// history returns the last n packets of the connection that f belongs to, with
// the times in microseconds at which they were sent and would arrive.
func (p *pair) history(f *flight, n int) string {
	key := connKey{1 - f.from.i, f.pkt.DestQP}
	other := connKey{f.from.i, p.conns[key].peer}
	var all []string
	for _, l := range p.log {
		if k := (connKey{1 - l.from.i, l.pkt.DestQP}); k == key || k == other {
			all = append(all, fmt.Sprintf("%10.1f..%-10.1f %v", float64(l.sent)/us, float64(l.at)/us, l))
		}
	}
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// wantWire compares the packets sent since the last look, one a line, lost
// ones included, and forgets them. Blank lines and indentation do not matter.
func (p *pair) wantWire(want string) {
	p.t.Helper()
	got := strings.Join(p.lines(len(p.log)), "\n")
	p.log = p.log[:0]
	var lines []string
	for _, l := range strings.Split(want, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	require.Equal(p.t, strings.Join(lines, "\n"), got)
}

// String prints the packet with its PSN relative to the start of its
// direction, as "a> SEND LAST 1 100B imm=0x5 A S", or as
// "b> ACKNOWLEDGE 1 ACK msn=1".
func (f *flight) String() string {
	var s strings.Builder
	k := &f.pkt
	info := k.Opcode.Info()
	name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(info.Name, "RC "), "UC "), "UD ")
	fmt.Fprintf(&s, "%s> %s %d", f.from.name, name, f.rel)
	if info.Payload != ib.PayloadNone {
		fmt.Fprintf(&s, " %dB", len(k.Payload))
	}
	has := k.Opcode.Has
	va := func(va uint64, rest string) {
		fmt.Fprintf(&s, " +%#x%s", va-f.from.peer().base, rest)
	}
	if has(ib.HasRETH) {
		va(k.RETH.VA, fmt.Sprintf("/%d", k.RETH.Len))
	}
	if has(ib.HasAtomicETH) {
		va(k.Atomic.VA, fmt.Sprintf(" %#x,%#x", k.Atomic.Compare, k.Atomic.SwapAdd))
	}
	if has(ib.HasFETH) {
		fmt.Fprintf(&s, " feth=%#x", uint32(k.FETH))
	}
	if has(ib.HasDETH) {
		fmt.Fprintf(&s, " qkey=%#x", uint32(k.DETH.QKey))
	}
	if has(ib.HasAETH) {
		fmt.Fprintf(&s, " %v msn=%d", k.AETH.Syndrome, k.AETH.MSN)
	}
	if has(ib.HasAtomicAckETH) {
		fmt.Fprintf(&s, " was %#x", k.AtomicAck)
	}
	if has(ib.HasImmDt) {
		fmt.Fprintf(&s, " imm=%#x", k.ImmDt)
	}
	if has(ib.HasIETH) {
		s.WriteString(" inv")
	}
	if k.AckReq {
		s.WriteString(" A")
	}
	if k.Solicited {
		s.WriteString(" S")
	}
	if f.lost {
		s.WriteString(" (lost)")
	}
	return s.String()
}

// is matches the nth sending of a packet of an end.
func (f *flight) is(from *end, op ib.Opcode, rel, nth int) bool {
	return f.from == from && f.pkt.Opcode == op && f.rel == rel && f.nth == nth
}

// lose drops the packets for which match holds.
func (p *pair) lose(match func(f *flight) bool) {
	p.onSend = func(f *flight) { f.lost = match(f) }
}

// wcString is an aid for messages.
func wcString(wcs []transport.WC) string {
	var s []string
	for _, wc := range wcs {
		s = append(s, fmt.Sprintf("%d %v op=%d len=%d", wc.ID, wc.Status, wc.Opcode, wc.ByteLen))
	}
	return strings.Join(s, "; ")
}
