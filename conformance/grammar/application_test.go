package grammar

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// application is what the target's program does.
func (r *EngineRun) application() error {
	q := r.qps[r.d.N(len(r.qps))]
	switch x := r.d.Byte(); {
	case x < 110:
		for range 1 + r.d.N(4) {
			r.postSend(q)
		}
	case x < 190:
		for range 1 + r.d.N(8) {
			r.postRecv(q)
		}
	case x < 220:
		r.poll()
	case x < 232: // time passes, up to half a second
		r.now += int64(r.d.U16()) << r.d.N(14)
	case x < 240: // to where the next timer is
		if at, ok := r.Engine.NextTimeout(); ok {
			r.now = max(r.now, at)
		}
	case x < 243:
		r.drain(q)
	case x < 246:
		return r.again(q)
	case x < 249:
		return r.change()
	case x < 251:
		r.bind(q)
	case x < 252:
		_ = q.Modify(r.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState)
	case x < 253:
		_ = r.srq.Modify(r.d.N(8), -1)
	case x < 254:
		if q.Type() == ib.UD && q.AttachMcast(ib.GIDFromAddr(groupAddr)) == nil && r.d.OneIn(2) {
			_ = q.DetachMcast(ib.GIDFromAddr(groupAddr))
		}
	default:
		r.look(q)
	}
	return nil
}

// look asks for what there is to ask for.
func (r *EngineRun) look(q *qp) {
	q.Query()
	q.Stats()
	q.Queued()
	q.Congestion(r.now)
	q.InFlight()
	q.SendRoom()
	r.srq.Query()
	r.cqs[0].Arm(r.d.OneIn(2))
	r.cqs[0].Waiting()
	r.Engine.OnlyAcks()
	r.Engine.QPs(func(*transport.QP) bool { return true })
	switch r.d.N(16) {
	case 0:
		n := cqSize + r.d.N(64)
		if _ = r.cqs[1].Resize(n); r.cqs[0].HasRing() {
			_ = r.cqs[0].ResizeRing(n, make([]byte, transport.RingBytes(n)))
		}
	case 1:
		q.WatchSilence()
		q.WatchEstablished()
	case 3:
		r.Engine.SetMTU([...]ib.MTU{ib.MTU1024, ib.MTU4096, ib.MTU4096}[r.d.N(3)])
	case 4:
		a := transport.QPAttr{State: transport.StateRTS, Access: mem.Access(r.d.Byte()) | mem.RemoteWrite,
			MinRNRTimer: ib.RNRCode(1 + r.d.N(31))}
		_ = q.Modify(r.now, a, transport.AttrState|transport.AttrAccess|transport.AttrMinRNRTimer)
	case 2:
		if ah, err := r.Engine.CreateAH(r.pd, transport.AddressVector{DGID: ib.GIDFromAddr(strangerAddr)}); err == nil {
			ah.Query()
			_ = ah.Destroy()
		}
	}
}

// drain stops a send queue, or has it go on.
func (r *EngineRun) drain(q *qp) {
	to := transport.StateSQD
	if q.State() == transport.StateSQD || q.State() == transport.StateSQE {
		to = transport.StateRTS
	}
	mask := transport.AttrState
	if r.d.OneIn(2) && to == transport.StateSQD {
		mask |= transport.AttrEnSQDNotify
	}
	_ = q.Modify(r.now, transport.QPAttr{State: to, EnSQDAsyncNotify: true}, mask)
}

// change takes a region away, and registers another one.
func (r *EngineRun) change() error {
	i := 1 + r.d.N(len(r.regions)-1)
	m := r.regions[i]
	if m.Deregister(nil) != nil {
		return nil // a window is bound to it
	}
	if err := r.register(m.n, mem.Access(r.d.U16())&0x7f|mem.LocalWrite); err != nil {
		return err
	}
	last := len(r.regions) - 1
	r.regions[i], r.regions = r.regions[last], r.regions[:last]
	s := r.Speaker
	s.Memory[i], s.Memory = s.Memory[last], s.Memory[:last]
	return nil
}

func (r *EngineRun) bind(q *qp) {
	m := r.regions[0]
	wr := transport.SendWR{ID: r.wrID, Opcode: transport.WRBindMW, Flags: transport.SendSignaled,
		Bind: transport.BindMW{
			MW: r.window, Region: m.Region, NewRKey: mem.NextRKey(r.window.RKey()), Addr: m.IOVA() + 64,
			Length: uint64(r.d.U16()), Access: mem.RemoteWrite | mem.RemoteRead,
		}}
	if r.d.OneIn(3) {
		wr.Opcode, wr.InvalidateKey = transport.WRLocalInv, r.window.RKey()
	}
	if q.PostSend(r.now, &wr) == nil {
		r.Posted++
	}
}

// sges names n bytes of the first region, in one piece or in several.
func (r *EngineRun) sges(n int) []transport.SGE {
	m := r.regions[0]
	at := m.IOVA() + uint64(r.d.U16())
	if r.d.OneIn(8) && n >= sgePieces { // more than one packet refers to without a copy
		all := make([]transport.SGE, sgePieces)
		for i := range all {
			all[i] = transport.SGE{Addr: at + uint64(i)<<14, Length: uint32(n / sgePieces), LKey: m.LKey()}
		}
		all[0].Length += uint32(n % sgePieces)
		if r.d.OneIn(careless) {
			all[r.d.N(sgePieces)].LKey ^= 1 << r.d.N(32)
		}
		return all
	}
	if r.d.OneIn(4) && n > 2 {
		cut := 1 + r.d.N(n-1)
		return []transport.SGE{{Addr: at, Length: uint32(cut), LKey: m.LKey()}, {Addr: at + 1<<16,
			Length: uint32(n - cut), LKey: m.LKey()}}
	}
	return []transport.SGE{{Addr: at, Length: uint32(n), LKey: m.LKey()}}
}

func (r *EngineRun) postRecv(q *qp) {
	n := 1 << 15
	if r.d.OneIn(100) {
		n = r.d.N(300)
	}
	r.wrID++
	wr := transport.RecvWR{ID: r.wrID, SGList: r.sges(n)}
	if r.d.OneIn(8) { // for immediate data alone: these are counted, and not kept one by one
		wr = transport.RecvWR{}
	}
	var err error
	if q.i == 1 {
		err = r.srq.PostRecv(&wr)
	} else {
		err = q.PostRecv(&wr)
	}
	if err == nil {
		r.Posted++
	}
}

func (r *EngineRun) postSend(q *qp) {
	r.wrID++
	s := r.Speaker
	n := s.size(q.conn.MTU)
	wr := transport.SendWR{
		ID: r.wrID, Opcode: transport.WROpcode(r.d.N(int(transport.WRLocalInv))),
		Flags: transport.SendFlags(r.d.Byte() & 7), RemoteAddr: 1 << 20, RKey: 1,
		AH: r.ah, RemoteQPN: q.conn.Own, RemoteQKey: q.conn.QKey, FlushType: ib.FlushGlobalVisibility,
		FlushLength: uint32(n), CompareAdd: 1, Swap: 2,
	}
	switch q.Type() {
	case ib.UD:
		wr.Opcode %= 2
		n = min(n, q.conn.MTU)
	case ib.UC:
		wr.Opcode = [...]transport.WROpcode{transport.WRSend, transport.WRSendImm, transport.WRWrite,
			transport.WRWriteImm}[wr.Opcode%4]
	}
	switch wr.Opcode {
	case transport.WRCompareSwap, transport.WRFetchAdd, transport.WRAtomicWrite:
		if wr.Opcode == transport.WRAtomicWrite && r.d.OneIn(2) {
			break // of the value in the request
		}
		wr.SGList = r.sges(8)
	case transport.WRFlush:
	default:
		if n <= 64 && wr.Opcode != transport.WRRead && r.d.OneIn(2) {
			wr.Flags |= transport.SendInline
			if wr.Inline = s.payload[:n]; r.d.OneIn(4) {
				wr.Inline, wr.SGList = nil, r.sges(n)
			}
			break
		}
		wr.SGList = r.sges(n)
	}
	if q.PostSend(r.now, &wr) == nil {
		r.Posted++
	}
}
