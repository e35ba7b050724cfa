package matrix

import (
	"errors"
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

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
	imm := 0xabcd0000 + uint32(size)
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
		wc, err := c.arrives(seed, c.packets(size))
		if err != nil {
			return err
		}
		if op == peer.OpWriteImm && (wc.Opcode != peer.WCRecvWithImm || wc.ByteLen != size || wc.Flags&peer.WCFlagImm == 0 || wc.Imm != imm) {
			return fmt.Errorf("responder: completion %v, want opcode %d, %d bytes, immediate %#x", wc, peer.WCRecvWithImm, size, imm)
		}
	}
	err = verify(dst, dataOff, size, seed)
	if marker && isWrong(err) {
		if partly, e := c.partly(dst, size, seed); e != nil || partly {
			return errors.Join(lostError{error: fmt.Errorf("a part of the WRITE is not there: %v", err), came: -1}, e)
		}
	}
	return err
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
