package transport_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// FuzzEngine interprets its input as a program: packets of any content, mostly such as get past the
// first checks, and calls of the API with any arguments, in any order, on an engine with QPs of all
// types. Nothing may panic or go on for ever, no byte outside registered memory may change, and
// every packet that comes out is well formed.
func FuzzEngine(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		b := make([]byte, 200+40*i)
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, program []byte) { newFuzzer(t, program).run() })
}

// fuzzer runs one program.
type fuzzer struct {
	*puppet
	in    []byte
	qps   []*transport.QP
	conns []transport.QPAttr
	cqs   []*transport.CQ
	srqs  []*transport.SRQ
	ahs   []*transport.AH
	mrs   []*mem.Region
	mws   []*mem.Window
	extra [][]byte // memory of mrs, with guards
	tx    []transport.TxPacket
	asked map[ib.QPN][]ib.Packet // requests that the engine sent, the last few of each QP
}

const fuzzQPs = 8

var gidMulticast = ib.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))

func newFuzzer(t *testing.T, program []byte) *fuzzer {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.logging = false
	z := &fuzzer{puppet: d, in: program, tx: make([]transport.TxPacket, 4), asked: map[ib.QPN][]ib.Packet{}}
	z.cqs = []*transport.CQ{d.a.cq}
	z.qps = []*transport.QP{d.a.qp}
	z.conns = []transport.QPAttr{d.a.attr}
	z.addCQ(3)
	srq, err := d.a.eng.CreateSRQ(d.a.pd, transport.SRQAttr{MaxWR: 3, MaxSGE: 2}, nil)
	require.NoError(t, err)
	z.srqs = append(z.srqs, srq)
	for len(z.qps) < fuzzQPs {
		z.addQP()
	}
	z.addMR(100, allAccess)
	ah, err := d.a.eng.CreateAH(d.a.pd, transport.AddressVector{DGID: ib.GIDFromAddr(d.b.addr)})
	require.NoError(t, err)
	z.ahs = append(z.ahs, ah)
	w, err := d.a.mem.AllocMW(d.a.pd, mem.Type2B)
	require.NoError(t, err)
	z.mws = append(z.mws, w)
	return z
}

// Reading of the program; past its end everything is 0.

func (z *fuzzer) u8() byte {
	if len(z.in) == 0 {
		return 0
	}
	b := z.in[0]
	z.in = z.in[1:]
	return b
}
func (z *fuzzer) u16() uint16    { return uint16(z.u8())<<8 | uint16(z.u8()) }
func (z *fuzzer) u32() uint32    { return uint32(z.u16())<<16 | uint32(z.u16()) }
func (z *fuzzer) u64() uint64    { return uint64(z.u32())<<32 | uint64(z.u32()) }
func (z *fuzzer) pick(n int) int { return int(z.u8()) % n }

// small is mostly a small number, sometimes any.
func (z *fuzzer) small() uint32 {
	switch b := z.u8(); {
	case b < 128:
		return uint32(b)
	case b < 250:
		return uint32(z.u16()) % 5000
	}
	return z.u32()
}

func (z *fuzzer) addCQ(n int) {
	if cq, err := z.a.eng.CreateCQ(n, nil); err == nil && len(z.cqs) < 6 {
		z.cqs = append(z.cqs, cq)
	}
}

func (z *fuzzer) addMR(n int, access mem.Access) {
	whole := make([]byte, n+2*guardBytes)
	for i := range whole {
		whole[i] = guardByte
	}
	r, err := z.a.mem.Register(z.a.pd, mem.RegionAttr{Bytes: whole[guardBytes : guardBytes+n], Access: access})
	if err == nil && len(z.mrs) < 8 {
		z.mrs, z.extra = append(z.mrs, r), append(z.extra, whole)
	}
}

// addQP makes a QP of a type and in a state that follow from its number.
func (z *fuzzer) addQP() {
	i := len(z.qps)
	a := transport.QPInitAttr{
		Type: []ib.Transport{ib.RC, ib.RC, ib.UC, ib.UD, ib.RC, ib.RC, ib.UC, ib.UD}[i%8], PD: z.a.pd,
		SendCQ: z.cqs[i%len(z.cqs)], RecvCQ: z.cqs[0],
		Caps: transport.QPCaps{MaxSendWR: 5, MaxRecvWR: 3, MaxSendSGE: 3, MaxRecvSGE: 2, MaxInline: 40},
	}
	if i%8 == 1 || i%8 == 7 {
		a.SRQ = z.srqs[0]
	}
	switch i % 8 { // RC and UC in RTS, RC in RTR
	case 1:
		a.Congestion = &cc.Config{Algorithm: cc.DCQCNPaper, StartRate: cc.Gbps, CutOnNAK: true}
	case 2, 4:
		a.Congestion = &cc.Config{Algorithm: cc.DCQCNMellanox, Capped: true, Burst: -1}
	}
	qp, err := z.a.eng.CreateQP(a)
	if err != nil {
		return
	}
	z.qps = append(z.qps, qp)
	z.a.qps = append(z.a.qps, qp)
	l := &link{end: z.a.end, qp: qp, attr: z.a.attr}
	z.conns = append(z.conns, l.attr)
	l.bringUp([]transport.QPState{3, 3, 3, 3, 2, 1, 3, 2}[i%8])
}

func (z *fuzzer) run() {
	for range 600 {
		if len(z.in) == 0 {
			break
		}
		z.op()
		z.transmit(40)
		z.a.takeEvents()
		z.a.events = z.a.events[:0]
		if z.u8() < 200 {
			pollCQ(z.cqs[0])
		}
	}
	for range 50 { // what is outstanding ends, or waits
		at, ok := z.a.eng.NextTimeout()
		if !ok {
			break
		}
		z.now = max(z.now, at)
		z.a.eng.HandleTimeout(z.now)
		z.transmit(1000)
	}
	for _, cq := range z.cqs {
		pollCQ(cq)
	}
	z.checkExtra()
	z.finish()
}

// transmit lets the engine send at most n batches.
func (z *fuzzer) transmit(n int) {
	for range n {
		k := z.a.eng.PollTransmit(z.now, z.tx)
		if k == 0 {
			return
		}
		for i := range z.tx[:k] {
			tx := &z.tx[i]
			var p ib.Packet
			data := append(tx.AppendTo(nil), 0, 0, 0, 0)
			if err := p.Decode(data); err != ib.DecodeOK {
				z.t.Fatalf("sent % x: %v", data, err)
			}
			if !p.Opcode.Info().Payload.Admits(len(p.Payload), 1024) {
				z.t.Fatalf("sent %v with %d bytes", p.Opcode, len(p.Payload))
			}
			if q := z.asked[tx.SrcQP]; !p.Opcode.Info().Response {
				p.Payload = nil
				z.asked[tx.SrcQP] = append(q[max(0, len(q)-5):], p)
			}
		}
	}
}

func (z *fuzzer) checkExtra() {
	for _, whole := range z.extra {
		for i := range guardBytes {
			if whole[i] != guardByte || whole[len(whole)-1-i] != guardByte {
				z.t.Fatalf("guard byte %d of a region changed", i)
			}
		}
	}
}

// finish destroys everything, in an order that works.
func (z *fuzzer) finish() {
	for _, w := range z.mws {
		_ = w.Dealloc(nil)
	}
	for _, qp := range z.qps {
		_ = qp.Destroy()
	}
	for _, r := range z.mrs {
		_ = r.Deregister(nil)
	}
}

// op runs one instruction.
func (z *fuzzer) op() {
	i := z.pick(len(z.qps))
	qp := z.qps[i]
	if qp.State() == transport.StateErr && z.u8() < 220 {
		z.revive(i)
	}
	switch op := z.u8(); {
	case op < 140:
		z.packet(qp)
	case op < 180:
		wr := z.goodSend(qp.Type())
		if op < 145 {
			wr = z.sendWR()
		}
		_ = qp.PostSend(z.now, &wr)
	case op < 205:
		wr := transport.RecvWR{ID: uint64(z.u8()), SGList: z.sges()}
		_ = qp.PostRecv(&wr)
		_ = z.srqs[z.pick(len(z.srqs))].PostRecv(&wr)
	case op < 215:
		z.now += int64(z.u32()) << (z.u8() % 8)
		if at, ok := z.a.eng.NextTimeout(); ok && at <= z.now {
			z.a.eng.HandleTimeout(z.now)
		}
	case op < 225:
		_ = qp.Modify(z.now, z.attr(), z.mask())
	case op < 228:
		z.revive(i)
	case op < 236:
		cq := z.cqs[z.pick(len(z.cqs))]
		pollCQ(cq)
		cq.Arm(op&1 == 0)
	case op < 238:
		_ = z.cqs[z.pick(len(z.cqs))].Resize(int(z.small()) % 5000)
	case op < 240:
		_ = z.srqs[0].Modify(int(int8(z.u8())), int(int8(z.u8())))
	case op < 242:
		_ = z.mrs[z.pick(len(z.mrs))].Deregister(nil)
	case op < 244:
		z.addMR(int(z.u16()), mem.Access(z.u16()))
	case op < 246:
		z.addCQ(int(z.u16()))
		if len(z.qps) < 16 {
			z.addQP()
		}
	case op < 247:
		_ = qp.Destroy()
	case op < 248:
		_ = qp.AttachMcast(gidMulticast)
	case op < 250:
		_ = z.cqs[z.pick(len(z.cqs))].Destroy()
		_ = z.srqs[0].Destroy()
	case op < 252:
		ah, err := z.a.eng.CreateAH(z.a.pd,
			transport.AddressVector{DGID: ib.GIDFromAddr(z.b.addr), SGIDIndex: int(int8(z.u8())), FlowLabel: z.u32()})
		if err == nil {
			z.ahs = append(z.ahs, ah)
		}
		_ = z.ahs[0].Destroy()
	default:
		qp.Query()
		z.a.eng.Counters()
	}
}

// answerTo returns an opcode that may answer the request.
func answerTo(request *ib.Packet, choice ib.Opcode) ib.Opcode {
	if choice%4 == 0 {
		return ib.RCAcknowledge
	}
	switch request.Opcode.Info().Op {
	case ib.OpRead, ib.OpFlush, ib.OpAtomicWrite:
		switch {
		case request.RETH.Len <= 1024 || request.Opcode != ib.RCReadRequest:
			return ib.RCReadRespOnly
		case choice%4 == 1:
			return ib.RCReadRespFirst
		}
		return ib.RCReadRespMiddle + choice%2
	case ib.OpCompareSwap, ib.OpFetchAdd:
		return ib.RCAtomicAck
	}
	return ib.RCAcknowledge
}

// mask selects some attributes, few as a rule, and the state.
func (z *fuzzer) mask() transport.AttrMask {
	m := transport.AttrMask(z.u32())
	return m&transport.AttrMask(z.u32()) | transport.AttrState
}

// revive takes a QP through RESET to RTS.
func (z *fuzzer) revive(i int) {
	if z.qps[i].Modify(z.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState) == nil {
		(&link{end: z.a.end, qp: z.qps[i], attr: z.conns[i]}).bringUp(transport.StateRTS)
	}
}

// packet delivers bytes: of any kind, or shaped for the QP and then perhaps damaged.
func (z *fuzzer) packet(qp *transport.QP) {
	if z.u8() < 10 {
		n := min(int(z.u16())%300, len(z.in))
		data := z.in[:n:n]
		z.in = z.in[n:]
		z.deliverRaw(append([]byte(nil), data...))
		return
	}
	op := ib.Opcode(z.u8())
	var request *ib.Packet // that this may answer
	if q := z.asked[qp.Number()]; len(q) > 0 && op < 100 {
		request = &q[int(op)%len(q)]
		op = answerTo(request, op)
	}
	if !op.Known() || op.Info().Transport != qp.Type() && op != ib.CNP {
		class := map[ib.Transport]ib.Opcode{ib.RC: 0, ib.UC: 0x20, ib.UD: 0x60}[qp.Type()]
		op = class | op&0x1F
	}
	a, _ := qp.Query()
	p := ib.Packet{BTH: ib.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: qp.Number()}}
	p.PSN = a.RQPSN
	if op.Info().Response {
		p.PSN = a.SQPSN.Prev()
	}
	if request != nil {
		p.PSN = request.PSN
	}
	if b := z.u8(); b > 200 {
		p.PSN = p.PSN.Add(int(b)%8 - 5)
	}
	flags := z.u8()
	p.AckReq, p.Solicited = flags&1 != 0, flags&2 != 0
	rkey, va := z.key(), z.address()
	p.RETH = ib.RETH{VA: va, RKey: ib.RKey(rkey), Len: z.small()}
	p.Atomic = ib.AtomicETH{VA: va &^ uint64(flags>>5&7), RKey: ib.RKey(rkey), SwapAdd: 1, Compare: uint64(flags)}
	p.AETH = ib.AETH{Syndrome: ib.Syndrome(z.u8()), MSN: ib.MSN(z.u8())}
	if flags&0xC != 0 {
		p.AETH.Syndrome = ib.ACKNoCredits
	}
	p.DETH = ib.DETH{QKey: 0x11111111, SrcQP: puppetQPN}
	p.IETH = ib.RKey(z.key())
	p.FETH = ib.FETH(z.u8())
	n := 0
	switch op.Info().Payload {
	case ib.PayloadFull:
		n = 1024
	case ib.PayloadEight:
		n = 8
	case ib.PayloadNone:
	default:
		n = int(z.u16()) % 1025
		if request != nil && request.RETH.Len <= 1024 {
			n = int(request.RETH.Len)
		}
	}
	if flags&8 != 0 {
		p.RETH.Len = uint32(n)
	}
	if flags&0xF0 == 0xF0 {
		n = int(z.u16()) % 1100
	}
	p.Pad = uint8(ib.PadFor(n))
	data := make([]byte, ib.MaxHeaderBytes, 2048)
	data = append(data[:p.PutHeaders(data)], make([]byte, n+int(p.Pad)+ib.ICRCBytes)...)
	if len(data) < ib.BTHBytes { // unknown opcode
		data = binary.BigEndian.AppendUint64([]byte{byte(op)}, z.u64())
	}
	for flags&0x78 == 0x78 && z.u8() > 100 {
		data[int(z.u16())%min(len(data), 48)] ^= z.u8()
	}
	if z.u8() > 250 {
		data = data[:int(z.u16())%(len(data)+1)]
	}
	z.deliverRaw(data)
}

func (z *fuzzer) deliverRaw(data []byte) {
	rx := transport.RxPacket{Src: z.b.addr, Dst: z.a.addr, HopLimit: 64, TrafficClass: z.u8() & 3, Data: data}
	if z.u8() > 250 && len(data) > 8 {
		rx.Dst = gidMulticast.Addr()
		copy(data[5:8], "\xff\xff\xff")
	}
	z.a.eng.HandlePacket(z.now, &rx)
	clear(data)
}

func (z *fuzzer) key() uint32 {
	switch b := z.u8(); {
	case b < 150:
		return uint32(z.a.region.RKey())
	case b < 220:
		return uint32(z.mrs[int(b)%len(z.mrs)].RKey())
	case b < 240:
		return uint32(z.mws[0].RKey())
	}
	return z.u32()
}

func (z *fuzzer) address() uint64 {
	switch b := z.u8(); {
	case b < 150:
		return z.a.base + uint64(z.u16())*8
	case b < 180:
		return z.a.base + bufBytes - uint64(b-150)
	case b < 230:
		return z.mrs[int(b)%len(z.mrs)].IOVA() + uint64(int8(z.u8()))
	}
	return z.u64()
}

func (z *fuzzer) sges() []transport.SGE {
	var l []transport.SGE
	for range z.pick(4) {
		l = append(l, transport.SGE{Addr: z.address(), Length: z.small(), LKey: ib.LKey(z.key())})
	}
	return l
}

func (z *fuzzer) sendWR() transport.SendWR {
	wr := transport.SendWR{
		ID: uint64(z.u8()), Opcode: transport.WROpcode(z.u8() % 14), Flags: transport.SendFlags(z.u8()),
		SGList: z.sges(), Imm: 5, InvalidateKey: ib.RKey(z.key()), RemoteAddr: z.address(), RKey: ib.RKey(z.key()),
		CompareAdd: uint64(z.u8()), FlushLength: z.small(), FlushType: ib.FETH(z.u8() & 0x13),
		RemoteQPN: ib.QPN(z.u8()), RemoteQKey: 0x11111111,
	}
	switch b := z.u8(); {
	case b < 40:
		wr.Inline = make([]byte, b)
	case b < 50:
		wr.AH = nil
	default:
		wr.AH = z.ahs[int(b)%len(z.ahs)]
	}
	if wr.Opcode == transport.WRBindMW {
		wr.Bind = transport.BindMW{MW: z.mws[0], Region: z.mrs[z.pick(len(z.mrs))],
			NewRKey: mem.NextRKey(z.mws[0].RKey()), Addr: z.address(), Length: uint64(z.small()),
			Access: mem.Access(z.u16())}
		if z.u8() > 200 {
			wr.Bind.MW = nil
		}
		if z.u8() > 200 {
			wr.Bind.Region = nil
		}
	}
	return wr
}

// goodSend is a request that the QP accepts and can execute.
func (z *fuzzer) goodSend(typ ib.Transport) transport.SendWR {
	n := int(z.small()) % 5000
	if typ == ib.UD {
		n %= 1025
	}
	wr := transport.SendWR{
		ID: uint64(z.u8()), Opcode: transport.WROpcode(z.u8() % byte(transport.WRLocalInv)),
		Flags: transport.SendFlags(z.u8() & 7), RemoteAddr: z.b.base, RKey: 1, AH: z.ahs[z.pick(len(z.ahs))],
		RemoteQPN: puppetQPN, FlushType: ib.FlushGlobalVisibility,
	}
	switch {
	case typ == ib.UD:
		wr.Opcode %= 2
	case typ == ib.UC:
		wr.Opcode = []transport.WROpcode{transport.WRSend, transport.WRSendImm, transport.WRWrite,
			transport.WRWriteImm}[wr.Opcode%4]
	case wr.Opcode == transport.WRCompareSwap, wr.Opcode == transport.WRFetchAdd, wr.Opcode == transport.WRAtomicWrite:
		n = 8
	case wr.Opcode == transport.WRFlush:
		return wr
	}
	cut := int(z.u16()) % (n + 1)
	wr.SGList = []transport.SGE{z.a.sge(8*z.pick(256), cut), z.a.sge(5000, n-cut)}
	if n == 8 {
		wr.SGList = []transport.SGE{z.a.sge(64, 8)}
	}
	if n <= 40 && wr.Opcode <= transport.WRWriteImm && z.u8() < 100 {
		wr.Flags |= transport.SendInline
	}
	return wr
}

func (z *fuzzer) attr() transport.QPAttr {
	a := z.conns[0]
	a.State = transport.QPState(z.u8() % 9)
	a.CurState = transport.QPState(z.u8() % 9)
	a.Access = mem.Access(z.u16())
	a.Timeout = ib.TimeoutCode(z.u8() % 40)
	a.RetryCnt, a.RNRRetry = z.u8()%9, z.u8()%9
	a.MaxRdAtomic, a.MaxDestRdAtomic = z.u8()%140, z.u8()%140
	a.PathMTU = ib.MTU(z.u8() % 7)
	a.MinRNRTimer = ib.RNRCode(z.u8() % 40)
	a.MaxUnackedPackets = int(int8(z.u8()))
	return a
}

// Longer programs than the fuzzer begins with, from seeds.
func TestRandomPrograms(t *testing.T) {
	seeds.Run(t, seeds.Fewer(150), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 99))
		program := make([]byte, 12000)
		for j := range program {
			program[j] = byte(rng.Uint32())
		}
		newFuzzer(t, program).run()
	})
}
