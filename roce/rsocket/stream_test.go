package rsocket

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
)

// model is one end: a stream and the memory that it speaks of.
type model struct {
	t       testing.TB
	cfg     streamConfig
	recv    int // bytes of the receive buffer
	s       stream
	large   bool // the second part of sbuf is in use
	rbuf    []byte
	list    []byte
	sbuf    []byte
	peer    *model
	wire    []packet // sent and not arrived
	unacked []uint64 // IDs of what has arrived and is not completed
	wrote   byte     // next byte of the pattern
	read    byte
}

// packet is a message on its way.
type packet struct {
	m    message
	data []byte
}

const (
	modelRecvKey, modelListKey = 0x1111, 0x2222
	modelRecv, modelList       = 0x700000000000, 0x4000
)

func (m *model) conn(big bool) connData {
	return connData{
		bigEndian: big, iomap: true, credits: m.cfg.recvQueue, iomaps: m.cfg.iomaps,
		list: sge{modelList, modelListKey, grants}, data: sge{modelRecv, modelRecvKey, uint32(m.recv / 2)},
	}
}

// grow moves the receive buffer to the other one, and back, if that is free.
func (m *model) grow() {
	to := m.place()
	if m.s.rcv.to.buf == smallBuffer {
		to = place{largeBuffer, modelRecv + uint64(m.recv), modelRecvKey, m.recv / 2}
	}
	if !m.s.rcv.uses(to.buf) {
		m.s.rcv.move(to)
	}
}

// growSend goes on in another part of the send buffer, once what is in the one before was
// acknowledged.
func (m *model) growSend() {
	b := &m.s.snd.buf
	if b.old > 0 {
		return
	}
	size := m.cfg.sendBytes
	if !m.large {
		size *= 2
	}
	staged := make([]byte, m.s.snd.staged)
	if len(staged) > size {
		return
	}
	at := (b.head - len(staged) + b.size) % b.size
	from := m.sbuf[m.sendBase():][:b.size]
	copy(staged[copy(staged, from[at:]):], from)
	m.large = !m.large
	copy(m.sbuf[m.sendBase():], staged)
	m.s.snd.move(size)
}

// sendBase is where the send buffer in use begins, and base where a receive buffer does.
func (m *model) sendBase() int {
	if m.large {
		return m.cfg.sendBytes
	}
	return 0
}

func (m *model) base(buf int) int { return buf * m.recv }

func (m *model) place() place { return place{smallBuffer, modelRecv, modelRecvKey, m.recv / 2} }

func newModels(t testing.TB, a, b Config) (*model, *model) {
	var ms [2]*model
	for i, cfg := range []Config{a, b} {
		c := cfg.stream()
		ms[i] = &model{
			t: t, cfg: c, recv: cfg.RecvBuffer, rbuf: make([]byte, 2*cfg.RecvBuffer), sbuf: make([]byte, 3*c.sendBytes),
			list: make([]byte, grants*sgeBytes+c.iomaps*iomapBytes),
		}
	}
	for i, m := range ms {
		m.peer = ms[1-i]
		m.s.init(m.cfg, m.peer.conn(false), m.place())
	}
	return ms[0], ms[1]
}

// write sends up to n bytes of the pattern in one message.
func (m *model) write(n int) bool {
	k := m.s.snd.data(n)
	if k == 0 {
		return false
	}
	p := packet{data: make([]byte, k)}
	m.s.data(k, &p.m)
	for i := range p.data {
		p.data[i] = m.wrote
		m.wrote++
	}
	if p.m.held > 0 {
		require.Equal(m.t, k, p.m.held)
		sbuf := m.sbuf[m.sendBase():]
		n1 := copy(sbuf[p.m.at:p.m.at+p.m.first], p.data)
		copy(sbuf, p.data[n1:])
	}
	m.wire = append(m.wire, p)
	return true
}

// stage puts up to n bytes of the pattern into the send buffer, to be sent later.
func (m *model) stage(n int) int {
	b := &m.s.snd.buf
	n = min(n, b.free())
	sbuf := m.sbuf[m.sendBase():][:b.size]
	for i := range n {
		sbuf[(b.head+i)%b.size] = m.wrote
		m.wrote++
	}
	m.s.stage(n)
	return n
}

// pour sends one message of what is staged.
func (m *model) pour() bool {
	n := m.s.snd.pourable()
	if n == 0 {
		return false
	}
	var p packet
	m.s.pour(n, &p.m)
	sbuf := m.sbuf[m.sendBase():]
	p.data = append(append([]byte(nil), sbuf[p.m.at:p.m.at+p.m.first]...), sbuf[:n-p.m.first]...)
	m.wire = append(m.wire, p)
	return true
}

// credit sends what the peer should be told.
func (m *model) credit() {
	var p packet
	for m.s.update(&p.m) {
		p.data = append([]byte(nil), p.m.body[:p.m.n]...)
		m.wire = append(m.wire, p)
	}
}

// deliver brings the oldest message to the peer: the adapter's part, which
// would refuse what is outside of the memory, and then the completion.
func (m *model) deliver() bool {
	if len(m.wire) == 0 {
		return false
	}
	p := m.wire[0]
	m.wire = m.wire[1:]
	t, o := m.t, m.peer
	if len(p.data) > 0 {
		base, mem := uint64(modelRecv), o.rbuf
		if p.m.to.key == modelListKey {
			base, mem = modelList, o.list
		}
		// No testify here: it is a million messages, and that alone took most of the time.
		if at, n := p.m.to.addr, uint64(len(p.data)); at < base || at-base+n > uint64(len(mem)) {
			t.Fatalf("%d bytes at %#x are outside of the %d at %#x", n, at, len(mem), base)
		}
		copy(mem[p.m.to.addr-base:], p.data)
	}
	if err := o.s.arrived(p.m.imm, uint32(len(p.data)), bytes.NewReader(o.list)); err != nil {
		t.Fatal(err)
	}
	if o.s.rcv.count > int(o.cfg.recvQueue) {
		t.Fatalf("%d arrivals, with %d receive requests", o.s.rcv.count, o.cfg.recvQueue)
	}
	if !p.m.quiet {
		m.unacked = append(m.unacked, p.m.id)
	}
	return true
}

// complete acknowledges the oldest message that has arrived.
func (m *model) complete() bool {
	if len(m.unacked) == 0 {
		return false
	}
	m.s.sent(m.unacked[0])
	m.unacked = m.unacked[1:]
	return true
}

// take reads up to n bytes, which must be those of the pattern.
func (m *model) take(n int) int {
	total := 0
	for n > 0 && m.s.rcv.ready > 0 {
		buf, off, k := m.s.rcv.unread(n)
		for _, b := range m.rbuf[m.base(buf)+off:][:k] {
			if b != m.read {
				m.t.Fatalf("read %#x instead of %#x", b, m.read)
			}
			m.read++
		}
		m.s.rcv.take(k)
		n -= k
		total += k
	}
	return total
}

// check looks at what is always true.
func (m *model) check() {
	r, s := &m.s.rcv, &m.s.snd
	sum := 0
	for i := range r.count {
		sum += int(r.lens[(r.first+i)%len(r.lens)])
	}
	unread, granted := 0, 0
	for i := range r.held {
		g := &r.out[(r.oldest+i)%grants]
		unread, granted = unread+g.fill-g.read, granted+g.size-g.fill
	}
	switch {
	case unread != r.ready, granted != r.granted, r.held > grants, r.ready != sum, m.s.ctrl < 0, m.s.ctrl > maxCtrl,
		s.room < 0, s.room > s.rooms, s.buf.used < 0, s.buf.old < 0, s.buf.used > s.buf.size,
		s.quiet.messages > s.rooms-s.room, m.s.sends < s.quiet.messages,
		m.s.owed < s.buf.used+s.buf.old, m.s.owed < s.quiet.bytes, s.staged < 0, s.staged > s.buf.used:
		m.t.Fatalf("%+v", m.s)
	}
}

// Both ends do whatever they can in any order, with all sizes of buffers and queues: every byte
// arrives, nothing is written outside, and it never stands still.
func TestStreamSwarm(t *testing.T) {
	seeds.Run(t, 30, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		draw := func() Config {
			return Config{
				SendBuffer: 1 + rng.IntN(20000), RecvBuffer: 2 + rng.IntN(20000),
				SendQueue: 16 + rng.IntN(30), RecvQueue: 16 + rng.IntN(30),
			}.normal()
		}
		ca, cb := draw(), draw()
		a, b := newModels(t, ca, cb)
		const each = 100_000
		var written, read [2]int
		for steps := 0; read[0] < each || read[1] < each; steps++ {
			if steps > 5_000_000 {
				t.Fatalf("seed %d: stands still: %+v %+v", seed, a.s, b.s)
			}
			i := rng.IntN(2)
			m := []*model{a, b}[i]
			if rng.IntN(50) == 0 {
				m.grow()
			}
			if rng.IntN(50) == 0 {
				m.growSend()
			}
			switch rng.IntN(6) {
			case 5:
				m.pour()
			case 0:
				want := min(1+rng.IntN(1<<rng.IntN(17)), each-written[i])
				before := m.wrote
				if want > 0 && m.s.snd.stages() {
					written[i] += m.stage(want)
				} else if want > 0 && m.write(want) {
					n := len(m.wire[len(m.wire)-1].data)
					require.Equal(t, before+byte(n), m.wrote)
					written[i] += n
				}
			case 1:
				m.credit()
			case 2:
				m.deliver()
			case 3:
				m.complete()
			case 4:
				read[i] += m.take(1 + rng.IntN(1<<rng.IntN(17)))
			}
			m.check()
		}
		require.Equal(t, [2]int{each, each}, written, "seed %d", seed)
	})
}

// The messages that begin a connection, and what 384 of one byte each do.
func TestStreamTranscript(t *testing.T) {
	cfg := Config{}.normal()
	a, b := newModels(t, cfg, cfg)
	a.credit()
	require.Len(t, a.wire, 1)
	require.EqualValues(t, uint32(0x80000180), a.wire[0].m.imm, "the second half, at once")
	require.Equal(t, sge{modelList + 16, modelListKey, 16}, a.wire[0].m.to)
	require.Equal(t, sge{modelRecv + defaultBuffer/2, modelRecvKey, defaultBuffer / 2},
		getSGE(a.wire[0].data, binary.LittleEndian))
	a.deliver()
	b.credit()
	b.deliver()
	n := 0
	for a.write(1) {
		n++
	}
	require.Equal(t, defaultQueue-spareCredits, n, "credits are left for control messages")
	for a.deliver() {
	}
	require.Equal(t, defaultQueue/2-1, b.take(defaultQueue/2-1))
	b.credit()
	require.Empty(t, b.wire, "not yet")
	b.take(1)
	b.credit()
	require.Len(t, b.wire, 1)
	require.EqualValues(t, uint32(0x80000000|(defaultQueue/2+defaultQueue)), b.wire[0].m.imm)
	require.Empty(t, b.wire[0].data, "credits only")
	b.deliver()
	for a.complete() {
	}
	require.True(t, a.write(1))
}

func TestStreamEnd(t *testing.T) {
	cfg := Config{}.normal()
	a, b := newModels(t, cfg, cfg)
	var m message
	a.s.fin(ctrlShutdown, &m)
	require.EqualValues(t, uint32(0xe0000002), m.imm)
	require.NoError(t, b.s.arrived(m.imm, 0, bytes.NewReader(b.list)))
	require.True(t, b.s.finRecvd)
	require.False(t, b.s.byeRecvd)
	require.True(t, b.write(10), "the other direction goes on")
	require.Error(t, b.s.arrived(immediate(opData, 1), 1, bytes.NewReader(b.list)), "data after the end")
	b.s.fin(ctrlShutdown, &m)
	require.NoError(t, a.s.arrived(m.imm, 0, bytes.NewReader(a.list)))
	require.True(t, a.s.over(), "nothing is left to say")
	require.False(t, a.s.byeRecvd)
	require.False(t, a.s.settled(), "but what was said has not arrived for all that")
}

// A big-endian peer reads grants and mappings in its own order.
func TestStreamBigEndian(t *testing.T) {
	cfg := Config{IOMaps: 2}.normal()
	a, _ := newModels(t, cfg, cfg)
	a.s.init(cfg.stream(), a.peer.conn(true), a.place())
	var m message
	require.True(t, a.s.update(&m))
	require.Equal(t, sge{modelRecv + defaultBuffer/2, modelRecvKey, defaultBuffer / 2},
		getSGE(m.body[:], binary.BigEndian))
	a.s.mapping(1, iomap{5, sge{6, 7, 8}}, &m)
	require.Equal(t, iomap{5, sge{6, 7, 8}}, getIOMap(m.body[:], binary.BigEndian))
	require.EqualValues(t, modelList+grants*sgeBytes+iomapBytes, m.to.addr)
	require.EqualValues(t, uint32(0xc0000001), m.imm)
}

func TestStreamBreaches(t *testing.T) {
	cfg := Config{IOMaps: 2, RecvQueue: 16}.normal()
	for name, msgs := range map[string][][2]uint32{ // immediate, bytes
		"length":        {{immediate(opData, 5), 6}},
		"too much":      {{immediate(opData, defaultBuffer), defaultBuffer}},
		"straddles":     {{immediate(opData, 1), 1}, {immediate(opData, defaultBuffer/2), defaultBuffer / 2}},
		"not granted":   {{immediate(opData, defaultBuffer/2), defaultBuffer / 2}, {immediate(opData, 1), 1}},
		"grant":         {{immediate(opSGL, 5), 15}},
		"mapping 2":     {{immediate(opIOMap, 2), 24}},
		"mapping short": {{immediate(opIOMap, 0), 23}},
		"reserved 1":    {{immediate(1, 0), 0}},
		"reserved 2":    {{immediate(2, 0), 0}},
		"reserved 3":    {{immediate(3, 0), 0}},
		"reserved 5":    {{immediate(5, 0), 0}},
		"after the end": {{immediate(opCtrl, ctrlShutdown), 0}, {immediate(opData, 1), 1}},
		"credits": {{0, 0}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1},
			{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
	} {
		a, _ := newModels(t, cfg, cfg)
		for i, m := range msgs {
			err := a.s.arrived(m[0], m[1], bytes.NewReader(a.list))
			if i == len(msgs)-1 {
				var p *ProtocolError
				require.ErrorAs(t, err, &p, name)
			} else {
				require.NoError(t, err, "%s %d", name, i)
			}
			a.check()
		}
	}
}
