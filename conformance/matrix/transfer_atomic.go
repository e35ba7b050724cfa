package matrix

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

// word is a 64-bit value as it lies in memory: both guests and hosts here are
// little-endian, which is also what x86 peers present.
func word(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// expectWord checks 8 bytes of a region.
func expectWord(mr peer.MR, off int, want uint64, what string) {
	if got := binary.LittleEndian.Uint64(peer.Got(mr.Read(off, 8))); got != want {
		peer.Must(fmt.Errorf("%s is %#x, want %#x", what, got, want))
	}
}

// atomic does an atomic three times: with a carry through all bytes, and for CMP_SWAP
// with a comparison that fails.
func (c *conn) atomic(op peer.Opcode) {
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
		peer.Must(place(c.req.arena, c.rsp.arena, atomicOff, 8, seed))
		peer.Must(c.rsp.arena.Write(atomicOff, word(x.before)))
		c.carryOut(peer.SendWR{
			ID: seed, Op: op, SGL: []peer.SGE{{MR: c.req.arena, Off: atomicOff, Len: 8}},
			RemoteAddr: c.rsp.arena.Addr() + atomicOff, RKey: c.rsp.arena.RKey(), CompareAdd: x.arg, Swap: x.swap,
		}, 0)
		expectWord(c.req.arena, atomicOff, x.before, "the value returned")
		expectWord(c.rsp.arena, atomicOff, x.after, "the value in memory")
		for _, g := range []struct{ off, base int }{{atomicOff - guard, 0}, {atomicOff + 8, guard + 8}} {
			if bad, err := c.rsp.arena.Check(g.off, guard, seed+1, g.base); err != nil || bad >= 0 {
				peer.Must(fmt.Errorf("guard byte %d beside the word changed (%v)", bad, err))
			}
		}
	}
}

func (c *conn) atomicWrite() {
	seed := c.nextSeed()
	peer.Must(c.rsp.arena.Fill(atomicOff-guard, 8+2*guard, seed+1, 0))
	var v [8]byte
	peer.FillPattern(v[:], seed, 0)
	dst := c.rsp.arena
	c.carryOut(peer.SendWR{
		ID: seed, Op: peer.OpAtomicWrite, Value: v, RemoteAddr: dst.Addr() + atomicOff, RKey: dst.RKey(),
	}, 0)
	peer.Must(verify(c.rsp.arena, atomicOff, 8, seed))
}
