package roce

import (
	"context"
	"sync/atomic"

	"github.com/goroce/goroce/roce/verbs"
)

// recvBuffers are the receive buffers of a connection. They share one region, so that many of them
// cost little to make.
type recvBuffers struct {
	mr     *verbs.MR
	mem    []byte // registered as mr; it outlives the registration
	bytes  int    // of one buffer
	stride int

	// turns counts how often each buffer was given back. A Message remembers the count at its
	// arrival.
	turns []atomic.Uint64
}

// turn returns the count of a message that has arrived in buffer i.
func (r *recvBuffers) turn(i int) uint64 { return r.turns[i].Load() }

// holds reports whether the message of a turn is still in its buffer.
func (r *recvBuffers) holds(i int, turn uint64) bool { return r.turns[i].Load() == turn }

// giveBack ends a turn. It returns false if the turn was already over.
func (r *recvBuffers) giveBack(i int, turn uint64) bool {
	return r.turns[i].CompareAndSwap(turn, turn+1)
}

// recvAlign is the alignment of the buffers within the region: a cache line, and more than an
// atomic needs.
const recvAlign = 64

// recvPostBatch is how many receives are posted under one lock.
const recvPostBatch = 128

// postRecvs makes the receive buffers and posts them all. It gives up when the context ends.
func (c *Conn) postRecvs(ctx context.Context) (err error) {
	r := &c.recvs
	r.bytes = c.cfg.RecvBytes
	r.stride = (r.bytes + recvAlign - 1) &^ (recvAlign - 1)
	r.mem, r.turns = make([]byte, r.stride*c.cfg.RecvDepth), make([]atomic.Uint64, c.cfg.RecvDepth)
	if r.mr, err = c.pd.RegisterMR(r.mem, verbs.LocalWrite, nil); err != nil {
		return err
	}
	var wrs [recvPostBatch]verbs.RecvWR
	var elements [recvPostBatch]verbs.SGE
	for i := 0; i < c.cfg.RecvDepth; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(c.cfg.RecvDepth-i, recvPostBatch)
		for j := range n {
			elements[j] = r.sge(i + j)
			wrs[j] = verbs.RecvWR{ID: connRecv | uint64(i+j), SGList: elements[j : j+1]}
		}
		if _, err := c.qp.PostRecvBatch(wrs[:n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// sge returns buffer i as an element of a work request.
func (r *recvBuffers) sge(i int) verbs.SGE { return r.mr.SGE(i*r.stride, r.bytes) }

// message returns the first n bytes of buffer i.
func (r *recvBuffers) message(i, n int) []byte {
	off := i * r.stride
	return r.mem[off : off+n : off+n]
}

// postRecv gives a receive buffer back to the queue pair.
func (c *Conn) postRecv(i int) error {
	return c.qp.PostRecv(&verbs.RecvWR{ID: connRecv | uint64(i), SGList: []verbs.SGE{c.recvs.sge(i)}})
}
