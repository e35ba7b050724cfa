package perftest

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// pinger is one side of a latency test: one QP, one message in flight.
type pinger struct {
	*runner
	e     *endpoint
	peer  *dest
	size  int
	iters uint64 // 0 with -D
	wr    verbs.SendWR
	sge   [1]verbs.SGE

	sent, acked, received uint64
	postedAt              []int64
}

func (r *runner) pinger(size int, iters uint64) *pinger {
	s := r.s
	p := &pinger{runner: r, e: &s.res.endpoints[0], peer: &s.x.peer[0], size: size, iters: iters}
	p.wr = s.template(&lane{e: p.e, peer: p.peer}, size)
	p.wr.Flags |= verbs.SendSignaled
	p.wr.RemoteAddr = p.peer.VAddr
	p.sge[0] = p.e.mr.SGE(p.e.send.start, size)
	p.wr.SGList = p.sge[:]
	if iters > 0 {
		p.postedAt = make([]int64, iters)
	}
	return p
}

// post sends the next message.
func (p *pinger) post() error {
	if gap := int64(p.s.o.LatencyGapUs) * 1000; gap > 0 {
		for until := nowNs() + gap; nowNs() < until; {
			runtime.Gosched()
		}
	}
	if p.postedAt != nil {
		p.postedAt[p.sent] = nowNs()
	}
	p.sent++
	p.wr.ID = sendID(0, p.sent)
	if err := p.e.qp.PostSend(&p.wr); err != nil {
		return fmt.Errorf("post message %d: %w", p.sent, err)
	}
	return nil
}

// more reports whether another of the n-th kind of event is due.
func (p *pinger) more(n uint64) bool { return p.iters == 0 || n < p.iters }

// until takes completions until done says so. onRecv may be nil.
func (p *pinger) until(done func() bool, onRecv func(*verbs.WC) error) error {
	for !done() {
		wcs, err := p.take(true)
		if err != nil {
			return err
		}
		for i := range wcs {
			if wcs[i].ID&idRecv == 0 {
				p.acked++
				continue
			}
			p.received++
			if err := onRecv(&wcs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// allAcked is a condition for until.
func (p *pinger) allAcked() bool { return p.acked == p.sent }

// runOneSided is READ and the atomics: the other side does nothing.
func (p *pinger) runOneSided() error {
	p.begin(nowNs())
	for p.more(p.sent) {
		if over, err := p.postCounted(); over || err != nil {
			return err
		}
	}
	return nil
}

// postCounted posts a message, waits until it is acknowledged, and counts it. over says that the
// time is up.
func (p *pinger) postCounted() (over bool, err error) {
	if err := p.post(); err != nil {
		return false, err
	}
	if err := p.until(p.allAcked, nil); err != nil {
		return true, ended(err)
	}
	now := nowNs()
	p.watch.count(now, 1)
	return p.watch.over(now), nil
}

// runSend bounces messages. The client begins; each side answers when it has received.
func (p *pinger) runSend(v *receiver) error {
	driver := p.s.o.Driver()
	first := true
	var turns uint64 // messages answered or to be answered; the next may be there already
	for p.more(p.sent) || p.more(turns) {
		if p.more(turns) && (p.sent > 0 || !driver) {
			turns++
			if err := p.until(func() bool { return p.received >= turns }, v.complete); err != nil {
				return ended(err)
			}
			now := nowNs()
			if first {
				// As the original: the time begins with the first message received, on both sides.
				first = false
				p.begin(now)
			}
			p.watch.count(now, 1)
			if p.watch.over(now) {
				return nil
			}
		}
		if p.more(p.sent) {
			if err := p.post(); err != nil {
				return err
			}
			if err := p.until(p.allAcked, v.complete); err != nil {
				return ended(err)
			}
		}
	}
	return nil
}

// runWrite bounces WRITEs: the last byte of each message is a counter, and each
// side watches that byte of its own memory. The server begins.
func (p *pinger) runWrite() error {
	p.begin(nowNs())
	mem := p.e.mr.Bytes()
	mine := p.e.send.start + p.size - 1
	theirs := p.e.recv.start + p.size - 1
	var seen uint64
	for p.more(p.sent) || p.more(seen) {
		if p.more(seen) && (p.sent > 0 || p.s.o.Driver()) {
			seen++
			if err := p.waitByte(theirs, byte(seen)); err != nil {
				return ended(err)
			}
		}
		if p.more(p.sent) {
			mem[mine] = byte(p.sent + 1)
			if over, err := p.postCounted(); over || err != nil {
				return err
			}
		}
	}
	return nil
}

// How waitByte waits while a thread of the device's own receives: it looks all the
// time at first, and then lets other threads run between looks, since with few
// CPUs it is the thread that receives which lacks one.
const (
	busyNs             = 20_000
	looksBetweenChecks = 64 // of the clock and the context
)

// waitByte waits until a peer has written want to byte i of the region.
func (p *pinger) waitByte(i int, want byte) error {
	var b [1]byte
	start := nowNs()
	for n := 1; ; n++ {
		if _, err := p.e.mr.ReadAt(b[:], int64(i)); err != nil {
			return fmt.Errorf("look at the memory: %w", err)
		}
		if b[0] == want {
			p.moved.Add(1)
			return nil
		}
		if p.s.o.Polling {
			// This is what receives packets; no completion is due.
			if _, err := p.take(false); err != nil {
				return err
			}
		} else {
			runtime.Gosched()
		}
		if n%looksBetweenChecks == 0 {
			if p.ctx.Err() != nil {
				return context.Cause(p.ctx)
			}
			if !p.s.o.Polling && nowNs()-start > busyNs {
				tool.YieldCPU()
				n-- // look at the clock again next time
			}
		}
	}
}

// ended turns the end of the time of -D into success.
func ended(err error) error {
	if timeUp(err) {
		return nil
	}
	return err
}

// roundTrip is how many messages one measured time spans.
func (t Test) roundTrip() int {
	if t.Verb == Send || t.Verb == Write {
		return 2
	}
	return 1
}

// runLatency runs one size of a latency test and prints its row.
func (s *session) runLatency(ctx context.Context, size int) error {
	r := s.newRunner(ctx)
	defer r.close()
	s.walkAs(size)
	iters := uint64(s.o.Iters)
	p := r.pinger(size, iters)
	var err error
	switch s.o.Test.Verb {
	case Send:
		var v *receiver
		if v, err = r.receiver(size, iters); err != nil {
			return err
		}
		// The peer must not send before receives are posted: UC and UD would lose the message.
		if err = s.barrier(); err != nil {
			return err
		}
		err = p.runSend(v)
	case Write:
		err = p.runWrite()
	default:
		err = p.runOneSided()
	}
	if err != nil {
		return err
	}
	if r.watch.total > 0 {
		l := latencyOverTime(size, r.watch.samples, r.watch.sampled(), s.o.Test.roundTrip())
		s.rows = append(s.rows, l)
		s.p.latencyTimed(l)
		return nil
	}
	l := latencyOf(size, p.postedAt, s.o.Test.roundTrip())
	s.rows = append(s.rows, l)
	s.p.latency(l)
	return nil
}

// sizes returns the message sizes of the test, in order.
func (s *session) sizes() []int {
	if !s.o.All {
		return []int{s.o.Size}
	}
	most := maxSizeAll
	if s.o.Transport == ib.UD {
		most = s.x.mtu.Bytes()
	}
	var all []int
	for n := 2; n <= most; n *= 2 {
		all = append(all, n)
	}
	return all
}
