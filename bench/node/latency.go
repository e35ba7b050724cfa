package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// PingArgs ask for round trips with a peer that echoes.
type PingArgs struct {
	Size, N int
	// Ns ends it when some have been done, but not all: on a busy machine a round trip
	// between two processes that spin takes as long as the scheduler likes.
	Ns   int64
	Wait Waiting // for the ceiling
}

// Waiting is how the link of the ceiling is received from, in the way of a device.
type Waiting int

const (
	WaitSpin  Waiting = iota // look for a while, then block
	WaitPoll                 // never block
	WaitBlock                // block at once
	WaitYield                // never block, but let others run
)

// PingReply holds percentiles of half round trips, in microseconds.
type PingReply struct {
	P50, P99, P999 float64
	N              int // how many there were
}

// percentiles sorts half round trips in microseconds.
func percentiles(x []float64) PingReply {
	slices.Sort(x)
	at := func(p float64) float64 { return x[min(int(float64(len(x))*p), len(x)-1)] }
	return PingReply{at(0.5), at(0.99), at(0.999), len(x)}
}

// minPings are done in any case.
const minPings = 20

// over reports whether it has taken long enough.
func (a *PingArgs) over(begin time.Time, done int) bool {
	return a.Ns > 0 && done >= minPings && time.Since(begin) > time.Duration(a.Ns)
}

// half is half of the time since start, in microseconds.
func half(start time.Time) float64 { return float64(time.Since(start)) / 2e3 }

// Ping sends messages one after the other and waits for the echo of each.
func (n *Node) Ping(a PingArgs, r *PingReply) error {
	if a.N <= 0 || a.Size <= 0 || a.Size > maxMessage || len(n.qps) == 0 {
		return fmt.Errorf("cannot run %+v", a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	qp := n.qps[0]
	recv := verbs.RecvWR{SGList: []verbs.SGE{n.mr.SGE(0, a.Size)}}
	send := verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{n.mr.SGE(a.Size, a.Size)}}
	took := make([]float64, 0, a.N)
	var wcs [1]verbs.WC
	for begin := time.Now(); len(took) < a.N && !a.over(begin, len(took)); {
		if err := qp.PostRecv(&recv); err != nil {
			return err
		}
		start := time.Now()
		if err := qp.PostSend(&send); err != nil {
			return err
		}
		if _, err := n.cq.Wait(ctx, wcs[:]); err != nil {
			return err
		}
		took = append(took, half(start))
		if err := verbs.WCError(&wcs[0]); err != nil {
			return err
		}
	}
	*r = percentiles(took)
	return nil
}
