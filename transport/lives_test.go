package transport_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// TestQueuePairLives ends and renews queue pairs while they work: by error, RESET
// or Destroy, at one end or both, under the same number, while packets of the life
// before are still on the wire, memory is deregistered and the clock jumps. Whatever
// happens, a request that was accepted completes exactly once, in order, in its life;
// not at all only if that was ended by RESET or Destroy, and one of an SRQ not even
// then; and a message that arrives is one that the peer has sent, on RC in this life.
//
// A failure prints its seed: go test -run TestQueuePairLives -seed N
func TestQueuePairLives(t *testing.T) {
	sum := map[transport.WCStatus]int{}
	n := seeds.Run(t, seeds.Fewer(150), func(t *testing.T, seed uint64) { newLives(t, seed, sum).run() })
	t.Logf("%v", sum)
	if n < 20 {
		return
	}
	for _, s := range []transport.WCStatus{
		transport.WCSuccess, transport.WCFlushErr, transport.WCRetryExcErr, transport.WCRemoteAccessErr,
		transport.WCLocalProtErr,
	} {
		require.NotZero(t, sum[s], "%v", s)
	}
}

// life is what a QP does between RESET and RESET.
type life struct {
	number       uint64
	peer         *life
	qp           *transport.QP
	sends, recvs []uint64 // IDs of requests that are not complete
	posted       uint64
}

// livesEnd is one side of one connection.
type livesEnd struct {
	*link
	k    int // number of the connection
	cq   *transport.CQ
	life *life // nil in RESET
}

type lives struct {
	t      *testing.T
	p      *pair
	typ    ib.Transport
	rng    *rand.Rand
	ends   [][2]*livesEnd
	all    map[uint64]*life
	extra  [2]*mem.Region    // deregistered now and then
	srq    [2]*transport.SRQ // nil: each QP has its own receive queue
	shared [2]map[uint64]int // receives of the SRQ that are not complete, and their slots
	ids    uint64            // of receives of SRQs
	faults bool
	sum    map[transport.WCStatus]int
}

const (
	livesRecv  = 1 << 30 // bit of the ID of a receive
	livesShift = 32      // of the number of the life
	livesBytes = 3000    // longest message
	livesArea  = 8192    // of a connection at either end: what is sent, and where it is received
	livesSRQ   = 8       // receives of an SRQ, in the area after those of the connections
	livesConns = 3
)

func newLives(t *testing.T, seed uint64, sum map[transport.WCStatus]int) *lives {
	rng := rand.New(rand.NewPCG(seed, 0x11fe))
	p := newPair(t, pairConfig{mtu: ib.MTU4096, seed: seed})
	p.logging = seeds.One()
	s := &lives{t: t, p: p, typ: []ib.Transport{ib.RC, ib.RC, ib.UC}[rng.IntN(3)], rng: rng,
		all: map[uint64]*life{}, sum: sum}
	shared := rng.IntN(3) == 0
	for i, e := range p.ends {
		s.register(i)
		if shared {
			var err error
			s.srq[i], err = e.eng.CreateSRQ(e.pd, transport.SRQAttr{MaxWR: livesSRQ, MaxSGE: 1}, nil)
			require.NoError(t, err)
			s.shared[i] = map[uint64]int{}
		}
	}
	for k := range 1 + rng.IntN(livesConns) {
		var pair [2]*livesEnd
		for i, e := range p.ends {
			cq, err := e.eng.CreateCQ(4096, nil)
			require.NoError(t, err)
			pair[i] = &livesEnd{link: &link{end: e}, k: k, cq: cq}
			s.create(pair[i], 0)
		}
		s.ends = append(s.ends, pair)
		s.connect(pair)
	}
	p.onSend = func(f *flight) {
		if !s.faults {
			return
		}
		switch r := rng.IntN(100); {
		case r < 5:
			f.lost = true
		case r < 10:
			f.copies = 1
		case r < 30:
			f.at += rng.Int64N(20 * ms)
		}
	}
	return s
}

// register makes a region, in place of one that may be gone.
func (s *lives) register(i int) {
	e := s.p.ends[i]
	r, err := e.mem.Register(e.pd,
		mem.RegionAttr{Bytes: e.buf[bufBytes-livesArea:], IOVA: e.base + bufBytes, IOVASet: true, Access: allAccess})
	require.NoError(s.t, err)
	s.extra[i] = r
}

func (s *lives) create(e *livesEnd, qpn ib.QPN) {
	qp, err := e.eng.CreateQP(transport.QPInitAttr{
		Type: s.typ, PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq, SRQ: s.srq[e.i], QPN: qpn, SigAll: true,
		Caps: transport.QPCaps{MaxSendWR: 16, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2},
	})
	require.NoError(s.t, err)
	e.qp = qp
	e.qps = append(e.qps, qp)
}

// connect begins a life of both ends.
func (s *lives) connect(pair [2]*livesEnd) {
	psn := [2]ib.PSN{ib.PSN(s.rng.Uint32() & ib.PSNMask), ib.PSN(s.rng.Uint32() & ib.PSNMask)}
	for i, e := range pair {
		e.life = &life{number: uint64(len(s.all) + 1), qp: e.qp}
		s.all[e.life.number] = e.life
		peer := pair[1-i]
		e.attr = transport.QPAttr{
			Access: allAccess &^ mem.MWBind, PortNum: 1,
			AV: transport.AddressVector{DGID: ib.GIDFromAddr(e.peer().addr)}, PathMTU: ib.MTU(1 + s.rng.IntN(3)),
			DestQPN: peer.qp.Number(), RQPSN: psn[1-i], SQPSN: psn[i], MaxRdAtomic: 4, MaxDestRdAtomic: 4,
			MinRNRTimer: 12, Timeout: 8, RetryCnt: 7, RNRRetry: 7,
		}
		if i == 1 {
			e.attr.PathMTU = pair[0].attr.PathMTU
		}
		e.bringUp(transport.StateRTS)
		copy(e.area(0), e.life.pattern(livesBytes))
	}
	pair[0].life.peer, pair[1].life.peer = pair[1].life, pair[0].life
}

// at returns where byte off of the memory of a connection is.
func (e *livesEnd) at(off int) int { return e.k*livesArea + off }

func (e *livesEnd) area(off int) []byte { return e.buf[e.at(off):] }

// pattern is what a life sends.
func (l *life) pattern(n int) []byte {
	return bytes.Repeat([]byte{byte(l.number), byte(l.number >> 8), 77}, n)[:n]
}

// id returns the ID of the next request.
func (l *life) id() uint64 {
	l.posted++
	return l.number<<livesShift | l.posted
}

func (s *lives) run() {
	s.faults = true
	for range 150 + s.rng.IntN(300) {
		s.act()
		for range s.rng.IntN(10) {
			s.p.step(s.p.now + second)
		}
		s.check()
	}
	// What was posted ends by itself, if there are receives for it.
	s.faults = false
	limit := s.p.now + 1000*second
	for moved := true; ; {
		busy := false
		for _, pair := range s.ends {
			for _, e := range pair {
				if e.life != nil {
					for e.qp.State() != transport.StateErr && s.postRecv(e) {
					}
					busy = busy || len(e.life.sends) > 0
				}
			}
		}
		if !busy {
			break
		}
		if !moved {
			s.t.Fatalf("stuck at %d ns: %s", s.p.now, s.state())
		}
		moved = s.p.step(limit)
		s.check()
	}
	for _, pair := range s.ends {
		for _, e := range pair {
			if e.life != nil {
				require.NoError(s.t,
					e.qp.Modify(s.p.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState))
			}
		}
	}
	s.check()
	for _, pair := range s.ends {
		for _, e := range pair {
			if e.life != nil {
				require.Empty(s.t, e.life.sends, "not completed")
				require.Empty(s.t, e.life.recvs, "not completed")
			}
		}
	}
	for i := range s.p.ends {
		if r := s.extra[i]; r.Registered() {
			require.NoError(s.t, r.Deregister(nil))
		}
	}
	s.p.advance(20 * second)
	s.check()
}

func (s *lives) state() (out string) {
	for _, pair := range s.ends {
		for _, e := range pair {
			if e.life != nil {
				out += fmt.Sprintf("%s: life %d in %v: %d sends, %d receives; ", e.name, e.life.number,
					e.qp.State(), len(e.life.sends), len(e.life.recvs))
			}
		}
	}
	return out
}

func (s *lives) act() {
	pair := s.ends[s.rng.IntN(len(s.ends))]
	i := s.rng.IntN(2)
	e := pair[i]
	switch r := s.rng.IntN(1000); {
	case r < 600:
		if e.life != nil {
			s.postSend(e)
		}
	case r < 900:
		if e.life != nil {
			s.postRecv(e)
		}
	case r < 915:
		if e.life != nil {
			require.NoError(s.t, e.qp.Modify(s.p.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState))
		}
	case r < 930:
		s.reset(e)
	case r < 960:
		s.reset(pair[0])
		s.reset(pair[1])
		s.connect(pair)
	case r < 975:
		s.check()
		n := e.qp.Number()
		require.NoError(s.t, e.qp.Destroy())
		e.life = nil
		s.create(e, n)
	case r < 990:
		if reg := s.extra[i]; reg.Registered() {
			require.NoError(s.t, reg.Deregister(nil))
		} else {
			s.register(i)
		}
	case r < 992:
		if e.life != nil && e.qp.State() == transport.StateSQE {
			require.NoError(s.t, e.qp.Modify(s.p.now, transport.QPAttr{State: transport.StateRTS}, transport.AttrState))
		}
	case r < 996:
		s.p.now += 1 << (20 + s.rng.IntN(16))
	default:
		_ = e.cq.Resize(3000 + s.rng.IntN(3000))
	}
}

// reset ends a life without completions of what is in progress.
func (s *lives) reset(e *livesEnd) {
	s.check()
	require.NoError(s.t, e.qp.Modify(s.p.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
	e.life = nil
}

func (s *lives) postSend(e *livesEnd) {
	n := []int{0, 1, 100, 256, 257, livesBytes}[s.rng.IntN(6)]
	wr := e.link.send(e.at(0), n)
	far := e.peer()
	extra := s.extra[1-e.i]
	kind := s.rng.IntN(8)
	if s.typ == ib.UC && (kind == 1 || kind == 2) {
		kind = 0
	}
	switch kind {
	case 0:
		wr = e.write(e.at(0), bufBytes-2*livesArea, n)
	case 1:
		wr = e.read(e.at(2*livesBytes), 0, min(n, 1000))
	case 2:
		wr = e.fetchAdd(e.at(2*livesBytes), bufBytes-3*livesArea, 1)
	case 3:
		wr = e.write(e.at(0), 0, n)
		wr.Opcode = transport.WRWriteImm
		wr.RemoteAddr += bufBytes - 2*livesArea
	case 4: // memory of the peer that may be gone, or go
		wr = e.write(e.at(0), 0, n)
		if s.typ == ib.RC && s.rng.IntN(2) == 0 {
			wr.Opcode = transport.WRRead
			wr.SGList[0] = e.sge(e.at(2*livesBytes), min(n, 1000))
		}
		wr.RemoteAddr, wr.RKey = far.base+bufBytes, extra.RKey()
	case 5: // memory of ours that may be gone, or go
		if s.rng.IntN(4) == 0 {
			wr.SGList[0] = transport.SGE{Addr: e.base + bufBytes, Length: uint32(n), LKey: s.extra[e.i].LKey()}
			wr.Opcode, wr.RemoteAddr, wr.RKey = transport.WRWrite, far.base+bufBytes-2*livesArea, far.region.RKey()
		}
	}
	wr.ID = e.life.id()
	if err := e.qp.PostSend(s.p.now, &wr); err != nil {
		require.ErrorIs(s.t, err, transport.ErrQueueFull)
		return
	}
	e.life.sends = append(e.life.sends, wr.ID)
}

func (s *lives) postRecv(e *livesEnd) bool {
	if srq := s.srq[e.i]; srq != nil {
		s.ids++
		slot := s.freeSlot(e.i)
		wr := transport.RecvWR{ID: s.ids | livesRecv,
			SGList: []transport.SGE{e.sge(livesSlot(max(slot, 0)), livesBytes)}}
		err := srq.PostRecv(&wr)
		if slot < 0 {
			require.ErrorIs(s.t, err, transport.ErrQueueFull)
			return false
		}
		require.NoError(s.t, err, "a receive was lost")
		s.shared[e.i][wr.ID] = slot
		return true
	}
	wr := transport.RecvWR{ID: e.life.id() | livesRecv, SGList: []transport.SGE{e.sge(e.at(livesBytes), livesBytes)}}
	if err := e.qp.PostRecv(&wr); err != nil {
		require.ErrorIs(s.t, err, transport.ErrQueueFull)
		return false
	}
	e.life.recvs = append(e.life.recvs, wr.ID)
	return true
}

// livesSlot returns where the buffer of a receive of an SRQ is.
func livesSlot(i int) int { return livesConns*livesArea + i*livesBytes }

// freeSlot returns a slot of the SRQ of an end that no receive has, -1 if there is none.
func (s *lives) freeSlot(i int) int {
	used := [livesSRQ]bool{}
	for _, slot := range s.shared[i] {
		used[slot] = true
	}
	return slices.Index(used[:], false)
}

// checkMessage looks at a message that came in a life. On UC it may be from an earlier
// one: a first packet is taken whatever its PSN.
func (s *lives) checkMessage(l *life, got []byte) {
	peer := l.peer
	if s.typ == ib.UC && len(got) > 2 {
		peer = s.all[uint64(got[0])|uint64(got[1])<<8]
		require.NotNil(s.t, peer)
	}
	if s.typ == ib.RC || len(got) > 2 {
		require.Equal(s.t, peer.pattern(len(got)), got)
	}
}

// check takes the completions.
func (s *lives) check() {
	for _, pair := range s.ends {
		for _, e := range pair {
			for _, wc := range pollCQ(e.cq) {
				if slot, ok := s.shared[e.i][wc.ID]; ok {
					delete(s.shared[e.i], wc.ID)
					require.NotNil(s.t, e.life)
					if wc.Status == transport.WCSuccess && wc.Opcode == transport.WCRecv {
						s.checkMessage(e.life, e.buf[livesSlot(slot):][:wc.ByteLen])
					}
					s.sum[wc.Status]++
					continue
				}
				l := s.all[wc.ID>>livesShift]
				require.NotNil(s.t, l)
				require.Same(s.t, e.life, l, "completion %x of a life that is over", wc.ID)
				s.sum[wc.Status]++
				q := &l.sends
				if wc.ID&livesRecv != 0 {
					q = &l.recvs
				}
				require.NotEmpty(s.t, *q, "completion %x", wc.ID)
				require.Equal(s.t, (*q)[0], wc.ID)
				*q = (*q)[1:]
				if wc.ID&livesRecv != 0 && wc.Status == transport.WCSuccess && wc.Opcode == transport.WCRecv {
					s.checkMessage(l, e.area(livesBytes)[:wc.ByteLen])
				}
			}
		}
	}
}

// A new QP may have the number of one that was destroyed. Packets reach the new
// one, also if the last packet before was for the old one.
func TestNumberUsedAgain(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.send(ib.RCWriteOnly, 0, []byte("one."))
	require.Equal(t, "one.", string(d.a.buf[:4]))
	n := d.a.qp.Number()
	require.NoError(t, d.a.qp.Destroy())
	d.send(ib.RCWriteOnly, 1, []byte("none"))
	require.EqualValues(t, 1, d.a.eng.Counters().DropNoQP)
	qp, err := d.a.eng.CreateQP(transport.QPInitAttr{
		Type: ib.RC, PD: d.a.pd, SendCQ: d.a.cq, RecvCQ: d.a.cq, QPN: n,
		Caps: transport.QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	require.NoError(t, err)
	d.a.qp, d.a.end.qps = qp, []*transport.QP{qp}
	d.a.bringUp(transport.StateRTS)
	d.send(ib.RCWriteOnly, 0, []byte("two."))
	require.Equal(t, "two.", string(d.a.buf[:4]))
}
