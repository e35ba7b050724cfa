package matrix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/peer"
)

// A transfer lies at an odd offset: alignment is nothing that either side may rely on.
// Atomics need 8 bytes of alignment.
const (
	dataOff   = guard + 3
	atomicOff = guard
)

// wcOps are the requester's completion opcodes.
var wcOps = map[peer.Opcode]int{
	peer.OpSend: peer.WCSend, peer.OpSendImm: peer.WCSend, peer.OpSendInv: peer.WCSend,
	peer.OpWrite: peer.WCWrite, peer.OpWriteImm: peer.WCWrite, peer.OpRead: peer.WCRead,
	peer.OpCmpSwap: peer.WCCmpSwap, peer.OpFetchAdd: peer.WCFetchAdd,
}

// transfer does one operation of the requester and checks everything that both sides can
// see of it.
func (c *conn) transfer(op peer.Opcode, size int) error {
	switch op {
	case peer.OpSend, peer.OpSendImm, peer.OpSendInv:
		return c.send(op, size)
	case peer.OpWrite, peer.OpWriteImm:
		return c.write(op, size)
	case peer.OpRead:
		return c.read(size)
	case peer.OpFetchAdd, peer.OpCmpSwap:
		return c.atomic(op)
	case peer.OpAtomicWrite:
		return c.atomicWrite()
	case peer.OpFlush:
		return c.flush(size)
	}
	return fmt.Errorf("no check for %v", op)
}

// place fills the source range on one side, and the whole target range with its guards on
// the other.
func place(src peer.MR, dst peer.MR, off, size int, seed uint64) error {
	if err := src.Fill(off, size, seed, 0); err != nil {
		return err
	}
	return dst.Fill(off-guard, size+2*guard, seed+1, 0)
}

// verify checks the target: the data where it belongs and the guards untouched.
func verify(dst peer.MR, off, size int, seed uint64) error {
	for _, r := range []struct {
		off, n, base int
		seed         uint64
		what         string
	}{
		{off - guard, guard, 0, seed + 1, "guard before the data"},
		{off, size, 0, seed, "data"},
		{off + size, guard, guard + size, seed + 1, "guard after the data"},
	} {
		bad, err := dst.Check(r.off, r.n, r.seed, r.base)
		if err != nil {
			return err
		}
		if bad >= 0 {
			b, _ := dst.Read(r.off+bad, 1)
			return fmt.Errorf("%s: byte %d of %d is wrong (%#x)", r.what, bad, r.n, b)
		}
	}
	return nil
}

var errNoCompletion = errors.New("no completion")

// await waits for one completion and checks ID and status.
func await(poll func(int, time.Duration) ([]peer.WC, error), id uint64, what string) (peer.WC, error) {
	wc, err := poll(1, opWait)
	switch {
	case err != nil:
		return peer.WC{}, err
	case len(wc) == 0:
		return peer.WC{}, fmt.Errorf("%s: %w in %v", what, errNoCompletion, opWait)
	case wc[0].Status != peer.Success:
		return wc[0], fmt.Errorf("%s: completion %v", what, wc[0])
	case wc[0].ID != id:
		return wc[0], fmt.Errorf("%s: completion %v, want id %d", what, wc[0], id)
	}
	return wc[0], nil
}

// sendDone waits for the requester's completion.
func (c *conn) sendDone(op peer.Opcode, id uint64) error {
	wc, err := await(c.rq.PollSend, id, "requester")
	if err != nil {
		return err
	}
	if want, ok := wcOps[op]; ok && wc.Opcode != want {
		return fmt.Errorf("requester: completion %v, want opcode %d", wc, want)
	}
	return nil
}

func (c *conn) send(op peer.Opcode, size int) error {
	seed := c.nextSeed()
	src, dst := c.req.arena, c.rsp.arena
	grh := 0
	if c.typ == peer.UD {
		grh = udGRH
	}
	if err := place(src, dst, dataOff+grh, size, seed); err != nil {
		return err
	}
	var inv uint32
	if op == peer.OpSendInv {
		var err error
		if inv, err = c.sq.BindWindow(dst, 0, guard, peer.AccessRemoteWrite|peer.AccessRemoteRead); err != nil {
			return err
		}
	}
	// The buffer posted is longer than the message, so that the byte count means
	// something; what lies behind the message must stay as it is.
	const spare = 16
	if err := c.sq.PostRecv(peer.RecvWR{ID: seed, SGL: []peer.SGE{{MR: dst, Off: dataOff, Len: grh + size + spare}}}); err != nil {
		return err
	}
	imm := uint32(0xc0de0000 + size)
	err := c.rq.PostSend(peer.SendWR{
		ID: seed, Op: op, Flags: peer.FlagSignaled, SGL: sgl(src, dataOff+grh, size), Imm: imm, InvKey: inv,
		Family: c.family, Remote: c.rsp.p.Addr(c.family), RemoteQPN: c.sq.QPN(), RemoteQKey: qkey,
	})
	if err != nil {
		return err
	}
	c.advance(size)
	if err := c.sendDone(op, seed); err != nil {
		return err
	}
	wc, err := await(c.sq.PollRecv, seed, "responder")
	if err != nil {
		return err
	}
	switch {
	case wc.Opcode != peer.WCRecv:
		err = fmt.Errorf("responder: completion %v, want a receive", wc)
	case wc.ByteLen != grh+size:
		err = fmt.Errorf("responder: completion %v, want %d bytes", wc, grh+size)
	case op == peer.OpSendImm && (wc.Flags&peer.WCFlagImm == 0 || wc.Imm != imm):
		err = fmt.Errorf("responder: completion %v, want immediate %#x", wc, imm)
	case op == peer.OpSendInv && (wc.Flags&peer.WCFlagInv == 0 || wc.Imm != inv):
		err = fmt.Errorf("responder: completion %v, want invalidated key %#x", wc, inv)
	case op == peer.OpSend && wc.Flags&(peer.WCFlagImm|peer.WCFlagInv) != 0:
		err = fmt.Errorf("responder: completion %v, want no immediate", wc)
	case c.typ == peer.UD && wc.SrcQP != c.rq.QPN():
		err = fmt.Errorf("responder: completion %v, want source QP %#x", wc, c.rq.QPN())
	}
	if err != nil {
		return err
	}
	if c.typ == peer.UD {
		if err := c.checkGRH(); err != nil {
			return err
		}
		return verifyBehindGRH(dst, dataOff+grh, size, seed)
	}
	return verify(dst, dataOff+grh, size, seed)
}

// checkGRH looks for the addresses in the 40 bytes before a UD message: a GRH for IPv6;
// the IPv4 header in the last 20 bytes for IPv4 (IBTA annex A17.4.5.1).
func (c *conn) checkGRH() error {
	b, err := c.rsp.arena.Read(dataOff, udGRH)
	if err != nil {
		return err
	}
	src, dst := c.req.p.Addr(c.family).AsSlice(), c.rsp.p.Addr(c.family).AsSlice()
	got := b[8:40]
	if c.family == peer.V4 {
		got = b[32:40]
	}
	if !bytes.Equal(got, append(src, dst...)) {
		return fmt.Errorf("GRH area %x does not end with source %x and destination %x", b, src, dst)
	}
	return nil
}

// verifyBehindGRH is verify without the guard in front, where the GRH went.
func verifyBehindGRH(dst peer.MR, off, size int, seed uint64) error {
	bad, err := dst.Check(off, size, seed, 0)
	if err == nil && bad >= 0 {
		err = fmt.Errorf("data: byte %d of %d is wrong", bad, size)
	}
	if err != nil {
		return err
	}
	bad, err = dst.Check(off+size, guard, seed+1, guard+size)
	if err == nil && bad >= 0 {
		err = fmt.Errorf("guard after the data: byte %d is wrong", bad)
	}
	return err
}

// sgl is a list for n bytes: none, one or (from 256 bytes on) two elements of odd length,
// so that gathering crosses packet borders at odd places.
func sgl(mr peer.MR, off, n int) []peer.SGE {
	switch {
	case n == 0:
		return nil
	case n < 256:
		return []peer.SGE{{MR: mr, Off: off, Len: n}}
	}
	k := n/3 | 1
	return []peer.SGE{{MR: mr, Off: off, Len: k}, {MR: mr, Off: off + k, Len: n - k}}
}

func (c *conn) write(op peer.Opcode, size int) error {
	seed := c.nextSeed()
	src, dst := c.req.arena, c.rsp.arena
	if err := place(src, dst, dataOff, size, seed); err != nil {
		return err
	}
	// An unacknowledged WRITE is only known to be there when something behind it is.
	marker := c.typ == peer.UC && op == peer.OpWrite
	if marker || op == peer.OpWriteImm {
		if err := c.sq.PostRecv(peer.RecvWR{ID: seed}); err != nil {
			return err
		}
	}
	imm := uint32(0xabcd0000 + size)
	err := c.rq.PostSend(peer.SendWR{
		ID: seed, Op: op, Flags: peer.FlagSignaled, SGL: sgl(src, dataOff, size), Imm: imm,
		RemoteAddr: dst.Addr() + dataOff, RKey: dst.RKey(),
	})
	if err != nil {
		return err
	}
	c.advance(size)
	if err := c.sendDone(op, seed); err != nil {
		return err
	}
	if marker {
		if err := c.rq.PostSend(peer.SendWR{ID: seed + 1, Op: peer.OpSend, Flags: peer.FlagSignaled}); err != nil {
			return err
		}
		c.advance(0)
		if err := c.sendDone(peer.OpSend, seed+1); err != nil {
			return err
		}
	}
	if marker || op == peer.OpWriteImm {
		wc, err := await(c.sq.PollRecv, seed, "responder")
		if err != nil {
			return err
		}
		if op == peer.OpWriteImm && (wc.Opcode != peer.WCRecvWithImm || wc.ByteLen != size || wc.Flags&peer.WCFlagImm == 0 || wc.Imm != imm) {
			return fmt.Errorf("responder: completion %v, want opcode %d, %d bytes, immediate %#x", wc, peer.WCRecvWithImm, size, imm)
		}
	}
	return verify(dst, dataOff, size, seed)
}

func (c *conn) read(size int) error {
	seed := c.nextSeed()
	src, dst := c.rsp.arena, c.req.arena
	if err := place(src, dst, dataOff, size, seed); err != nil {
		return err
	}
	err := c.rq.PostSend(peer.SendWR{
		ID: seed, Op: peer.OpRead, Flags: peer.FlagSignaled, SGL: sgl(dst, dataOff, size),
		RemoteAddr: src.Addr() + dataOff, RKey: src.RKey(),
	})
	if err != nil {
		return err
	}
	c.advance(size)
	if err := c.sendDone(peer.OpRead, seed); err != nil {
		return err
	}
	return verify(dst, dataOff, size, seed)
}

// word is a 64-bit value as it lies in memory: both guests and hosts here are
// little-endian, which is also what x86 peers present.
func word(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// expectWord checks 8 bytes of a region.
func expectWord(mr peer.MR, off int, want uint64, what string) error {
	b, err := mr.Read(off, 8)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != want {
		return fmt.Errorf("%s is %#x, want %#x", what, got, want)
	}
	return nil
}

// atomic does an atomic three times: with a carry through all bytes, and for CMP_SWAP
// with a comparison that fails.
func (c *conn) atomic(op peer.Opcode) error {
	for _, x := range []struct{ before, arg, swap, after uint64 }{
		{0x00ffffffffffffff, 1, 0xfeedfacecafebeef, 0},
		{0xfffffffffffffffe, 0x8000000000000003, 1, 0},
		{0x1122334455667788, 0x0102030405060708, 0x99, 0},
	} {
		seed := c.nextSeed()
		if op == peer.OpFetchAdd {
			x.after = x.before + x.arg
			x.swap = 0
		} else if x.arg != 1 { // compare with what is there
			x.arg, x.after = x.before, x.swap
		} else {
			x.after = x.before
		}
		if err := place(c.req.arena, c.rsp.arena, atomicOff, 8, seed); err != nil {
			return err
		}
		if err := c.rsp.arena.Write(atomicOff, word(x.before)); err != nil {
			return err
		}
		err := c.rq.PostSend(peer.SendWR{
			ID: seed, Op: op, Flags: peer.FlagSignaled, SGL: []peer.SGE{{MR: c.req.arena, Off: atomicOff, Len: 8}},
			RemoteAddr: c.rsp.arena.Addr() + atomicOff, RKey: c.rsp.arena.RKey(), CompareAdd: x.arg, Swap: x.swap,
		})
		if err != nil {
			return err
		}
		c.advance(0)
		if err := c.sendDone(op, seed); err != nil {
			return err
		}
		if err := expectWord(c.req.arena, atomicOff, x.before, "the value returned"); err != nil {
			return err
		}
		if err := expectWord(c.rsp.arena, atomicOff, x.after, "the value in memory"); err != nil {
			return err
		}
		for _, g := range []struct{ off, base int }{{atomicOff - guard, 0}, {atomicOff + 8, guard + 8}} {
			if bad, err := c.rsp.arena.Check(g.off, guard, seed+1, g.base); err != nil || bad >= 0 {
				return fmt.Errorf("guard byte %d beside the word changed (%v)", bad, err)
			}
		}
	}
	return nil
}

func (c *conn) atomicWrite() error {
	seed := c.nextSeed()
	if err := c.rsp.arena.Fill(atomicOff-guard, 8+2*guard, seed+1, 0); err != nil {
		return err
	}
	var v [8]byte
	peer.FillPattern(v[:], seed, 0)
	err := c.rq.PostSend(peer.SendWR{
		ID: seed, Op: peer.OpAtomicWrite, Flags: peer.FlagSignaled, Value: v,
		RemoteAddr: c.rsp.arena.Addr() + atomicOff, RKey: c.rsp.arena.RKey(),
	})
	if err != nil {
		return err
	}
	c.advance(0)
	if err := c.sendDone(peer.OpAtomicWrite, seed); err != nil {
		return err
	}
	return verify(c.rsp.arena, atomicOff, 8, seed)
}

// flush writes and then flushes the range to global visibility, by range and for the
// whole region.
func (c *conn) flush(size int) error {
	if err := c.write(peer.OpWrite, size); err != nil {
		return err
	}
	const wholeRegion = 1
	for sel := 0; sel <= wholeRegion; sel++ {
		seed := c.nextSeed()
		err := c.rq.PostSend(peer.SendWR{
			ID: seed, Op: peer.OpFlush, Flags: peer.FlagSignaled, FlushLen: size, FlushPLT: 1, FlushSEL: sel,
			RemoteAddr: c.rsp.arena.Addr() + dataOff, RKey: c.rsp.arena.RKey(),
		})
		if err != nil {
			return err
		}
		c.advance(0)
		if err := c.sendDone(peer.OpFlush, seed); err != nil {
			return fmt.Errorf("selectivity %d: %w", sel, err)
		}
	}
	return nil
}
