package captures

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

const (
	// psn0 is the first PSN of the requester, rspPSN0 that of the responder.
	psn0    = 1000
	rspPSN0 = 5000
	psnMask = 0xffffff

	arenaBytes = 64 << 10
	atomicAt   = 8
	dataAt     = 64
	recvAt     = 32 << 10
	udGRH      = 40
	qkey       = 0x11111111

	// Eight packets, the last of them short, so that first, middle and last differ.
	mtu      = 256
	long     = 7*mtu + 100
	packets  = 8
	short    = 64
	opWait   = time.Minute
	shortRun = 2 // retry_cnt where it is to run out
)

// ACK timeouts, as codes. A guest on a busy machine may stand still for hundreds of milliseconds:
// where no timer is to run out, it is long.
const (
	calm  = 18 // 1.07 s
	tense = 15 // 134 ms
)

// link is how the queue pairs of a scene are connected.
type link struct {
	typ      peer.Type
	mtu      [2]int
	timeout  int
	retry    int
	rnrRetry int
}

// take is a scene being played.
type take struct {
	wire  *ether.Switch
	addrs [2]netip.Addr
	ports [2]string
	ends  [2]end
	link  link
	psn   uint32 // the requester's next
	id    uint64
	rules []*ether.Rule
	marks map[*ether.Rule]bool
	calm  map[uint32]bool // PSNs of requests behind the fault
}

// end is one side of the connection.
type end struct {
	s  peer.Session
	mr peer.MR
	qp peer.QP
}

// open makes sessions and memory at both ends.
func (t *take) open(ctx context.Context, peers [2]peer.Peer) error {
	for i, p := range peers {
		s, err := p.Open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name(), err)
		}
		t.ends[i].s = s
		if t.ends[i].mr, err = s.MR(arenaBytes, peer.AccessAll); err != nil {
			return fmt.Errorf("%s: %w", p.Name(), err)
		}
	}
	return nil
}

func (t *take) close() {
	t.wire.Remove(t.rules...)
	for _, e := range t.ends {
		if e.s != nil {
			_ = e.s.Close()
		}
	}
}

// pair makes a connected pair of queue pairs.
func (t *take) pair(l link, psn uint32) (qps [2]peer.QP, err error) {
	cfg := peer.QPConfig{Type: l.typ, QKey: qkey}
	if l.typ != peer.UD {
		cfg.Access = peer.AccessRemoteWrite
	}
	if l.typ == peer.RC {
		cfg.Access |= peer.AccessRemoteRead | peer.AccessRemoteAtomic
	}
	for i := range qps {
		if qps[i], err = t.ends[i].s.QP(cfg); err != nil {
			return qps, err
		}
	}
	for i := range qps {
		c := peer.Conn{
			Family: peer.V4, Remote: t.addrs[1-i], RemoteQPN: qps[1-i].QPN(), MTU: l.mtu[i], SQPSN: psn, RQPSN: rspPSN0,
			Timeout: l.timeout, RetryCnt: l.retry, RNRRetry: l.rnrRetry, MinRNRTimer: 12, MaxRdAtomic: 4,
			MaxDestRdAtomic: 4,
		}
		if i == AtResponder {
			c.SQPSN, c.RQPSN = c.RQPSN, c.SQPSN
		}
		if err := qps[i].Connect(c); err != nil {
			return qps, err
		}
	}
	return qps, nil
}

// connect makes the pair that the scene is about.
func (t *take) connect(l link) error {
	qps, err := t.pair(l, psn0)
	t.link, t.psn = l, psn0
	t.ends[0].qp, t.ends[1].qp = qps[0], qps[1]
	return err
}

// count is how many PSNs a message takes.
func (t *take) count(size int) uint32 {
	m := t.link.mtu[0]
	return uint32(max(1, (size+m-1)/m))
}

// wr makes a work request of the requester.
func (t *take) wr(op peer.Opcode, size int) peer.SendWR {
	t.id++
	req, rsp := t.ends[0], t.ends[1]
	w := peer.SendWR{ID: t.id, Op: op, Flags: peer.FlagSignaled, RemoteAddr: rsp.mr.Addr() + dataAt,
		RKey: rsp.mr.RKey(), SGL: []peer.SGE{{MR: req.mr, Off: dataAt, Len: size}}}
	switch {
	case op == peer.OpFetchAdd:
		w.SGL[0] = peer.SGE{MR: req.mr, Off: atomicAt, Len: 8}
		w.RemoteAddr, w.CompareAdd = rsp.mr.Addr()+atomicAt, 1
	case t.link.typ == peer.UD:
		w.Family, w.Remote, w.RemoteQPN, w.RemoteQKey = peer.V4, t.addrs[1], rsp.qp.QPN(), qkey
	}
	t.psn = (t.psn + t.count(size)) & psnMask
	return w
}

// The steps of a scene end it if they fail: see [peer.Steps].

// post posts work requests at once.
func (t *take) post(ws ...peer.SendWR) {
	for _, w := range ws {
		peer.Must(t.ends[0].qp.PostSend(w))
	}
}

// do carries out work requests, which succeed.
func (t *take) do(ws ...peer.SendWR) {
	t.post(ws...)
	t.await(t.ends[0].qp, len(ws), peer.Success)
}

// await waits for n completions of sends, the last with a status.
func (t *take) await(qp peer.QP, n int, want peer.Status) {
	for i := 0; i < n; {
		wc := peer.Got(qp.PollSend(n-i, opWait))
		if len(wc) == 0 {
			peer.Must(fmt.Errorf("no completion in %v", opWait))
		}
		for _, c := range wc {
			i++
			ok := peer.Success
			if i == n {
				ok = want
			}
			if c.Status != ok {
				peer.Must(fmt.Errorf("completion %v, want %v", c, ok))
			}
		}
	}
}

// fails carries out a work request that does not succeed.
func (t *take) fails(want peer.Status, w peer.SendWR) {
	t.post(w)
	t.await(t.ends[0].qp, 1, want)
}

// recv posts n receives of the responder.
func (t *take) recv(n, size int) {
	for range n {
		t.id++
		peer.Must(t.ends[1].qp.PostRecv(peer.RecvWR{
			ID: t.id, SGL: []peer.SGE{{MR: t.ends[1].mr, Off: recvAt, Len: size}},
		}))
	}
}

// write, read, send and atomic are operations of the requester.
func (t *take) write(size int) peer.SendWR { return t.wr(peer.OpWrite, size) }
func (t *take) read(size int) peer.SendWR  { return t.wr(peer.OpRead, size) }
func (t *take) send(size int) peer.SendWR  { return t.wr(peer.OpSend, size) }
func (t *take) atomic() peer.SendWR        { return t.wr(peer.OpFetchAdd, 8) }

// warm measures round trips: three WRITEs, one after the other.
func (t *take) warm() {
	err := peer.Steps(func() {
		for range 3 {
			t.do(t.write(short))
		}
	})
	if err != nil {
		peer.Must(fmt.Errorf("before the fault: %w", err))
	}
}

// warm plays a scene after that.
func warm(play func(*take)) func(*take) {
	return func(t *take) {
		t.warm()
		play(t)
	}
}

// after carries out work requests behind the fault: nothing happens to them any more.
func (t *take) after(size int) {
	t.calm[t.psn] = true
	t.do(t.write(size))
}

// isCalm reports whether a packet is a request behind the fault.
func (t *take) isCalm(p *ether.Packet) bool { return t.calm[p.PSN] && p.Dst == t.addrs[1] }

// rule puts a rule in force until the end of the take.
func (t *take) rule(r *ether.Rule) *ether.Rule {
	t.rules = append(t.rules, r)
	t.wire.Add(r)
	return r
}

// request matches the packet of the requester n behind the next PSN; answer one of the responder.
func (t *take) request(n uint32) ether.Match { return t.packet(0, (t.psn+n)&psnMask) }
func (t *take) answer(n uint32) ether.Match  { return t.packet(1, (t.psn+n)&psnMask) }

func (t *take) packet(from int, psn uint32) ether.Match {
	return ether.Match{From: t.ports[from], Src: t.addrs[from], Dst: t.addrs[1-from],
		QPN: t.ends[1-from].qp.QPN(), PSN: psn}
}

// mark writes a packet down as the one that the scene is about: it is itself the mistake.
func (t *take) mark(m ether.Match) *ether.Rule {
	return t.markAll(&ether.Rule{Match: m, Kind: ether.Observe})
}

// markAll does so with what a rule observes.
func (t *take) markAll(r *ether.Rule) *ether.Rule {
	t.marks[r] = true
	return t.rule(r)
}

// told reports whether what a rule did is a part of the truth about the scene. Other rules that
// observe only tell when to go on.
func (t *take) told(r *ether.Rule) bool { return r.Kind != ether.Observe || t.marks[r] }

var errNotInjected = errors.New("the fault did not happen")

// hit checks that a rule has acted.
func hit(r *ether.Rule, least int) error {
	if r.Hits() < least {
		return fmt.Errorf("%w: %d times, want %d", errNotInjected, r.Hits(), least)
	}
	return nil
}

func (t *take) hit(r *ether.Rule, least int)   { peer.Must(hit(r, least)) }
func (t *take) awaitHits(r *ether.Rule, n int) { peer.Must(waitHits(r, n)) }

// waitHits waits until a rule has acted so often. The condition is the packets', the time but a
// limit.
func waitHits(r *ether.Rule, n int) error { return waitHitsFor(r, n, opWait) }

func waitHitsFor(r *ether.Rule, n int, limit time.Duration) error {
	for end := time.Now().Add(limit); r.Hits() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return hit(r, n)
		}
	}
	return nil
}

// pause waits for as long as several ACK timeouts, so that a capture shows that somebody gave up.
func pause(l link) { time.Sleep(8 * (4096 * time.Nanosecond << l.timeout)) }
