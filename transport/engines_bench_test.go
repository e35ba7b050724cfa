package transport

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// enginePair is an engine of one host and one of another, connected by a QP each. One goroutine
// drives both.
type enginePair struct {
	ends [2]struct {
		h  *host
		e  *Engine
		qp *QP
		cq *CQ
		rx RxPacket
	}
	wr    SendWR
	recv  RecvWR
	now   int64
	batch [benchBatch]TxPacket
	wire  [benchBatch][]byte
	wcs   [benchBatch]WC
}

// newEnginePairs connects engine i of one host with engine i of the other, for n of them. All of a
// host share a table of memory, a domain and a region.
func newEnginePairs(b testing.TB, n int, op WROpcode, size int) []*enginePair {
	hosts := [2]*host{newHost(b, "192.0.2.1", 1, n), newHost(b, "192.0.2.2", 2, n)}
	var regions [2]*mem.Region
	for i, h := range hosts {
		var err error
		regions[i], err = h.table.Register(h.pd, mem.RegionAttr{
			Bytes: make([]byte, n<<13), Access: mem.LocalWrite | mem.RemoteWrite | mem.ZeroBased,
		})
		require.NoError(b, err)
	}
	pairs := make([]*enginePair, n)
	for k := range pairs {
		p := &enginePair{now: 1e9}
		for i := range p.ends {
			s := &p.ends[i]
			s.h, s.e = hosts[i], hosts[i].engines[k]
			var err error
			s.cq, err = s.e.CreateCQ(4*benchBatch, nil)
			require.NoError(b, err)
			s.qp, err = s.e.CreateQP(QPInitAttr{Type: ib.RC, PD: s.h.pd, SendCQ: s.cq, RecvCQ: s.cq,
				Caps: QPCaps{MaxSendWR: 2 * benchBatch, MaxRecvWR: 2 * benchBatch, MaxSendSGE: 1, MaxRecvSGE: 1}})
			require.NoError(b, err)
		}
		connectHosts(b, hosts[0], hosts[1], p.ends[0].qp, p.ends[1].qp)
		for i := range p.wire {
			p.wire[i] = make([]byte, 0, ib.MaxPacketBytes)
		}
		at := uint64(k << 13)
		p.wr = SendWR{Opcode: op, Flags: SendSignaled, RemoteAddr: at, RKey: regions[1].RKey(),
			SGList: []SGE{{Addr: at, Length: uint32(size), LKey: regions[0].LKey()}}}
		p.recv = RecvWR{SGList: []SGE{{Addr: at, Length: uint32(size), LKey: regions[1].LKey()}}}
		pairs[k] = p
	}
	return pairs
}

// carry moves what end i has to send to the other one: a copy of each packet, as a link makes.
func (p *enginePair) carry(i int) int {
	from, to := &p.ends[i], &p.ends[1-i]
	n := from.e.PollTransmit(p.now, p.batch[:])
	to.rx.Src, to.rx.Dst = from.h.addr, to.h.addr
	for j := range p.batch[:n] {
		p.wire[j] = append(p.batch[j].AppendTo(p.wire[j][:0]), 0, 0, 0, 0)
	}
	for j := range p.batch[:n] {
		to.rx.Data = p.wire[j]
		to.e.HandlePacket(p.now, &to.rx)
	}
	return n
}

// round moves a batch of messages, with their acknowledgements and completions.
func (p *enginePair) round() error {
	a, b := &p.ends[0], &p.ends[1]
	p.now += 10_000
	for range benchBatch {
		if p.wr.Opcode == WRSend {
			if err := b.qp.PostRecv(&p.recv); err != nil {
				return err
			}
		}
		if err := a.qp.PostSend(p.now, &p.wr); err != nil {
			return err
		}
	}
	for p.carry(0)+p.carry(1) > 0 {
	}
	if n := a.cq.Poll(p.wcs[:]); n != benchBatch {
		return fmt.Errorf("%d completions", n)
	}
	if p.wr.Opcode == WRSend {
		b.cq.Poll(p.wcs[:])
	}
	return nil
}

// BenchmarkEngines moves batches of messages between engines that share a table of memory on either
// side, each pair in a goroutine of its own. An operation is one batch, of whichever pair has time:
// on two idle cores two pairs should need half the time of one.
func BenchmarkEngines(b *testing.B) {
	const chunk = 8 // batches that a goroutine takes at a time
	for _, op := range []struct {
		name string
		op   WROpcode
		size int
	}{{"WRITE/64", WRWrite, 64}, {"WRITE/1024", WRWrite, 1024}, {"SEND/64", WRSend, 64}} {
		for n := 1; n <= runtime.GOMAXPROCS(0); n *= 2 {
			b.Run(fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B) {
				pairs := newEnginePairs(b, n, op.op, op.size)
				for _, p := range pairs {
					require.NoError(b, p.round()) // its queues have their size then
				}
				var begun atomic.Int64
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for _, p := range pairs {
					wg.Go(func() {
						for {
							end := int(begun.Add(chunk))
							for range min(chunk, b.N-(end-chunk)) {
								if err := p.round(); err != nil {
									b.Error(err)
									return
								}
							}
							if end >= b.N {
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/message")
			})
		}
	}
}
