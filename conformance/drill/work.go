package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// The memory that the drill claims to have, for requests of the peer.
const (
	farVA  = 0x10000
	farKey = 0xabcd01
)

var workOpcodes = map[string]peer.Opcode{
	"SEND": peer.OpSend, "SEND IMM": peer.OpSendImm, "SEND INV": peer.OpSendInv, "WRITE": peer.OpWrite,
	"WRITE IMM": peer.OpWriteImm, "READ": peer.OpRead, "CMP_SWAP": peer.OpCmpSwap, "FETCH_ADD": peer.OpFetchAdd,
	"ATOMIC_WRITE": peer.OpAtomicWrite, "FLUSH": peer.OpFlush, "LOCAL_INV": peer.OpLocalInv,
}

// local is the memory of a work request: local=, or the region named.
func (p *player) local(s *step, key, def string, n int) []peer.SGE {
	if n == 0 {
		return nil
	}
	if a := s.arg(key); a != nil {
		m, off := p.span(a)
		return []peer.SGE{{MR: m, Off: off, Len: n}}
	}
	return []peer.SGE{{MR: peer.Got(p.region(def)), Len: n}}
}

func (p *player) postRecv(s *step) {
	q := p.end(s)
	size, count, id := p.size(s, "len", 4096, ownRegion), p.size(s, "count", 1, 4096), p.size(s, "id", q.recvs, 1<<31)
	sgl := p.local(s, "into", rxName, size)
	for i := range count {
		peer.Must(q.qp.PostRecv(peer.RecvWR{ID: uint64(id + i), SGL: sgl}))
	}
	q.recvs = uint64(id + count)
}

func (p *player) postSend(s *step) {
	q := p.end(s)
	wr := peer.SendWR{Op: workOpcodes[s.op], Flags: peer.FlagSignaled}
	size, where := 0, txName
	switch wr.Op {
	case peer.OpRead:
		size, where = p.size(s, "len", 16, ownRegion), rxName
	case peer.OpCmpSwap, peer.OpFetchAdd:
		size, where = ib.AtomicBytes, rxName
	case peer.OpFlush:
		wr.FlushLen = p.size(s, "len", 16, 1<<30)
	case peer.OpLocalInv, peer.OpAtomicWrite:
	default:
		size = p.size(s, "len", 16, ownRegion)
	}
	get := func(key string, def uint64) uint64 { return p.num(s, key, def) }
	wr.ID = uint64(p.size(s, "id", q.sends, 1<<31))
	wr.RemoteAddr, wr.RKey = get("va", farVA), uint32(get("key", farKey))
	wr.Imm, wr.InvKey = uint32(get("imm", 0)), uint32(get("inv", farKey))
	wr.CompareAdd, wr.Swap = get("add", 0), get("swap", 0)
	if wr.Op == peer.OpCmpSwap {
		wr.CompareAdd = get("cmp", 0)
	}
	v := get("value", 0)
	for i := range wr.Value {
		wr.Value[i] = byte(v >> (8 * i))
	}
	wr.FlushPLT, wr.FlushSEL = int(get("plt", 1)), int(get("sel", 0))
	if wr.Op == peer.OpLocalInv {
		wr.InvKey = uint32(get("key", farKey))
	}
	for flag, bit := range map[string]int{"fence": peer.FlagFence, "se": peer.FlagSolicited} {
		if s.has(flag) {
			wr.Flags |= bit
		}
	}
	if s.has("unsignaled") {
		wr.Flags &^= peer.FlagSignaled
	}
	if q.typ == ib.UD {
		wr.Family, wr.Remote = q.family, p.b.Local(q.family)
		wr.RemoteQPN, wr.RemoteQKey = uint32(get("qpn", uint64(q.qpn))), uint32(get("qkey", q.qkey))
	}
	wr.SGL = p.local(s, "local", where, size)
	if s.arg("lkey") != nil && len(wr.SGL) == 1 {
		e := &wr.SGL[0]
		e.Raw, e.Addr, e.LKey = true, e.MR.Addr()+uint64(e.Off), uint32(get("lkey", 0))
	}
	q.sends = wr.ID + 1
	p.mark, p.sends = p.b.Now(), false
	p.note(s, "%s", s.text)
	peer.Must(q.qp.PostSend(wr))
}

// done expects a completion.
func (p *player) done(s *step) {
	q := p.end(s)
	poll, pend := q.qp.PollRecv, &q.pendRecv
	if s.has("send") {
		poll, pend = q.qp.PollSend, &q.pendSend
	}
	within := p.within(s)
	if s.op == nothing {
		within = p.b.Silence(s.arg("for").time)
	}
	peer.Must(p.b.Await(within, func(wait time.Duration) (ok bool, err error) {
		if len(*pend) == 0 {
			*pend, err = poll(1, wait)
		}
		return len(*pend) > 0, err
	}))
	switch {
	case s.op == nothing && len(*pend) > 0:
		differ(s, "a completion came, and none should: %s", wcText((*pend)[0]))
	case s.op == nothing:
		return
	case len(*pend) == 0:
		differ(s, "no completion came")
	}
	wc := (*pend)[0]
	*pend = (*pend)[1:]
	p.note(s, "completion %s", wcText(wc))
	p.compareWC(s, wc)
}

func wcText(w peer.WC) string {
	t := fmt.Sprintf("%v id=%d", w.Status, w.ID)
	if w.Status == peer.Success {
		t += fmt.Sprintf(" len=%d", w.ByteLen)
		if w.Flags&(peer.WCFlagImm|peer.WCFlagInv) != 0 {
			t += fmt.Sprintf(" imm=%#x", w.Imm)
		}
	}
	return t
}

func (p *player) compareWC(s *step, wc peer.WC) {
	wanted := func(name string) bool { return name == anything || statuses[name] == wc.Status }
	if !slices.ContainsFunc(strings.Split(s.op, "|"), wanted) {
		differ(s, "the status is %v, and not %s", wc.Status, s.op)
	}
	for _, f := range []struct {
		key string
		got uint64
	}{{"id", wc.ID}, {"len", uint64(wc.ByteLen)}, {"imm", uint64(wc.Imm)}, {"inv", uint64(wc.Imm)}} {
		if s.arg(f.key) == nil {
			continue
		}
		if why := p.compareNum(s.arg(f.key), f.got, f.key == "inv"); why != "" {
			differ(s, "%s", why)
		}
	}
	for _, f := range []struct {
		bare string
		flag int
		set  bool
	}{{"imm", peer.WCFlagImm, true}, {"noimm", peer.WCFlagImm, false}, {"inv", peer.WCFlagInv, true}} {
		if s.has(f.bare) && (wc.Flags&f.flag != 0) != f.set {
			differ(s, "the flags are %#x: not %s", wc.Flags, f.bare)
		}
	}
}
