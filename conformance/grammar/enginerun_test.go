package grammar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// EngineRun is an engine that listens to a Speaker, in virtual time, with an application of its
// own.
type EngineRun struct {
	Speaker *Speaker
	Engine  *transport.Engine

	d         *Dice
	now       int64
	table     *mem.Table
	pd        *mem.PD
	cqs       [2]*transport.CQ
	srq       *transport.SRQ
	qps       []*qp
	regions   []*region
	window    *mem.Window
	ah        *transport.AH
	selective bool // the engine knows selective repeat
	tx        []transport.TxPacket
	rx        []transport.RxPacket
	rxData    [][]byte
	wcs       []transport.WC
	frame     []byte
	wrID      uint64
	traced    transport.TraceEvent // the last one

	// Said, Heard, Posted, Done, Lives and Events count: packets to the engine and from it, work
	// requests that it took, completions, connections made, and asynchronous events.
	Said, Heard, Posted, Done, Lives, Events uint64
}

// qp is a queue pair and the speaker's connection with it.
type qp struct {
	*transport.QP
	conn   *Conn
	i      int
	deadAt uint64 // Said when it was found in error; 0: it is not
}

// region is registered memory between guards, which nobody may write.
type region struct {
	*mem.Region
	whole []byte
	n     int
}

const (
	engineQPs  = 8
	guardBytes = 64
	guardByte  = 0xa5
	batchBytes = 8
	mostSent   = 4096 // batches that may follow one step
	cqSize     = 4096
	sgePieces  = 6
)

var (
	engineAddr   = netip.MustParseAddr("192.0.2.1")
	speakerAddr  = netip.MustParseAddr("192.0.2.2")
	strangerAddr = netip.MustParseAddr("192.0.2.3")
	groupAddr    = netip.MustParseAddr("239.1.2.3")
)

// NewEngineRun makes one. The options of the engine, too, follow from the choices.
func NewEngineRun(d *Dice) (*EngineRun, error) {
	r := &EngineRun{
		Speaker: newSpeaker(d), d: d, now: 1e9, tx: make([]transport.TxPacket, 16),
		rx: make([]transport.RxPacket, batchBytes), rxData: make([][]byte, batchBytes), wcs: make([]transport.WC, 64),
	}
	rng := rand.NewChaCha8([32]byte{d.Byte(), d.Byte()})
	r.table = mem.NewTable(rng, mem.Limits{})
	var err error
	if r.pd, err = r.table.AllocPD(); err != nil {
		return nil, err
	}
	flags, more := d.Byte(), d.Byte()
	cfg := transport.Config{
		GIDs: []netip.Addr{engineAddr}, MTU: ib.MTU4096, Mem: r.table, Rand: rng, GSO: flags&1 != 0,
		Tuning: transport.Tuning{GoBackN: flags&2 == 0, EndToEndCredits: flags&4 != 0,
			WholeMessages: flags&8 != 0, PatientRetries: flags&16 != 0, DisableAckCoalesce: flags&224 == 224},
	}
	r.selective = !cfg.Tuning.GoBackN
	if flags&96 == 96 {
		cfg.Room = transport.Room{Size: 1 << 16, PerPacket: 256, PerByte: 1}
	}
	if more&6 == 6 {
		cfg.Tracer = r
	}
	if more&24 == 24 {
		cfg.Tuning.LossProbe, cfg.Tuning.SeqNAKRearm, cfg.Tuning.MaxUnackedPackets = -1, time.Millisecond, 16
	}
	if r.Engine, err = transport.New(cfg); err != nil {
		return nil, err
	}
	if more&1 != 0 { // as a program in C has it
		r.cqs[0], err = r.Engine.CreateRingCQ(cqSize, make([]byte, transport.RingBytes(cqSize)), nil)
	} else {
		r.cqs[0], err = r.Engine.CreateCQ(cqSize, nil)
	}
	if err != nil {
		return nil, err
	}
	if r.cqs[1], err = r.Engine.CreateCQ(cqSize, nil); err != nil {
		return nil, err
	}
	if r.srq, err = r.Engine.CreateSRQ(r.pd, transport.SRQAttr{MaxWR: 32, MaxSGE: sgePieces}, nil); err != nil {
		return nil, err
	}
	all := mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal | mem.MWBind
	for _, x := range []struct {
		n      int
		access mem.Access
	}{{1 << 18, all}, {4096, all}, {4096, mem.LocalWrite | mem.RemoteRead}, {100,
		mem.LocalWrite | mem.RemoteWrite | mem.RemoteAtomic}} {
		if err = r.register(x.n, x.access); err != nil {
			return nil, err
		}
	}
	if r.window, err = r.table.AllocMW(r.pd, mem.Type2B); err != nil {
		return nil, err
	}
	if r.ah, err = r.Engine.CreateAH(r.pd, transport.AddressVector{DGID: ib.GIDFromAddr(speakerAddr)}); err != nil {
		return nil, err
	}
	for len(r.qps) < engineQPs {
		if err = r.create(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *EngineRun) register(n int, access mem.Access) error {
	whole := make([]byte, n+2*guardBytes)
	for i := range whole {
		whole[i] = guardByte
	}
	m, err := r.table.Register(r.pd,
		mem.RegionAttr{Bytes: whole[guardBytes : guardBytes+n : guardBytes+n], Access: access})
	if err == nil {
		r.regions = append(r.regions, &region{m, whole, n})
		r.Speaker.Memory = append(r.Speaker.Memory, Memory{
			Addr: m.IOVA(), Len: n, Key: m.RKey(), Read: access.Has(mem.RemoteRead),
			Write: access.Has(mem.RemoteWrite), Atomic: access.Has(mem.RemoteAtomic),
			Flush: access.Has(mem.FlushGlobal),
		})
	}
	return err
}

// create adds a queue pair, and the speaker's end of it.
func (r *EngineRun) create() error {
	i := len(r.qps)
	q := &qp{i: i}
	if err := r.make(q); err != nil {
		return err
	}
	r.qps = append(r.qps, q)
	return r.connect(q)
}

// make makes the queue pair of q.
func (r *EngineRun) make(q *qp) error {
	a := transport.QPInitAttr{
		Type: [engineQPs]ib.Transport{ib.RC, ib.RC, ib.UC, ib.UD, ib.RC, ib.RC, ib.RC, ib.UC}[q.i%engineQPs],
		PD:   r.pd, SendCQ: r.cqs[0], RecvCQ: r.cqs[1], Caps: transport.QPCaps{MaxSendWR: 16, MaxRecvWR: 16,
			MaxSendSGE: sgePieces, MaxRecvSGE: sgePieces, MaxInline: 64},
		SigAll: q.i == 5,
	}
	switch q.i % engineQPs {
	case 0:
		a.Congestion = &cc.Config{Algorithm: cc.ByDelay, Target: 20 * time.Microsecond}
	case 1:
		a.SRQ = r.srq
	case 4:
		a.Congestion = &cc.Config{Algorithm: cc.DCQCNPaper, StartRate: cc.Gbps, CutOnNAK: true}
	case 6:
		a.Congestion = &cc.Config{Algorithm: cc.DCQCNMellanox, Capped: true, Burst: -1}
	}
	x, err := r.Engine.CreateQP(a)
	if err != nil {
		return err
	}
	if q.conn == nil {
		q.conn = &Conn{Type: a.Type, Own: ib.QPN(0xabc00 + q.i), QKey: 0x11111111}
	}
	q.QP, q.conn.Target = x, x.Number()
	return nil
}

// connect takes a queue pair from RESET to RTS, and mostly that far.
func (r *EngineRun) connect(q *qp) error {
	r.Engine.SetMTU(ib.MTU4096) // what the application may have changed
	mtu := [...]ib.MTU{ib.MTU256, ib.MTU1024, ib.MTU256, ib.MTU4096}[r.d.N(4)]
	next, first := ib.PSN(r.d.U32())&ib.PSNMask, ib.PSN(r.d.U32())&ib.PSNMask
	if r.d.OneIn(2) {
		next, first = ib.PSNMask-5, ib.PSNMask-7
	}
	timeout := ib.TimeoutCode(r.d.N(16))
	a := transport.QPAttr{
		Access:  mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal | mem.FlushPersistent,
		PortNum: 1, QKey: q.conn.QKey, AV: transport.AddressVector{DGID: ib.GIDFromAddr(speakerAddr)},
		PathMTU: mtu, DestQPN: q.conn.Own, RQPSN: next, SQPSN: first, MaxRdAtomic: uint8(1 + r.d.N(4)),
		MaxDestRdAtomic: uint8(1 + r.d.N(4)), MinRNRTimer: ib.RNRCode(1 + r.d.N(31)), Timeout: timeout,
		RetryCnt: uint8(r.d.N(8)), RNRRetry: uint8(r.d.N(8)),
	}
	until := transport.StateRTS
	if r.d.OneIn(16) {
		until = transport.StateRTR
	}
	const av = transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN
	steps := [3]transport.AttrMask{transport.AttrAccess, av, transport.AttrSQPSN}
	switch q.conn.Type {
	case ib.RC:
		steps[1] |= transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer
		steps[2] |= transport.AttrTimeout | transport.AttrRetryCnt | transport.AttrRNRRetry | transport.AttrMaxRdAtomic
	case ib.UD:
		steps[0], steps[1] = transport.AttrQKey, 0
	}
	if q.conn.Type == ib.RC && r.d.OneIn(4) {
		a.MaxUnackedPackets, a.SilenceNs = r.d.N(64), int64(r.d.U16())<<10
		steps[2] |= transport.AttrWindow | transport.AttrSilence
	}
	steps[0] |= transport.AttrPKeyIndex | transport.AttrPort
	for i, s := range []transport.QPState{transport.StateInit, transport.StateRTR, transport.StateRTS} {
		if s > until {
			break
		}
		a.State = s
		if err := q.Modify(r.now, a, transport.AttrState|steps[i]); err != nil {
			return fmt.Errorf("grammar: queue pair %d to %v: %w", q.i, s, err)
		}
	}
	q.conn.MTU, q.conn.Depth, q.conn.MostSend, q.deadAt = mtu.Bytes(), int(a.MaxDestRdAtomic), 1<<15, 0
	if q.conn.Type == ib.UD {
		q.conn.MTU = ib.MTU4096.Bytes()
	}
	r.Speaker.Connect(q.conn, next, first)
	r.Lives++
	for range 4 {
		r.postRecv(q)
	}
	return nil
}

// deadFor is how many packets more a queue pair in the error state gets.
const deadFor = 40

// Step is one packet, or a batch of them, and what the application does between.
func (r *EngineRun) Step() error {
	if r.d.OneIn(4) {
		if err := r.application(); err != nil {
			return err
		}
	}
	n := 0
	for want := 1 + r.d.N(4)*r.d.N(3); n < want && n < batchBytes; {
		p, ok := r.Speaker.Say()
		want--
		if !ok {
			continue
		}
		want++
		b := append(r.rxData[n][:0], p.Data...)
		if len(b) < ib.BTHBytes+ib.ICRCBytes && r.d.OneIn(2) {
			b = append(b, make([]byte, ib.ICRCBytes)...)
		}
		r.rxData[n] = b
		x := transport.RxPacket{Src: speakerAddr, Dst: engineAddr, TrafficClass: p.TrafficClass, HopLimit: 64,
			SrcPort: 4791, Data: b}
		if p.Stranger {
			x.Src = strangerAddr
			if r.d.OneIn(2) {
				x.Src, x.Dst = speakerAddr, groupAddr
				if len(b) >= ib.BTHBytes && r.d.OneIn(2) {
					b[5], b[6], b[7] = 0xff, 0xff, 0xff
				}
			}
		}
		if p.BadICRC || r.d.OneIn(16) {
			x.ICRC = transport.ICRCUnknown
		}
		r.rx[n] = x
		n++
	}
	r.Said += uint64(n)
	if r.d.OneIn(8) {
		r.Engine.HandlePackets(r.now, r.rx[:n])
	} else {
		r.Engine.HandleUnverified(r.now, r.rx[:n], r)
	}
	r.now += int64(r.d.N(64)) * 100
	if at, ok := r.Engine.NextTimeout(); ok && at <= r.now {
		r.Engine.HandleTimeout(r.now)
	}
	return r.transmit()
}

// Trace takes an event.
func (r *EngineRun) Trace(ev transport.TraceEvent) { r.traced = ev }

// Check says of each packet that is not verified that it is right, mostly.
func (r *EngineRun) Check(int, *transport.RxPacket) bool { return !r.d.OneIn(8) }

// transmit takes what the engine sends, and has the speaker hear it.
func (r *EngineRun) transmit() error {
	for range mostSent {
		n := r.Engine.PollTransmit(r.now, r.tx)
		if n == 0 {
			return r.events()
		}
		for i := range r.tx[:n] {
			tx := &r.tx[i]
			r.frame = append(tx.AppendTo(r.frame[:0]), 0, 0, 0, 0)
			r.Heard++
			p, ok := r.Speaker.Hear(r.frame)
			if !ok || tx.UDPPayloadLen() != len(r.frame) {
				return fmt.Errorf("grammar: the engine sent %d bytes that are no packet: % x", len(r.frame),
					r.frame[:min(len(r.frame), 64)])
			}
			if !r.admits(p, r.mtuOf(tx.SrcQP)) {
				return fmt.Errorf("grammar: the engine sent %v with %d bytes", p.Opcode, len(p.Payload))
			}
		}
	}
	return fmt.Errorf("grammar: the engine goes on sending without an end at packet %d", r.Said)
}

// admits reports whether a packet of the engine may have the payload that it has: a sequence NAK
// between two that know selective repeat has a map of what has come.
func (r *EngineRun) admits(p *ib.Packet, mtu int) bool {
	if r.selective && p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome == ib.NAKSequence {
		return len(p.Payload) <= mtu && len(p.Payload)%4 == 0
	}
	return p.Opcode.Info().Payload.Admits(len(p.Payload), mtu)
}

func (r *EngineRun) mtuOf(n ib.QPN) int {
	for _, q := range r.qps {
		if q.conn.Target == n {
			return q.conn.MTU
		}
	}
	return 0
}

// events takes what the engine tells, and makes connections again that have ended.
func (r *EngineRun) events() error {
	for {
		if _, ok := r.Engine.PollEvent(); !ok {
			break
		}
		r.Events++
	}
	for _, q := range r.qps {
		dead := q.State() == transport.StateErr || q.State() == transport.StateSQE || q.conn.Dead
		switch {
		case !dead:
		case q.deadAt == 0:
			q.deadAt = r.Said + 1
		case r.Said > q.deadAt+deadFor:
			if err := r.again(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// again makes a connection anew, with the same queue pair or with another one.
func (r *EngineRun) again(q *qp) error {
	if r.d.OneIn(4) {
		if err := q.Destroy(); err != nil {
			return err
		}
		r.poll()
		if err := r.make(q); err != nil {
			return err
		}
		return r.connect(q)
	}
	if err := q.Modify(r.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState); err != nil {
		return err
	}
	return r.connect(q)
}

func (r *EngineRun) poll() {
	for _, cq := range r.cqs {
		for {
			n := cq.Poll(r.wcs)
			r.Done += uint64(n)
			if n == 0 {
				break
			}
		}
	}
}

// Guards returns an error if a byte beside a region has changed.
func (r *EngineRun) Guards() error {
	for i, m := range r.regions {
		for j := range guardBytes {
			if m.whole[j] != guardByte || m.whole[len(m.whole)-1-j] != guardByte {
				return fmt.Errorf("grammar: byte %d beside region %d has changed", j, i)
			}
		}
	}
	return nil
}

// Finish lets what is outstanding end, and takes everything down: nothing may be left.
func (r *EngineRun) Finish() error {
	for range 200 {
		at, ok := r.Engine.NextTimeout()
		if !ok {
			break
		}
		r.now = max(r.now, at)
		r.Engine.HandleTimeout(r.now)
		if err := r.transmit(); err != nil {
			return err
		}
	}
	r.poll()
	for _, q := range r.qps {
		if err := q.Destroy(); err != nil {
			return err
		}
	}
	r.poll()
	if err := errors.Join(r.srq.Destroy(), r.cqs[0].Destroy(), r.cqs[1].Destroy()); err != nil {
		return err
	}
	if at, armed := r.Engine.NextTimeout(); armed {
		return fmt.Errorf("grammar: a timer for %d outlived the queue pairs", at)
	}
	if n := r.Engine.PollTransmit(r.now, r.tx); n != 0 {
		return fmt.Errorf("grammar: %d packets outlived the queue pairs", n)
	}
	_ = r.window.Dealloc(nil)
	for _, m := range r.regions {
		if err := m.Deregister(nil); err != nil {
			return err
		}
	}
	return r.Guards()
}

// sum is a number that two runs of the same choices must agree on.
func (r *EngineRun) sum() uint64 {
	h := r.Said
	for _, m := range r.regions {
		for i := 0; i+8 <= len(m.whole); i += 8 {
			h = h*0x100000001b3 ^ binary.LittleEndian.Uint64(m.whole[i:])
		}
	}
	return h*31 + r.Heard*7 + r.Done
}
