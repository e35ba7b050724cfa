package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// The model of an RC responder is as naive as can be: packets stand in a list,
// and one is executed if it is the next. It keeps everything for ever. The test
// sends the list through a network that loses, repeats and reorders, and holds
// memory, completions, MSN and every answer against the model.

// modelPacket is one packet of the stream of requests.
type modelPacket struct {
	p     ib.Packet
	pos   int // of its PSN, from 0
	span  int // PSNs that it takes
	recv  bool
	off   int // in the peer's memory, if it names it
	saved uint64
}

func (m *modelPacket) resource() bool {
	switch m.p.Opcode.Info().Op {
	case ib.OpSend, ib.OpWrite:
		return false
	}
	return true
}

type modelRecv struct {
	id  uint64
	off int
}

type responderModel struct {
	t    *testing.T
	r    *rig
	rng  *rand.Rand
	base ib.PSN
	list []*modelPacket

	next   int // index of the packet expected
	msn    int
	mem    []byte
	buf    []byte // receive memory
	recvs  []modelRecv
	posted uint64
	cur    modelRecv // of the SEND in progress
	fillAt int       // bytes of it
	write  int       // offset of the WRITE in progress
	wrote  int
	wcs    []WC

	kept map[*modelPacket]bool // that came before their turn
	top  int                   // behind the newest of them

	// Since the last time that everything was sent:
	mustAck  int          // an ACK of this position or a later one is owed; -1 if none
	mustRead map[int]bool // READ responses owed, by position
	mustOp   map[int]bool // other answers owed
	gapNAK   bool         // a sequence NAK may come
	rnrNAK   bool
	stream   int // position that a MIDDLE or LAST must have; -1 if none may come
	answered map[int]bool
}

const (
	modelRecvBytes = 1024
	modelStore     = 8 // twice the depth of the rig
)

func newResponderModel(t *testing.T, seed uint64) *responderModel {
	rng := rand.New(rand.NewPCG(seed, 1))
	base := ib.PSN(rng.Uint32() & ib.PSNMask)
	if seed%3 == 0 {
		base = ib.PSNMask - ib.PSN(rng.IntN(40)) // wraps
	}
	if base == 0 {
		base = 1
	}
	m := &responderModel{
		t: t, rng: rng, base: base, mustAck: -1, stream: -1,
		kept: map[*modelPacket]bool{}, mustRead: map[int]bool{}, mustOp: map[int]bool{}, answered: map[int]bool{},
	}
	m.r = newRig(t, rigOpts{psn: base, rts: true, recvs: 32, cqe: 1 << 12, tuning: Tuning{
		DisableAckCoalesce: seed%5 == 0,
	}})
	m.mem = bytes.Clone(m.r.mem.Bytes())
	m.buf = bytes.Clone(m.r.recv.Bytes())
	pos := 0
	for pos < 120 {
		pos = m.addMessage(pos)
	}
	return m
}

// addMessage appends the packets of a random message.
func (m *responderModel) addMessage(pos int) int {
	rng := m.rng
	size := []int{0, 1, 8, 255, 256, 257, 511, 512, 700, 1024}[rng.IntN(10)]
	off := rng.IntN(rigLen - 1024)
	kind := rng.IntN(8)
	withImm := rng.IntN(2) == 0
	one := func(op ib.Opcode, edit func(*ib.Packet), span int, payload []byte) {
		p := pkt(op, m.base.Add(pos), payload)
		edit(&p)
		m.list = append(m.list, &modelPacket{p: p, pos: pos, span: span, off: off})
		pos += span
	}
	switch {
	case kind < 2: // SEND
		m.addData(&pos, size, off, [3]ib.Opcode{ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast},
			ib.RCSendOnly, withImm, true)
	case kind < 4: // WRITE
		m.addData(&pos, size, off, [3]ib.Opcode{ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLast},
			ib.RCWriteOnly, withImm, withImm)
	case kind == 4:
		one(ib.RCReadRequest, m.r.reth(off, size), max(1, (size+255)/256), nil)
	case kind == 5:
		off &^= 7
		op := []ib.Opcode{ib.RCFetchAdd, ib.RCCompareSwap}[rng.IntN(2)]
		one(op, m.r.atomic(off, rng.Uint64(), rng.Uint64()), 1, nil)
	case kind == 6:
		off &^= 7
		one(ib.RCAtomicWrite, m.r.reth(off, 8), 1, pattern(8, byte(rng.Uint32())))
	default:
		one(ib.RCFlush, func(p *ib.Packet) {
			m.r.reth(off, size)(p)
			p.FETH = ib.FlushGlobalVisibility
		}, 1, nil)
	}
	return pos
}

func (m *responderModel) addData(pos *int, size, off int, ops [3]ib.Opcode, only ib.Opcode, withImm, recv bool) {
	data := pattern(size, byte(m.rng.Uint32()))
	n := max(1, (size+255)/256)
	for i := range n {
		op := ops[1]
		switch {
		case n == 1:
			op = only
		case i == 0:
			op = ops[0]
		case i == n-1:
			op = ops[2]
		}
		last := i == n-1
		if last && withImm {
			op++ // the opcode with immediate follows the one without
		}
		p := pkt(op, m.base.Add(*pos), data[i*256:min(size, (i+1)*256)])
		p.AckReq = last || m.rng.IntN(4) == 0
		p.ImmDt = m.rng.Uint32()
		if i == 0 {
			m.r.reth(off, size)(&p)
		}
		send := op.Info().Op == ib.OpSend
		m.list = append(m.list, &modelPacket{
			p: p, pos: *pos, span: 1, off: off, recv: recv && (send && i == 0 || !send && last),
		})
		*pos++
	}
}

// deliver hands packet i to the responder and to the model.
func (m *responderModel) deliver(i int) {
	x := m.list[i]
	p := x.p
	switch {
	case i > m.next:
		m.gapNAK = true
		m.keep(x)
	case i < m.next:
		p = m.again(x)
	default:
		m.inTurn(x)
	}
	m.r.rx(&p)
	m.compare()
}

// keep takes note of a packet that came before its turn.
func (m *responderModel) keep(x *modelPacket) {
	if n := m.list[m.next].pos; len(m.kept) == 0 || m.top < n {
		m.top = n
	}
	m.kept[x] = true
	m.top = max(m.top, x.pos+x.span)
}

// inTurn executes a packet, and if it has come for the second time those that were kept behind it.
func (m *responderModel) inTurn(x *modelPacket) {
	for again := m.kept[x]; ; x = m.list[m.next] {
		if x.recv && len(m.recvs) == 0 {
			m.rnrNAK = true
			break
		}
		m.execute(x)
		delete(m.kept, x)
		if m.next == len(m.list) || !again || !m.kept[m.list[m.next]] {
			break
		}
		delete(m.kept, m.list[m.next]) // also if it is refused
	}
	m.gapNAK = m.gapNAK || len(m.kept) > 0
}

// again is a duplicate of x: the packet itself or, of a READ, perhaps only its end.
func (m *responderModel) again(x *modelPacket) ib.Packet {
	p := x.p
	if !x.resource() {
		m.mustAck = max(m.mustAck, m.ackLimit(x.pos))
		return p
	}
	if !m.remembered(x) {
		return p
	}
	if p.Opcode != ib.RCReadRequest {
		m.mustOp[x.pos] = true
		return p
	}
	skip := m.rng.IntN(x.span)
	p.PSN = p.PSN.Add(skip)
	p.RETH.VA += uint64(skip * 256)
	p.RETH.Len -= uint32(skip * 256)
	for k := skip; k < x.span; k++ {
		m.mustRead[x.pos+k] = true
	}
	return p
}

// remembered reports whether the responder must still know x.
func (m *responderModel) remembered(x *modelPacket) bool {
	n := 0
	for i := m.next - 1; i >= 0; i-- {
		if m.list[i].resource() {
			if m.list[i] == x {
				return true
			}
			if n++; n == modelStore {
				return false
			}
		}
	}
	return false
}

// ackLimit returns the position that a duplicate at pos is acknowledged up to, at least.
func (m *responderModel) ackLimit(pos int) int { return pos }

// execute does what the packet asks for.
func (m *responderModel) execute(x *modelPacket) {
	p := &x.p
	info := p.Opcode.Info()
	word := m.mem[x.off:]
	m.next++
	switch info.Op {
	case ib.OpSend:
		if info.Pos&ib.First != 0 {
			m.cur, m.recvs, m.fillAt = m.recvs[0], m.recvs[1:], 0
		}
		copy(m.buf[m.cur.off+m.fillAt:], p.Payload)
		m.fillAt += len(p.Payload)
		if info.Pos&ib.Last != 0 {
			m.completion(p, m.cur.id, WCRecv, m.fillAt)
		}
	case ib.OpWrite:
		if info.Pos&ib.First != 0 {
			m.write, m.wrote = x.off, 0
		}
		copy(m.mem[m.write+m.wrote:], p.Payload)
		m.wrote += len(p.Payload)
		if x.recv {
			m.completion(p, m.recvs[0].id, WCRecvWriteImm, m.wrote)
			m.recvs = m.recvs[1:]
		}
	case ib.OpRead:
		for k := range x.span {
			m.mustRead[x.pos+k] = true
		}
	case ib.OpFetchAdd:
		x.saved = binary.NativeEndian.Uint64(word)
		binary.NativeEndian.PutUint64(word, x.saved+p.Atomic.SwapAdd)
	case ib.OpCompareSwap:
		x.saved = binary.NativeEndian.Uint64(word)
		if x.saved == p.Atomic.Compare {
			binary.NativeEndian.PutUint64(word, p.Atomic.SwapAdd)
		}
	case ib.OpAtomicWrite:
		copy(word, p.Payload)
	}
	if info.Pos&ib.Last != 0 {
		m.msn++
	}
	switch {
	case x.resource() && info.Op != ib.OpRead:
		m.mustOp[x.pos] = true
	case !x.resource() && p.AckReq:
		m.mustAck = x.pos
	}
}

func (m *responderModel) completion(p *ib.Packet, id uint64, op WCOpcode, n int) {
	wc := WC{ID: id, Opcode: op, ByteLen: uint32(n), QPN: rigQPN}
	if p.Opcode.Has(ib.HasImmDt) {
		wc.Flags, wc.Imm = WCWithImm, p.ImmDt
	}
	m.wcs = append(m.wcs, wc)
}

func (m *responderModel) post() {
	if len(m.recvs) >= 16 {
		return
	}
	x := modelRecv{id: m.posted, off: int(m.posted%32) * modelRecvBytes}
	m.posted++
	m.recvs = append(m.recvs, x)
	wr := RecvWR{ID: x.id, SGList: []SGE{
		{Addr: rigRecvVA + uint64(x.off), Length: 300, LKey: m.r.recv.LKey()},
		{Addr: rigRecvVA + uint64(x.off) + 300, Length: modelRecvBytes - 300, LKey: m.r.recv.LKey()},
	}}
	if err := m.r.qp.PostRecv(&wr); err != nil {
		m.t.Fatal(err)
	}
}

// compare holds the state of the responder against the model.
func (m *responderModel) compare() {
	t, r := m.t, m.r
	t.Helper()
	if got := r.wcs(); fmt.Sprint(got) != fmt.Sprint(m.wcs) {
		t.Fatalf("completions %v, want %v", got, m.wcs)
	}
	m.wcs = nil
	if !bytes.Equal(r.mem.Bytes(), m.mem) || !bytes.Equal(r.recv.Bytes(), m.buf) {
		t.Fatal("memory differs")
	}
	r.canaries()
	if r.qp.State() != StateRTS {
		t.Fatalf("QP is in %v", r.qp.State())
	}
	pos := m.list[len(m.list)-1].pos + m.list[len(m.list)-1].span
	if m.next < len(m.list) {
		pos = m.list[m.next].pos
	}
	if got := r.qp.resp.expectedPSN(); got != m.base.Add(pos) {
		t.Fatalf("expects PSN %d, want %d", got, m.base.Add(pos))
	}
	if int(r.qp.resp.msn) != m.msn {
		t.Fatalf("MSN %d, want %d", r.qp.resp.msn, m.msn)
	}
}

// poll takes up to n answers; all is set if that should be all of them.
func (m *responderModel) poll(n int, all bool) {
	r := m.r
	for n > 0 {
		got := r.e.PollTransmit(r.now, r.tx[:min(n, len(r.tx))])
		if got == 0 {
			break
		}
		n -= got
		for i := range r.tx[:got] {
			var p ib.Packet
			b := append(r.tx[i].AppendTo(nil), 0, 0, 0, 0)
			if err := p.Decode(b); err != ib.DecodeOK {
				m.t.Fatal(err)
			}
			m.answer(&p)
		}
	}
	if !all {
		return
	}
	if m.mustAck >= 0 || len(m.mustRead) > 0 || len(m.mustOp) > 0 {
		m.t.Fatalf("unanswered: ACK %d, READ %v, others %v", m.mustAck, m.mustRead, m.mustOp)
	}
}

// holding returns the packet of the list that holds position pos.
func (m *responderModel) holding(pos int) *modelPacket {
	for _, x := range m.list[:m.next] {
		if pos >= x.pos && pos < x.pos+x.span {
			return x
		}
	}
	m.t.Fatalf("answer to position %d, which was not executed", pos)
	return nil
}

// answer checks one packet that the responder sent.
func (m *responderModel) answer(p *ib.Packet) {
	t := m.t
	t.Helper()
	pos := p.PSN.Diff(m.base)
	info := p.Opcode.Info()
	switch {
	case p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome == ib.NAKSequence:
		if !m.gapNAK || p.PSN != m.r.qp.resp.expectedPSN() {
			t.Fatalf("sequence NAK %d", p.PSN)
		}
		m.gapNAK = false
	case p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() == ib.SyndromeRNR:
		if !m.rnrNAK || p.PSN != m.r.qp.resp.expectedPSN() {
			t.Fatalf("RNR NAK %d", p.PSN)
		}
		m.rnrNAK = false
	case p.Opcode == ib.RCAcknowledge:
		if x := m.holding(pos); x.resource() || p.AETH.Syndrome != ib.ACKNoCredits {
			t.Fatalf("%v in the place of an answer to %v", p.AETH.Syndrome, x.p.Opcode)
		}
		m.passes(pos)
		if pos >= m.mustAck {
			m.mustAck = -1
		}
	case info.Op == ib.OpAtomicAck:
		x := m.holding(pos)
		if x.p.Opcode != ib.RCFetchAdd && x.p.Opcode != ib.RCCompareSwap || p.AtomicAck != x.saved {
			t.Fatalf("answer to %v: %d, want %d", x.p.Opcode, p.AtomicAck, x.saved)
		}
		m.done(x)
	default:
		x := m.holding(pos)
		if x.p.Opcode == ib.RCReadRequest {
			m.readAnswer(x, p, pos, info)
			return
		}
		if !x.resource() || p.Opcode != ib.RCReadRespOnly || len(p.Payload) != 0 {
			t.Fatalf("%v answers %v", p.Opcode, x.p.Opcode)
		}
		m.done(x)
	}
}

// readAnswer checks data and place of a READ response.
func (m *responderModel) readAnswer(x *modelPacket, p *ib.Packet, pos int, info *ib.OpcodeInfo) {
	t := m.t
	t.Helper()
	off := (pos - x.pos) * 256
	n := min(256, int(x.p.RETH.Len)-off)
	if !bytes.Equal(p.Payload, m.mem[x.off+off:x.off+off+n]) {
		t.Fatalf("READ %d: wrong data", p.PSN)
	}
	if info.Pos&ib.First == 0 && m.stream != pos {
		t.Fatalf("%v at %d, want %d", p.Opcode, pos, m.stream)
	}
	if last := pos == x.pos+x.span-1; last != (info.Pos&ib.Last != 0) {
		t.Fatalf("%v at %d of %d", p.Opcode, pos-x.pos, x.span)
	}
	m.stream = pos + 1
	if info.Pos&ib.Last != 0 {
		m.stream = -1
		m.done(x)
	}
	delete(m.mustRead, pos)
}

// done notes a complete answer, which acknowledges what is before it.
func (m *responderModel) done(x *modelPacket) {
	m.passes(x.pos)
	m.answered[x.pos] = true
	delete(m.mustOp, x.pos)
	if x.pos > m.mustAck {
		m.mustAck = -1
	}
}

// passes checks that everything before pos that has an answer of its own got
// one: nothing jumps the queue.
func (m *responderModel) passes(pos int) {
	for _, x := range m.list[:m.next] {
		if x.pos < pos && x.resource() && !m.answered[x.pos] {
			m.t.Fatalf("answer to %d before that to %d", pos, x.pos)
		}
	}
}

func (m *responderModel) run() {
	rng := m.rng
	for m.next < len(m.list) {
		switch k := rng.IntN(100); {
		case k < 55:
			m.deliver(m.next)
		case k < 65:
			m.deliver(min(m.next+1+rng.IntN(4), len(m.list)-1))
		case k < 80 && m.next > 0:
			// A duplicate, mostly of something recent.
			back := 1 + rng.IntN(min(m.next, 12))
			m.deliver(m.next - back)
		case k < 88:
			m.post()
		case k < 94:
			m.poll(1+rng.IntN(5), false)
		default:
			m.poll(1<<20, true)
		}
	}
	m.poll(1<<20, true)
}

func TestResponderAgainstModel(t *testing.T) {
	seeds.Run(t, seeds.Fewer(300), func(t *testing.T, seed uint64) { newResponderModel(t, seed).run() })
}
