package matrix

import (
	"bytes"
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

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
	imm := 0xc0de0000 + uint32(size)
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
	wc, err := c.arrives(seed, c.packets(size))
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
		err = wrong("data: byte %d of %d is wrong", bad, size)
	}
	if err != nil {
		return err
	}
	bad, err = dst.Check(off+size, guard, seed+1, guard+size)
	if err == nil && bad >= 0 {
		err = wrong("guard after the data: byte %d is wrong", bad)
	}
	return err
}
