package matrix

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// What the error scenarios have in common: a connection, the trace of its packets, and the
// rules that disturb them.

// trial is a scenario being run.
type trial struct {
	*conn
	tr    *wire.Trace
	v     *wire.Views
	rules []*wire.Rule
}

const (
	shortRetry = 2 // retry_cnt where it is to be exceeded
	// rnrCode is 0.64 ms.
	rnrCode = 12
)

// rule puts a rule in force for the length of the trial.
func (x *trial) rule(r *wire.Rule) *wire.Rule {
	x.rules = append(x.rules, r)
	x.env.Wire.Add(r)
	return r
}

// watched begins a trial on a connection; end ends it.
func watched(c *conn) *trial { return &trial{conn: c, tr: c.env.Wire.Trace(c.between()), v: c.views()} }

func (x *trial) end() {
	x.env.Wire.Remove(x.rules...)
	x.v.Stop()
	x.tr.Stop()
}

// post posts a send without waiting.
func (x *trial) post(op peer.Opcode, id uint64, size int) error {
	return x.rq.PostSend(x.wr(op, id, size))
}

func (x *trial) wr(op peer.Opcode, id uint64, size int) peer.SendWR {
	w := peer.SendWR{ID: id, Op: op, Flags: peer.FlagSignaled, SGL: sgl(x.req.arena, dataOff, size),
		RemoteAddr: x.rsp.arena.Addr() + dataOff, RKey: x.rsp.arena.RKey()}
	if op == peer.OpFetchAdd || op == peer.OpCmpSwap {
		w.SGL = []peer.SGE{{MR: x.req.arena, Off: atomicOff, Len: 8}}
		w.RemoteAddr = x.rsp.arena.Addr() + atomicOff
	}
	return w
}

func (x *trial) recv(id uint64, size int) error {
	return x.sq.PostRecv(peer.RecvWR{ID: id, SGL: []peer.SGE{{MR: x.rsp.arena, Off: dataOff, Len: size}}})
}

// fails waits for the request's completion, which must have one of the statuses, and
// checks what must follow: the request behind it is flushed, and the QP is in error.
func (x *trial) fails(id uint64, want ...peer.Status) (peer.WC, error) {
	wc, err := x.rq.PollSend(1, opWait)
	if err != nil {
		return peer.WC{}, err
	}
	if len(wc) != 1 {
		return peer.WC{}, fmt.Errorf("no completion in %v, want %v", opWait, want)
	}
	switch {
	case wc[0].ID != id:
		return wc[0], fmt.Errorf("%w, want id %d, %v", statusError{wc[0]}, id, want)
	case !slices.Contains(want, wc[0].Status):
		return wc[0], endedError{statusError{wc[0]}, want}
	}
	if err := x.post(peer.OpWrite, id+1, 8); err != nil {
		// rxe takes work requests in the error state; refusing them is no less right as long
		// as the state is the reason.
		if st, e := x.rq.State(); e != nil || st != peer.StateErr {
			return wc[0], fmt.Errorf("posting after the error: %w (state %d, %v)", err, st, e)
		}
		return wc[0], nil
	}
	after, err := x.rq.PollSend(1, opWait)
	if err != nil {
		return wc[0], err
	}
	if len(after) != 1 || after[0].Status != peer.WRFlushErr || after[0].ID != id+1 {
		return wc[0], fmt.Errorf("the next request: %v, want WR_FLUSH_ERR", after)
	}
	st, err := x.rq.State()
	if err == nil && st != peer.StateErr {
		err = fmt.Errorf("requester's QP is in state %d, want ERR", st)
	}
	return wc[0], err
}

// untouched checks that nothing was written at the target.
func (x *trial) untouched(seed uint64) error {
	bad, err := x.rsp.arena.Check(0, 4*guard, seed, 0)
	if err == nil && bad >= 0 {
		err = fmt.Errorf("byte %d of the target was written", bad)
	}
	return err
}
