package matrix

import (
	"bytes"
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

func (c *conn) send(op peer.Opcode, size int) {
	seed := c.nextSeed()
	src, dst := c.req.arena, c.rsp.arena
	grh := 0
	if c.typ == peer.UD {
		grh = udGRH
	}
	peer.Must(place(src, dst, dataOff+grh, size, seed))
	var inv uint32
	if op == peer.OpSendInv {
		inv = peer.Got(c.sq.BindWindow(dst, 0, guard, peer.AccessRemoteWrite|peer.AccessRemoteRead))
	}
	// The buffer posted is longer than the message, so that the byte count means
	// something; what lies behind the message must stay as it is.
	const spare = 16
	peer.Must(c.sq.PostRecv(peer.RecvWR{ID: seed, SGL: []peer.SGE{{MR: dst, Off: dataOff, Len: grh + size + spare}}}))
	imm := 0xc0de0000 + uint32(size)
	c.carryOut(peer.SendWR{
		ID: seed, Op: op, SGL: sgl(src, dataOff+grh, size), Imm: imm, InvKey: inv,
		Family: c.family, Remote: c.rsp.p.Addr(c.family), RemoteQPN: c.sq.QPN(), RemoteQKey: qkey,
	}, size)
	wc, want := peer.Got(c.arrives(seed, c.packets(size))), ""
	switch {
	case wc.Opcode != peer.WCRecv:
		want = "a receive"
	case wc.ByteLen != grh+size:
		want = fmt.Sprintf("%d bytes", grh+size)
	case op == peer.OpSendImm && (wc.Flags&peer.WCFlagImm == 0 || wc.Imm != imm):
		want = fmt.Sprintf("immediate %#x", imm)
	case op == peer.OpSendInv && (wc.Flags&peer.WCFlagInv == 0 || wc.Imm != inv):
		want = fmt.Sprintf("invalidated key %#x", inv)
	case op == peer.OpSend && wc.Flags&(peer.WCFlagImm|peer.WCFlagInv) != 0:
		want = "no immediate"
	case c.typ == peer.UD && wc.SrcQP != c.rq.QPN():
		want = fmt.Sprintf("source QP %#x", c.rq.QPN())
	}
	if want != "" {
		peer.Must(fmt.Errorf("responder: completion %v, want %s", wc, want))
	}
	if c.typ == peer.UD {
		c.checkGRH()
		peer.Must(verifyBehindGRH(dst, dataOff+grh, size, seed))
		return
	}
	peer.Must(verify(dst, dataOff+grh, size, seed))
}

// checkGRH looks for the addresses in the 40 bytes before a UD message: a GRH for IPv6;
// the IPv4 header in the last 20 bytes for IPv4 (IBTA annex A17.4.5.1).
func (c *conn) checkGRH() {
	b := peer.Got(c.rsp.arena.Read(dataOff, udGRH))
	src, dst := c.req.p.Addr(c.family).AsSlice(), c.rsp.p.Addr(c.family).AsSlice()
	got := b[8:40]
	if c.family == peer.V4 {
		got = b[32:40]
	}
	if !bytes.Equal(got, append(src, dst...)) {
		peer.Must(fmt.Errorf("GRH area %x does not end with source %x and destination %x", b, src, dst))
	}
}

// verifyBehindGRH is verify without the guard in front, where the GRH went.
func verifyBehindGRH(dst peer.MR, off, size int, seed uint64) error {
	return verifyParts(dst, partsOf(off, size, seed)[1:])
}
