package transport

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
)

// fewCQEs make for completion queues that overflow, since nobody looks into them.
const fewCQEs = 50

// twins are two engines that are told the same, but one gets and makes its packets together and the
// other one by one. Their peer hears the first. All that can be seen of them is to be the same:
// what they send, completions, events, timers, counters, attributes, memory.
type twins struct {
	t    *testing.T
	rng  *rand.Rand
	now  int64
	peer *side
	two  [2]*side // by runs, by packets
	o    loopOptions

	toTwins, toPeer []RxPacket
	batch           [2][]TxPacket
	faults          bool
	unverified      bool // packets may come without a check of their ICRC
	checked         uint64
	op              WROpcode // most messages are so
	size            int
	write           mem.Access // what the twins' queue pair allows beside everything else
	extra           [2]*mem.Region
}

func newTwins(t *testing.T, rng *rand.Rand) *twins {
	w := &twins{t: t, rng: rng, now: 1e9, write: mem.RemoteWrite}
	percent := func(n int) bool { return rng.IntN(100) < n }
	psn := ib.PSN(rng.Uint32() & ib.PSNMask)
	if percent(50) {
		psn = ib.PSNMask - ib.PSN(rng.IntN(40))
	}
	deep := []uint8{1, 8, 120}[rng.IntN(3)]
	window := []int{0, 0, 3, 40}[rng.IntN(4)]
	w.o = loopOptions{
		typ: ib.RC, mtu: ib.MTU256 + ib.MTU(rng.IntN(3)), data: 1 << 16, iova: 1 << 20, psn: psn, cqe: 512,
		gso: percent(70), caps: QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2},
		tuning: Tuning{
			EndToEndCredits: percent(30), DisableAckCoalesce: percent(30), WholeMessages: percent(30),
			LossProbe: -1, GoBackN: percent(50),
		},
		attr: func(a *QPAttr) { a.MaxRdAtomic, a.MaxDestRdAtomic, a.MaxUnackedPackets = deep, deep, window },
	}
	if percent(30) {
		w.o.room = Room{Size: 1 << (12 + rng.IntN(6)), PerPacket: 1 + rng.IntN(800), PerByte: rng.IntN(3),
			RunPerPacket: 60, RunPerByte: 1}
	}
	if percent(5) {
		w.o.cqe = fewCQEs
	}
	w.faults, w.unverified = percent(60), percent(50)
	w.op, w.size = []WROpcode{WRWrite, WRRead, WRSend}[rng.IntN(3)], []int{64, 256, 4096, 9000}[rng.IntN(4)]
	w.peer = newSide(t, "10.0.0.1", 'a', w.o)
	for i := range w.two {
		w.two[i] = newSide(t, "10.0.0.2", 'b', w.o)
		w.batch[i] = make([]TxPacket, 64)
		(&loop{t: t, now: w.now}).connect(w.two[i], w.peer, w.o)
		w.extra[i] = w.register(w.two[i])
	}
	(&loop{t: t, now: w.now}).connect(w.peer, w.two[0], w.o)
	fill(w.peer.data, byte(rng.Uint32()))
	return w
}

// register registers some of a twin's memory a second time, so that it can be taken away.
func (w *twins) register(s *side) *mem.Region {
	m, err := s.mem.Register(s.pd, mem.RegionAttr{
		Bytes: s.data[len(s.data)/2:], IOVA: 1 << 21, IOVASet: true, Access: mem.LocalWrite |
			mem.RemoteWrite | mem.RemoteRead,
	})
	require.NoError(w.t, err)
	return m
}

// both does something to either twin. Errors are to be the same.
func (w *twins) both(f func(i int, s *side) error) error {
	err := [2]error{f(0, w.two[0]), f(1, w.two[1])}
	require.Equal(w.t, err[0] == nil, err[1] == nil, "%v, %v", err[0], err[1])
	return err[0]
}

// wr makes a work request for memory of s and its peer.
func (w *twins) wr(op WROpcode, size int, s *side, remote *mem.Region, off, roff int) SendWR {
	wr := SendWR{ID: uint64(size), Opcode: op, Flags: SendSignaled, RemoteAddr: remote.IOVA() + uint64(roff),
		RKey: remote.RKey()}
	cut := size / 3 // two pieces
	wr.SGList = []SGE{s.at(off+cut, size-cut), s.at(off, cut)}
	if op == WRCompareSwap || op == WRFetchAdd {
		wr.SGList = []SGE{s.at(off, 8)}
		wr.RemoteAddr &^= 7
	}
	return wr
}

// step does one thing.
func (w *twins) step() {
	rng := w.rng
	size := []int{0, 8, 64, 64, 64, 100, 256, 1024, 1024, 4096, 5000, 9000}[rng.IntN(12)]
	op := []WROpcode{WRWrite, WRWrite, WRRead, WRRead, WRSend, WRSend, WRWriteImm, WRFetchAdd, WRSendImm}[rng.IntN(9)]
	if rng.IntN(3) > 0 {
		op, size = w.op, w.size
	}
	off, roff := rng.IntN(40)*64, rng.IntN(500)*8
	many := 1 + rng.IntN(20)*rng.IntN(2)
	switch k := rng.IntN(100); {
	case k < 25: // a burst of messages of the peer
		region := func(i int) *mem.Region { return w.two[i].region }
		if rng.IntN(8) == 0 {
			region = func(i int) *mem.Region { return w.extra[i] }
		}
		if rng.IntN(100) == 0 {
			roff = 1<<15 - 2*size // the last of them may not fit
		}
		for i := range many {
			wr := w.wr(op, size, w.peer, region(0), off, roff+i%3*size)
			if rng.IntN(2) == 0 {
				wr.Flags |= SendSolicited
			}
			_ = w.peer.qp.PostSend(w.now, &wr)
		}
	case k < 50:
		if op == WRRead && w.o.room.Size != 0 {
			op = WRWrite // of what READs take of the room each packet gives a part back, and parts are rounded
		}
		for i := range many {
			_ = w.both(func(_ int, s *side) error {
				wr := w.wr(op, size, s, w.peer.region, off, roff+i%3*size)
				return s.qp.PostSend(w.now, &wr)
			})
		}
	case k < 58:
		n := 9000
		if w.faults && rng.IntN(30) == 0 {
			n = []int{0, 64, 1024}[rng.IntN(3)]
		}
		for range many {
			_ = w.both(func(_ int, s *side) error {
				return s.qp.PostRecv(&RecvWR{ID: uint64(n), SGList: []SGE{s.at(off, n/2), s.at(30000+off, n-n/2)}})
			})
		}
	case k < 75:
		w.exchange(1 + rng.IntN(64))
	case k < 90:
		w.receive()
	case k < 95:
		w.now += rng.Int64N(100_000)
	case k < 98:
		w.timeouts()
	case k == 98 && w.faults && rng.IntN(10) == 0:
		w.write ^= mem.RemoteWrite
		_ = w.both(func(_ int, s *side) error {
			return s.qp.Modify(w.now, QPAttr{Access: w.write | mem.RemoteRead | mem.RemoteAtomic}, AttrAccess)
		})
	case k == 99 && w.faults && rng.IntN(4) == 0:
		_ = w.both(func(i int, s *side) error {
			err := w.extra[i].Deregister(nil)
			w.extra[i] = w.register(s)
			return err
		})
	}
}

// exchange lets everybody send up to n packets, and compares what the twins do.
func (w *twins) exchange(n int) {
	got := w.peer.e.PollTransmit(w.now, w.batch[0][:n])
	w.toTwins = w.carry(w.toTwins, w.batch[0][:got], w.peer, w.two[0])
	var sent [2][][]byte
	for i, s := range w.two {
		runsOut = i == 0
		got = s.e.PollTransmit(w.now, w.batch[i][:n])
		for k := range got {
			sent[i] = append(sent[i], w.batch[i][k].AppendTo(nil))
		}
	}
	runsOut = true
	require.Equal(w.t, sent[1], sent[0], "what they send")
	w.toPeer = w.carry(w.toPeer, w.batch[0][:got], w.two[0], w.peer)
}

// carry appends packets to those that are on their way, some of them lost, twice, late, marked or
// changed.
func (w *twins) carry(to []RxPacket, batch []TxPacket, from, dst *side) []RxPacket {
	run := w.rng.IntN(2) == 0
	for i := range batch {
		p := RxPacket{
			Src: from.addr, Dst: dst.addr, HopLimit: 64, TrafficClass: ECT0, InRun: run,
			Data: append(batch[i].AppendTo(nil), 0, 0, 0, 0),
		}
		fault := w.rng.IntN(400)
		if !w.faults {
			fault = -1
		}
		switch fault {
		case 0, 1:
			continue
		case 2:
			to = append(to, p)
		case 3:
			if n := len(to); n > 0 {
				p, to[n-1] = to[n-1], p
			}
		case 4:
			p.TrafficClass |= ECNCE
		case 5:
			p.InRun = !run
		case 6:
			if w.rng.IntN(10) == 0 && dst != w.peer {
				p.Data[w.rng.IntN(ib.BTHBytes)] ^= 1 << w.rng.IntN(8)
			}
		case 7:
			if w.rng.IntN(10) == 0 && dst != w.peer {
				p.Data = p.Data[:len(p.Data)-4]
			}
		case 8:
			if dst != w.peer {
				p.Src = dst.addr
			}
		}
		if w.unverified && dst != w.peer {
			to = w.leave(to, &p)
		}
		if p.Data != nil {
			to = append(to, p)
		}
	}
	return to
}

// leave has the ICRC of a packet unknown, perhaps, and adds a damaged one, perhaps: in place of the
// packet, which has no data then, or before it. In these packets an ICRC of 0 is right.
func (w *twins) leave(to []RxPacket, p *RxPacket) []RxPacket {
	if w.rng.IntN(8) > 0 {
		p.ICRC = ICRCUnknown
	}
	if w.rng.IntN(60) > 0 {
		return to
	}
	bad := *p
	bad.ICRC, bad.Data = ICRCUnknown, bytes.Clone(p.Data)
	bad.Data[w.rng.IntN(len(bad.Data))] ^= 1 << w.rng.IntN(8)
	bad.Data[len(bad.Data)-1] |= 1
	if w.rng.IntN(2) == 0 {
		p.Data = nil
	}
	return append(to, bad)
}

// icrcs is the Checker of a batch: each packet is to be asked for once, in order, but for ACKs that
// are heard first.
type icrcs struct {
	w     *twins
	batch []RxPacket
	next  int // none before this is asked for
	acks  map[int]bool
}

func (c *icrcs) Check(i int, p *RxPacket) bool {
	require.Same(c.w.t, &c.batch[i], p)
	if i > 0 && ackBehind(c.batch, i-1) {
		require.False(c.w.t, c.acks[i], "asked for twice")
		c.acks[i] = true
	} else {
		require.GreaterOrEqual(c.w.t, i, c.next)
		c.next = i + 1
	}
	c.w.checked++
	return icrcRight(p)
}

func icrcRight(p *RxPacket) bool {
	return p.ICRC == ICRCRight || len(p.Data) < 4 || p.Data[len(p.Data)-1] == 0
}

// receive hands what was carried to whom it is for: to the first twin some of it at a time.
func (w *twins) receive() {
	for len(w.toTwins) > 0 {
		n := min(1+w.rng.IntN(100), len(w.toTwins))
		// By themselves, an ACK before what it stands behind.
		order := make([]int, 0, n)
		for i := range n {
			at := len(order)
			if i > 0 && ackBehind(w.toTwins[:n], i-1) {
				for at = len(order) - 1; at > 0 &&
					runLength([]RxPacket{w.toTwins[order[at-1]], w.toTwins[order[at]]}) == 2; at-- {
				}
			}
			order = slices.Insert(order, at, i)
		}
		for _, i := range order {
			if p := w.toTwins[i]; icrcRight(&p) {
				w.two[1].e.HandlePacket(w.now, &p)
			}
		}
		c := &icrcs{w: w, batch: w.toTwins[:n], acks: map[int]bool{}}
		w.two[0].e.HandleUnverified(w.now, c.batch, c)
		for i := range c.batch {
			require.NotEqual(w.t, ICRCUnknown, c.batch[i].ICRC, "every packet is looked at")
		}
		w.toTwins = w.toTwins[n:]
		w.compare()
	}
	for i := range w.toPeer {
		w.peer.e.HandlePacket(w.now, &w.toPeer[i])
	}
	w.toPeer = w.toPeer[:0]
	completions(w.peer.scq)
}

func (w *twins) timeouts() {
	at := int64(0)
	for _, s := range []*side{w.peer, w.two[0]} {
		if next, ok := s.e.NextTimeout(); ok && (at == 0 || next < at) {
			at = next
		}
	}
	w.now = max(w.now, at)
	w.peer.e.HandleTimeout(w.now)
	_ = w.both(func(_ int, s *side) error { s.e.HandleTimeout(w.now); return nil })
}

// look returns all that can be seen of a twin.
func (w *twins) look(s *side) string {
	var events []EventType
	for ev, ok := s.e.PollEvent(); ok; ev, ok = s.e.PollEvent() {
		events = append(events, ev.Type)
	}
	attr, _ := s.qp.Query()
	at, armed := s.e.NextTimeout()
	var cqs [2][]WC
	if w.o.cqe != fewCQEs {
		cqs = [2][]WC{completions(s.scq), completions(s.rcq)}
	}
	return fmt.Sprintf("completions %+v\nevents %v\ncounters %+v\nattributes %+v\ntimer %v %v\nonly ACKs %v\nnow %v",
		cqs, events, s.e.Counters(), attr, at, armed, s.e.OnlyAcks(), s.e.now)
}

func (w *twins) compare() {
	require.Equal(w.t, w.look(w.two[1]), w.look(w.two[0]), "by packets, and by runs")
	require.True(w.t, bytes.Equal(w.two[1].data, w.two[0].data), "memory")
}

// Runs of packets have the effect that the packets would have one by one, whatever the connections
// are like and whatever becomes of packets on the way.
func TestRunsAreAsPackets(t *testing.T) {
	kinds := []ib.Opcode{
		ib.RCWriteMiddle, ib.RCSendMiddle, ib.RCReadRespMiddle, ib.RCWriteOnly, ib.RCSendOnly, ib.RCReadRespOnly,
	}
	packets := map[ib.Opcode]uint64{}
	var ended int
	var done, checked uint64
	n := seeds.Run(t, seeds.Fewer(200), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0x2045))
		w := newTwins(t, rng)
		var only ib.Opcode // some seeds have runs of one kind
		if rng.IntN(2) == 0 {
			before := runs
			defer func() { runs = before }()
			runs = [256]bool{}
			only = kinds[rng.IntN(len(kinds))]
			runs[only] = true
			w.op = map[ib.Operation]WROpcode{ib.OpWrite: WRWrite, ib.OpSend: WRSend,
				ib.OpReadResponse: WRRead}[only.Info().Op]
			if w.size = 9000; only.Info().Pos == ib.Only {
				w.size = 64
			}
		}
		for range 600 {
			w.step()
			if w.two[0].qp.State() == StateErr {
				ended++
				break
			}
		}
		w.exchange(64)
		w.receive()
		w.timeouts()
		w.exchange(64)
		w.compare()
		if only != 0 {
			packets[only] += w.two[0].e.run.all
		}
		require.Zero(t, w.two[1].e.run.all)
		c := w.two[0].e.Counters()
		done += c.RDMASends + c.RDMARecvs
		checked += w.checked
	})
	t.Logf("packets in runs: %v; %d of %d connections failed; %d completions; %d packets checked late",
		packets, ended, n, done, checked)
	if n < 100 {
		return
	}
	for _, op := range kinds {
		require.Greater(t, packets[op], uint64(100), op)
	}
	require.NotZero(t, ended)
	require.Less(t, ended, n)
}

// A run stops before what its packets do not share.
func TestRunLength(t *testing.T) {
	packet := func(op ib.Opcode, psn ib.PSN, n int) RxPacket {
		p := pkt(op, psn, pattern(n, 1))
		return RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, TrafficClass: ECT0, Data: encode(nil, &p)}
	}
	regular := func() []RxPacket {
		var rx []RxPacket
		for i := range 5 {
			rx = append(rx, packet(ib.RCWriteMiddle, ib.PSN(ib.PSNMask-1).Add(i), 256))
		}
		return rx
	}
	require.Equal(t, 5, runLength(regular()))
	for name, change := range map[string]func(p *RxPacket){
		"length":      func(p *RxPacket) { p.Data = append(p.Data, 0) },
		"no header":   func(p *RxPacket) { p.Data = p.Data[:7] },
		"opcode":      func(p *RxPacket) { p.Data[0] = byte(ib.RCWriteLast) },
		"solicited":   func(p *RxPacket) { p.Data[1] ^= 0x80 },
		"padding":     func(p *RxPacket) { p.Data[1] ^= 0x10 },
		"P_Key":       func(p *RxPacket) { p.Data[3] ^= 1 },
		"BECN":        func(p *RxPacket) { p.Data[4] ^= 0x40 },
		"QP":          func(p *RxPacket) { p.Data[7] ^= 1 },
		"reserved":    func(p *RxPacket) { p.Data[8] ^= 1 },
		"PSN":         func(p *RxPacket) { p.Data[11] ^= 1 },
		"mark":        func(p *RxPacket) { p.TrafficClass |= ECNCE },
		"class":       func(p *RxPacket) { p.TrafficClass ^= 4 },
		"source":      func(p *RxPacket) { p.Src = rigSelf },
		"destination": func(p *RxPacket) { p.Dst = rigOther },
		"datagram":    func(p *RxPacket) { p.InRun = true },
	} {
		rx := regular()
		change(&rx[3])
		require.Equal(t, 3, runLength(rx), name)
	}
	rx := regular()
	rx[2].Data[8] ^= 0x80
	require.Equal(t, 5, runLength(rx), "AckReq is of each packet")
	for i := range rx {
		rx[i].TrafficClass |= ECNCE
	}
	require.Equal(t, 1, runLength(rx), "a mark is handled by itself")
	require.Equal(t, 1, runLength([]RxPacket{packet(ib.RCReadRequest, 1, 0), packet(ib.RCReadRequest, 2, 0)}))
	require.Equal(t, 1, runLength([]RxPacket{{}, {}}))
}

// Who traces sees every packet.
func TestRunIsTraced(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	var psns []ib.PSN
	r.e.cfg.Tracer = traceFunc(func(e TraceEvent) {
		if e.Kind == TraceRxPacket {
			psns = append(psns, e.PSN)
		}
	})
	batch := writeRun(r, 4)
	r.e.HandlePackets(r.now, batch)
	require.Equal(t, []ib.PSN{rigPSN, rigPSN + 1, rigPSN + 2, rigPSN + 3}, psns)
	require.Zero(t, r.e.run.all)
	r.e.cfg.Tracer = nil
	for i := range batch {
		batch[i].Data[11] += 4
	}
	r.e.HandlePackets(r.now, batch)
	require.EqualValues(t, 4, r.e.run.all)
	require.EqualValues(t, 8, r.qp.resp.msn)
}

// What a sequence NAK asked for may come in a run. That, too, tells how long a repair takes, before
// which the NAK of the next gap is not repeated.
func TestRunRepairs(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{GoBackN: true}})
	batch := writeRun(r, 4)
	r.e.HandlePackets(r.now, batch[2:3])
	r.want("NAK PSN sequence error 100 msn 0")
	r.advance(ms)
	r.e.HandlePackets(r.now, batch)
	require.EqualValues(t, 4, r.e.run.all)
	require.EqualValues(t, ms, r.qp.resp.repairNs)
}

// writeRun returns n WRITE ONLY packets of 16 bytes, one behind the other.
func writeRun(r *rig, n int) (batch []RxPacket) {
	for i := range n {
		p := pkt(ib.RCWriteOnly, rigPSN+ib.PSN(i), pattern(16, byte(i)))
		r.reth(16*i, 16)(&p)
		batch = append(batch, RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, Data: encode(nil, &p)})
	}
	return batch
}

// Memory that is not there ends a run at the packet that meets it: a WRITE and a SEND of several
// packets, of which the first fit, and the response to a READ.
func TestRunEndsAtFault(t *testing.T) {
	for _, op := range []WROpcode{WRWrite, WRSend, WRRead} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			panicOnFault(t)
			w := &twins{t: t, rng: rand.New(rand.NewPCG(1, 1)), now: 1e9, o: loopOptions{
				typ: ib.RC, mtu: ib.MTU1024, psn: 1, data: 1 << 16, iova: 1 << 20, cqe: 64,
				caps: QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2},
			}}
			w.peer = newSide(t, "10.0.0.1", 'a', w.o)
			fill(w.peer.data, 3)
			half := make([][]byte, 2)
			var wr [2]SendWR
			for i := range w.two {
				s := newSide(t, "10.0.0.2", 'b', w.o)
				w.two[i], w.batch[i] = s, make([]TxPacket, 64)
				(&loop{t: t, now: w.now}).connect(s, w.peer, w.o)
				var lost *mem.Region
				half[i], lost = halfLost(t, s)
				sge := SGE{Addr: lost.IOVA(), Length: 16 << 10, LKey: lost.LKey()}
				switch op {
				case WRSend:
					require.NoError(t, s.qp.PostRecv(&RecvWR{ID: 7, SGList: []SGE{sge}}))
				case WRRead:
					wr[i] = SendWR{ID: 8, Opcode: op, Flags: SendSignaled, SGList: []SGE{sge},
						RemoteAddr: w.peer.region.IOVA(), RKey: w.peer.region.RKey()}
				default:
					wr[i] = SendWR{RemoteAddr: lost.IOVA(), RKey: lost.RKey()}
				}
			}
			require.Equal(t, wr[0], wr[1])
			(&loop{t: t, now: w.now}).connect(w.peer, w.two[0], w.o)
			if op == WRRead {
				require.NoError(t, w.both(func(i int, s *side) error { return s.qp.PostSend(w.now, &wr[i]) }))
				w.exchange(64)
				w.receive()
			} else {
				wr[0].Opcode, wr[0].SGList = op, []SGE{w.peer.at(0, 16<<10)}
				require.NoError(t, w.peer.qp.PostSend(w.now, &wr[0]))
			}
			w.exchange(64)
			require.Len(t, w.toTwins, 16)
			w.two[0].e.HandlePackets(w.now, w.toTwins)
			for i := range w.toTwins {
				w.two[1].e.HandlePackets(w.now, w.toTwins[i:i+1])
			}
			require.EqualValues(t, 8, w.two[0].e.run.all, "the second to the one that met it")
			require.Zero(t, w.two[1].e.run.all)
			w.compare()
			w.toTwins = nil
			w.exchange(64)
			require.Equal(t, StateErr, w.two[0].qp.State())
			require.Equal(t, w.peer.data[:8<<10], half[0])
			require.Equal(t, half[1], half[0])
		})
	}
}

// Runs allocate nothing.
func TestRunsDoNotAllocate(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	batch := writeRun(r, 32)
	psn := ib.PSN(rigPSN)
	step := func() {
		for i := range batch {
			d := batch[i].Data
			d[9], d[10], d[11] = byte(psn>>16), byte(psn>>8), byte(psn)
			psn = psn.Next()
		}
		r.e.HandlePackets(r.now, batch)
		for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
		}
	}
	for range 10 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(100, step))
	require.EqualValues(t, 32*111, r.e.run.all)
	require.EqualValues(t, 32*111, r.qp.resp.msn)
}

// FuzzRuns gives two engines the same packets, together and one by one. The input is bytes to
// change in a batch of good ones.
func FuzzRuns(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(1), []byte{3, 8, 0x80, 5, 1, 2})
	f.Add(byte(2), []byte{1, 11, 1, 1, 11, 1})
	f.Add(byte(3), []byte{7, 0, byte(ib.RCSendOnly), 9, 20, 1})
	f.Fuzz(func(t *testing.T, kind byte, changes []byte) {
		var rigs [2]*attacker
		var batch []RxPacket
		for i := range rigs {
			h := newAttacker(t, ib.RC)
			for range 8 {
				h.r.post(h.posted, 2000, 1024)
				h.posted++
			}
			rigs[i] = h
		}
		r := rigs[0].r
		for i := range 24 {
			op := []ib.Opcode{ib.RCWriteMiddle, ib.RCSendMiddle, ib.RCWriteOnly, ib.RCSendOnly}[kind%4]
			switch {
			case i == 0 && op == ib.RCWriteMiddle:
				op = ib.RCWriteFirst
			case i%7 == 0 && op == ib.RCSendMiddle:
				op = ib.RCSendFirst
			case i%7 == 6 && op == ib.RCSendMiddle:
				op = ib.RCSendLast
			}
			p := pkt(op, r.psn.Add(i), pattern(256, byte(i)))
			p.AckReq = i%3 == 0
			r.reth(256*i, 256)(&p)
			if op == ib.RCWriteFirst {
				p.RETH.Len = 256 * 30
			}
			batch = append(batch, RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, Data: encode(nil, &p)})
		}
		for ; len(changes) >= 3; changes = changes[3:] {
			d := batch[int(changes[0])%len(batch)].Data
			d[int(changes[1])%len(d)] ^= changes[2]
		}
		rigs[0].r.e.HandlePackets(r.now, batch)
		for i := range batch {
			rigs[1].r.e.HandlePacket(r.now, &batch[i])
		}
		var seen [2]string
		for i, h := range rigs {
			seen[i] = fmt.Sprintf("%v %+v %v %+v", h.r.poll(), h.r.wcs(), h.r.events(), h.r.e.Counters())
			h.r.canaries()
		}
		require.Equal(t, seen[1], seen[0], "one by one, and together")
		require.True(t, slices.Equal(rigs[1].r.raw, rigs[0].r.raw))
		require.True(t, slices.Equal(rigs[1].r.recv.Bytes(), rigs[0].r.recv.Bytes()))
	})
}
