package matrix

import (
	"errors"
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

func (c *conn) write(op peer.Opcode, size int) {
	seed := c.nextSeed()
	src, dst := c.req.arena, c.rsp.arena
	peer.Must(place(src, dst, dataOff, size, seed))
	// An unacknowledged WRITE is only known to be there when something behind it is.
	marker := c.typ == peer.UC && op == peer.OpWrite
	if marker || op == peer.OpWriteImm {
		peer.Must(c.sq.PostRecv(peer.RecvWR{ID: seed}))
	}
	imm := 0xabcd0000 + uint32(size)
	c.carryOut(peer.SendWR{
		ID: seed, Op: op, SGL: sgl(src, dataOff, size), Imm: imm, RemoteAddr: dst.Addr() + dataOff, RKey: dst.RKey(),
	}, size)
	if marker {
		c.carryOut(peer.SendWR{ID: seed + 1, Op: peer.OpSend}, 0)
	}
	if marker || op == peer.OpWriteImm {
		wc := peer.Got(c.arrives(seed, c.packets(size)))
		if op == peer.OpWriteImm &&
			(wc.Opcode != peer.WCRecvWithImm || wc.ByteLen != size || wc.Flags&peer.WCFlagImm == 0 || wc.Imm != imm) {
			peer.Must(fmt.Errorf("responder: completion %v, want opcode %d, %d bytes, immediate %#x", wc,
				peer.WCRecvWithImm, size, imm))
		}
	}
	err := verify(dst, dataOff, size, seed)
	if marker && isWrong(err) {
		if partly, e := c.partly(dst, size, seed); e != nil || partly {
			err = errors.Join(lostError{error: fmt.Errorf("a part of the WRITE is not there: %v", err), came: -1}, e)
		}
	}
	peer.Must(err)
}

func (c *conn) read(size int) {
	seed := c.nextSeed()
	src, dst := c.rsp.arena, c.req.arena
	peer.Must(place(src, dst, dataOff, size, seed))
	c.carryOut(peer.SendWR{
		ID: seed, Op: peer.OpRead, SGL: sgl(dst, dataOff, size), RemoteAddr: src.Addr() + dataOff, RKey: src.RKey(),
	}, size)
	peer.Must(verify(dst, dataOff, size, seed))
}

// flush writes and then flushes the range to global visibility, by range and for the whole region.
func (c *conn) flush(size int) {
	c.write(peer.OpWrite, size)
	const wholeRegion = 1
	for sel := 0; sel <= wholeRegion; sel++ {
		wr := peer.SendWR{
			ID: c.nextSeed(), Op: peer.OpFlush, FlushLen: size, FlushPLT: 1, FlushSEL: sel,
			RemoteAddr: c.rsp.arena.Addr() + dataOff, RKey: c.rsp.arena.RKey(),
		}
		if err := peer.Steps(func() { c.carryOut(wr, 0) }); err != nil {
			peer.Must(fmt.Errorf("selectivity %d: %w", sel, err))
		}
	}
}
