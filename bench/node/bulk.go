package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// Ops are the operations of a Bulk.
var Ops = map[string]verbs.WROpcode{"WRITE": verbs.WRWrite, "READ": verbs.WRRead, "SEND": verbs.WRSend}

// BulkArgs describe a stream of messages.
type BulkArgs struct {
	Op     string
	Size   int // bytes of a message
	Region int // bytes of memory to walk through at both ends
	Batch  int // messages posted together, of which the last is signalled
	Depth  int // batches under way on each queue pair
	QPs    int // on how many queue pairs; 0 is all
	// NoDelay has each message, or batch, sent by itself as soon as it is posted.
	NoDelay bool
	Ns      int64
}

// BulkReply is what became of it.
type BulkReply struct {
	Msgs    int
	Ns      int64   // until the last completion
	WaitCPU float64 // seconds spent spinning for the oracle (ceiling only)
	Lost    int     // packets (ceiling only)
	// PerQP are the messages of each queue pair that were completed in the time
	// asked for, if there are several.
	PerQP []int
	// PerDatagram is how many packets this node sent in a datagram, on average.
	PerDatagram float64
	// Resent are packets that this node sent again.
	Resent uint64
}

// Goodput is the payload in bytes per second.
func (r *BulkReply) Goodput(size int) float64 {
	return float64(r.Msgs) * float64(size) / float64(r.Ns) * 1e9
}

// stream posts batches.
type stream struct {
	n    *Node
	qps  []*verbs.QP
	cq   *verbs.CQ // of all of them
	a    BulkArgs
	wrs  []verbs.SendWR
	sges []verbs.SGE
	next int // messages posted
}

func (s *stream) post(i int) error {
	for k := range s.wrs {
		off := s.next * s.a.Size % (s.a.Region - s.a.Size + 1)
		s.sges[k] = s.n.mr.SGE(off, s.a.Size)
		s.wrs[k].RemoteAddr = s.n.peer.Addr + uint64(off)
		s.next++
	}
	s.wrs[len(s.wrs)-1].ID = uint64(i)
	if len(s.wrs) == 1 {
		return s.qps[i].PostSend(&s.wrs[0])
	}
	_, err := s.qps[i].PostSendBatch(s.wrs)
	return err
}

// Bulk keeps messages under way on all queue pairs for the time asked for, and waits for the last.
func (n *Node) Bulk(a BulkArgs, r *BulkReply) error {
	qps := n.qps
	if a.QPs > 0 {
		qps = qps[:min(a.QPs, len(qps))]
	}
	return n.counted(r, func() error { return n.bulk(a, qps, n.cq, r) })
}

// Parallel is Bulk by as many goroutines as there are completion queues, each with the queue pairs
// of one.
func (n *Node) Parallel(a BulkArgs, r *BulkReply) error {
	replies, errs := make([]BulkReply, len(n.cqs)), make([]error, len(n.cqs))
	return n.counted(r, func() error {
		var streams sync.WaitGroup
		for i, cq := range n.cqs {
			var qps []*verbs.QP
			for k := i; k < len(n.qps); k += len(n.cqs) {
				qps = append(qps, n.qps[k])
			}
			streams.Go(func() { errs[i] = n.bulk(a, qps, cq, &replies[i]) })
		}
		streams.Wait()
		for i := range replies {
			r.Msgs += replies[i].Msgs
			r.Ns = max(r.Ns, replies[i].Ns)
		}
		return errors.Join(errs...)
	})
}

// counted runs f with counters read before and after it.
func (n *Node) counted(r *BulkReply, f func() error) error {
	if n.dev == nil {
		return errors.New("cannot run: no device is open")
	}
	before, resent := n.dev.LinkStats(), n.dev.Counters().RetransmittedPkts
	if err := f(); err != nil {
		return err
	}
	after := n.dev.LinkStats()
	if d := after.TxDatagrams - before.TxDatagrams; d > 0 {
		r.PerDatagram = float64(after.TxPackets-before.TxPackets) / float64(d)
	}
	r.Resent = n.dev.Counters().RetransmittedPkts - resent
	return nil
}

// bulk runs a stream on queue pairs that complete in cq.
func (n *Node) bulk(a BulkArgs, qps []*verbs.QP, cq *verbs.CQ, r *BulkReply) error {
	op, ok := Ops[a.Op]
	if !ok || a.Size <= 0 || a.Size > maxMessage || a.Region < a.Size || a.Region > RegionBytes ||
		a.Batch <= 0 || a.Depth <= 0 || len(qps) == 0 {
		return fmt.Errorf("cannot run %+v", a)
	}
	s := stream{n: n, a: a, qps: qps, cq: cq, wrs: make([]verbs.SendWR, a.Batch), sges: make([]verbs.SGE, a.Batch)}
	for k := range s.wrs {
		s.wrs[k] = verbs.SendWR{Opcode: op, RKey: ib.RKey(n.peer.RKey), SGList: s.sges[k : k+1]}
	}
	s.wrs[a.Batch-1].Flags = verbs.SendSignaled
	for _, qp := range qps {
		qp.SetNoDelay(a.NoDelay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.Ns)+giveUp)
	defer cancel()
	per := make([]int, len(qps))
	var wcs [64]verbs.WC
	inflight := 0
	start := time.Now()
	for range a.Depth {
		for i := range qps {
			if time.Since(start) > time.Duration(a.Ns) {
				break
			}
			if err := s.post(i); err != nil {
				return err
			}
			inflight++
		}
	}
	for inflight > 0 {
		k, err := s.cq.Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		open := time.Since(start) < time.Duration(a.Ns)
		inflight -= k
		r.Msgs += k * a.Batch
		for i := range wcs[:k] {
			if err := verbs.WCError(&wcs[i]); err != nil {
				return err
			}
			if open {
				per[wcs[i].ID] += a.Batch
				if err := s.post(int(wcs[i].ID)); err != nil {
					return err
				}
				inflight++
			}
		}
	}
	r.Ns = int64(time.Since(start))
	if len(per) > 1 {
		r.PerQP = per
	}
	return nil
}

// ServeArgs say how SENDs are received.
type ServeArgs struct {
	Size   int // bytes of a message
	Region int // bytes of memory to walk through
	Echo   bool
	Wait   Waiting // for the ceiling
}

// Serve receives what comes in by SEND on the first queue pair, and sends it back if
// asked to, until Stop.
func (n *Node) Serve(a ServeArgs, _ *struct{}) error {
	qp := n.qps[0]
	next := 0
	sge := make([]verbs.SGE, 1)
	recv := verbs.RecvWR{SGList: sge}
	post := func() error {
		sge[0] = n.mr.SGE(next*a.Size%(a.Region-maxMessage+1), maxMessage)
		next++
		return qp.PostRecv(&recv)
	}
	if !n.posted {
		for range recvDepth {
			if err := post(); err != nil {
				return err
			}
		}
		n.posted = true
	}
	send := verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{n.mr.SGE(0, a.Size)}}
	n.serve(func(ctx context.Context) error {
		var wcs [64]verbs.WC
		wrs := make([]verbs.RecvWR, len(wcs))
		sges := make([]verbs.SGE, len(wcs))
		for {
			k, err := n.cq.Wait(ctx, wcs[:])
			if err != nil {
				return err
			}
			for i := range wcs[:k] {
				if err := verbs.WCError(&wcs[i]); err != nil {
					return err
				}
				sges[i] = n.mr.SGE(next*a.Size%(a.Region-maxMessage+1), maxMessage)
				next++
				wrs[i].SGList = sges[i : i+1]
			}
			if a.Echo {
				for range k {
					if err := qp.PostSend(&send); err != nil {
						return err
					}
				}
			}
			if _, err := qp.PostRecvBatch(wrs[:k]); err != nil {
				return err
			}
		}
	})
	return nil
}
