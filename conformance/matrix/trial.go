package matrix

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// What the error scenarios have in common: a connection, the trace of its packets, and the
// rules that disturb them.

// trial is a scenario being run.
type trial struct {
	*conn
	tr    *ether.Trace
	v     *ether.Views
	rules []*ether.Rule
}

const (
	shortRetry = 2 // retry_cnt where it is to be exceeded
	// rnrCode is 0.64 ms.
	rnrCode = 12
)

// rule puts a rule in force for the length of the trial.
func (x *trial) rule(r *ether.Rule) *ether.Rule {
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

// The steps of a trial end it if they fail: see [peer.Steps].

// transfer is conn's.
func (x *trial) transfer(op peer.Opcode, size int) { peer.Must(x.conn.transfer(op, size)) }

// post posts a send without waiting.
func (x *trial) post(op peer.Opcode, id uint64, size int) { x.postWR(x.wr(op, id, size)) }

func (x *trial) postWR(w peer.SendWR) { peer.Must(x.rq.PostSend(w)) }

func (x *trial) recv(id uint64, size int) {
	peer.Must(x.sq.PostRecv(peer.RecvWR{ID: id, SGL: []peer.SGE{{MR: x.rsp.arena, Off: dataOff, Len: size}}}))
}

// sent and received wait for completions of the two sides.
func (x *trial) sent(id uint64)     { peer.Got(await(x.rq.PollSend, id, "requester")) }
func (x *trial) received(id uint64) { peer.Got(await(x.sq.PollRecv, id, "responder")) }

// hits waits until a rule has acted so often; acted checks that it has acted neither more nor less
// often.
func (x *trial) hits(r *ether.Rule, n int) { peer.Must(waitHits(r, n, opWait)) }

func (x *trial) acted(r *ether.Rule, n int, what string) {
	if r.Hits() != n {
		peer.Must(fmt.Errorf("%s: %d times, want %d", what, r.Hits(), n))
	}
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

// fails waits for the request's completion, which must have one of the statuses, and
// checks what must follow: the request behind it is flushed, and the QP is in error.
func (x *trial) fails(id uint64, want ...peer.Status) peer.WC {
	wc := peer.Got(x.rq.PollSend(1, opWait))
	switch {
	case len(wc) != 1:
		peer.Must(fmt.Errorf("no completion in %v, want %v", opWait, want))
	case wc[0].ID != id:
		peer.Must(fmt.Errorf("%w, want id %d, %v", statusError{wc[0]}, id, want))
	case !slices.Contains(want, wc[0].Status):
		peer.Must(endedError{statusError{wc[0]}, want})
	}
	if err := x.rq.PostSend(x.wr(peer.OpWrite, id+1, 8)); err != nil {
		// rxe takes work requests in the error state; refusing them is no less right as long
		// as the state is the reason.
		if st, e := x.rq.State(); e != nil || st != peer.StateErr {
			peer.Must(fmt.Errorf("posting after the error: %w (state %d, %v)", err, st, e))
		}
		return wc[0]
	}
	after := peer.Got(x.rq.PollSend(1, opWait))
	if len(after) != 1 || after[0].Status != peer.WRFlushErr || after[0].ID != id+1 {
		peer.Must(fmt.Errorf("the next request: %v, want WR_FLUSH_ERR", after))
	}
	if st := peer.Got(x.rq.State()); st != peer.StateErr {
		peer.Must(fmt.Errorf("requester's QP is in state %d, want ERR", st))
	}
	return wc[0]
}

// untouched checks that nothing was written at the target.
func (x *trial) untouched(seed uint64) {
	if bad := peer.Got(x.rsp.arena.Check(0, 4*guard, seed, 0)); bad >= 0 {
		peer.Must(fmt.Errorf("byte %d of the target was written", bad))
	}
}
