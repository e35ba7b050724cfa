package matrix

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/peer"
)

// Receive requests that do not fit what arrives.

// receiveFails waits for the receive of a message that the responder refuses.
func (x *trial) receiveFails(id uint64, want ...peer.Status) peer.Status {
	got := peer.Got(x.sq.PollRecv(1, opWait))
	if len(got) != 1 || got[0].ID != id || !slices.Contains(want, got[0].Status) {
		peer.Must(fmt.Errorf("responder: %v, want id %d, %v", got, id, want))
	}
	return got[0].Status
}

// remoteOperation posts a receive request whose key is wrong.
func remoteOperation(x *trial) string {
	bad := peer.SGE{Raw: true, Addr: x.rsp.arena.Addr(), LKey: x.rsp.arena.LKey() ^ 0x5a, Len: faultSize}
	peer.Must(x.sq.PostRecv(peer.RecvWR{ID: 2, SGL: []peer.SGE{bad}}))
	status := x.refused(x.wr(peer.OpSend, 1, 64), peer.RemOpErr)
	// The latter is rxe's.
	return fmt.Sprintf("%v, responder %v", status, x.receiveFails(2, peer.LocProtErr, peer.LocQPOpErr))
}

// tooShort sends more than the receive request has room for.
func tooShort(x *trial) string {
	want, wantRecv := []peer.Status{peer.RemInvReqErr}, peer.LocLenErr
	if isRXE(x.rsp.p) {
		want, wantRecv = []peer.Status{peer.RemOpErr}, peer.LocQPOpErr
	}
	if x.env.Untried {
		want = []peer.Status{peer.RemInvReqErr, peer.RemOpErr}
	}
	seed := x.nextSeed()
	peer.Must(x.rsp.arena.Fill(0, 2*guard+faultSize, seed, 0))
	x.recv(2, 100)
	x.post(peer.OpSend, 1, faultSize)
	status := x.fails(1, want...).Status
	if status == peer.RemInvReqErr {
		wantRecv = peer.LocLenErr
	}
	got := x.receiveFails(2, wantRecv)
	if bad, err := x.rsp.arena.Check(dataOff+100, faultSize-100, seed, dataOff+100); err != nil || bad >= 0 {
		peer.Must(fmt.Errorf("byte %d behind the receive buffer was written (%v)", bad, err))
	}
	return fmt.Sprintf("%v, responder %v", status, got)
}

// wrongQKey sends a datagram with a wrong Q_Key and then a right one.
func (e *Env) wrongQKey(p *pair, f peer.Family) error {
	c, err := p.connect(defaults(peer.UD, f, faultMTU))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.sq.PostRecv(peer.RecvWR{
		ID: 1, SGL: []peer.SGE{{MR: c.rsp.arena, Off: dataOff, Len: udGRH + 64}},
	}); err != nil {
		return err
	}
	for i, key := range []uint32{qkey ^ 1, qkey} {
		err := c.rq.PostSend(peer.SendWR{ID: uint64(i), Op: peer.OpSendImm, Flags: peer.FlagSignaled,
			SGL: sgl(c.req.arena, 0, 1), Imm: uint32(i), Family: f, Remote: c.rsp.p.Addr(f),
			RemoteQPN: c.sq.QPN(), RemoteQKey: key})
		if err != nil {
			return err
		}
		if err := c.sendDone(peer.OpSendImm, uint64(i)); err != nil {
			return err
		}
	}
	wc, err := await(c.sq.PollRecv, 1, "responder")
	if err == nil && wc.Imm != 1 {
		err = fmt.Errorf("the datagram with the wrong Q_Key arrived: %v", wc)
	}
	return err
}
