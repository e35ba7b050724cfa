package matrix

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// position says which packet of an operation a fault hits.
type position string

const (
	reqFirst  position = "first request packet"
	reqMiddle position = "middle request packet"
	reqLast   position = "last request packet"
	reqOnly   position = "request"
	ack       position = "acknowledgement"
	rspFirst  position = "first response packet"
	rspMiddle position = "middle response packet"
	rspLast   position = "last response packet"
)

// fault is what happens to that packet.
type fault struct {
	name  string
	kind  ether.Kind
	times int
	warm  int // operations before, from which the requester knows the round trip
}

var faults = []fault{
	{name: "drop", kind: ether.Drop, times: 1},
	{name: "drop twice", kind: ether.Drop, times: 2},
	{name: "drop late", kind: ether.Drop, times: 1, warm: 8},
	{name: "duplicate", kind: ether.Duplicate, times: 1},
	{name: "reorder", kind: ether.Hold, times: 1},
	{name: "corrupt", kind: ether.Corrupt, times: 1},
}

const (
	// Eight packets, the last of them short, so that first, middle and last differ.
	faultMTU  = 1024
	faultSize = 7*faultMTU + 833
)

// faultOps says where each operation is hit.
var faultOps = []struct {
	typedOp
	size int
	at   []position
}{
	{typedOp{peer.RC, peer.OpSend}, faultSize, []position{reqFirst, reqMiddle, reqLast, ack}},
	{typedOp{peer.RC, peer.OpSendImm}, faultSize, []position{reqFirst, reqLast, ack}},
	{typedOp{peer.RC, peer.OpSendInv}, faultSize, []position{reqLast, ack}},
	{typedOp{peer.RC, peer.OpWrite}, faultSize, []position{reqFirst, reqMiddle, reqLast, ack}},
	{typedOp{peer.RC, peer.OpWriteImm}, faultSize, []position{reqFirst, reqMiddle, reqLast, ack}},
	{typedOp{peer.RC, peer.OpRead}, faultSize, []position{reqOnly, rspFirst, rspMiddle, rspLast}},
	{typedOp{peer.RC, peer.OpFetchAdd}, 8, []position{reqOnly, ack}},
	{typedOp{peer.RC, peer.OpCmpSwap}, 8, []position{reqOnly, ack}},
	{typedOp{peer.RC, peer.OpAtomicWrite}, 8, []position{reqOnly, ack}},
	{typedOp{peer.RC, peer.OpFlush}, 4096, []position{reqOnly, ack}},
}

// target returns the match of the packet at a position of an operation that starts at the
// connection's present PSN.
func (c *conn) target(at position, size int) ether.Match {
	n := uint32(c.packets(size))
	m := ether.Match{From: c.req.p.PortName(), Dst: c.rsp.p.Addr(c.family), Src: c.req.p.Addr(c.family),
		QPN: c.sq.QPN(), PSN: c.psn}
	switch at {
	case ack, rspFirst, rspMiddle, rspLast:
		m.From, m.Src, m.Dst, m.QPN = c.rsp.p.PortName(), m.Dst, m.Src, c.rq.QPN()
	}
	switch at {
	case reqMiddle, rspMiddle:
		m.PSN += n / 2
	case reqLast, rspLast, ack:
		m.PSN += n - 1
	}
	m.PSN &= psnMask
	return m
}

// between returns whether a packet belongs to the connection.
func (c *conn) between() func(*ether.Packet) bool {
	a, b := c.req.p.Addr(c.family), c.rsp.p.Addr(c.family)
	qa, qb := c.rq.QPN(), c.sq.QPN()
	return func(p *ether.Packet) bool {
		return p.Src == a && p.Dst == b && p.QPN == qb || p.Src == b && p.Dst == a && p.QPN == qa
	}
}

// faultJobs makes the rows of one packet dropped, doubled, overtaken or damaged.
func (e *Env) faultJobs(r role) (jobs []job) {
	for _, f := range bothFamilies {
		for _, o := range faultOps {
			for _, at := range o.at {
				for _, ft := range faults {
					if f == peer.V6 && !e.Full && ft.kind != ether.Corrupt && ft.name != "drop" {
						continue
					}
					row := e.row("faults", o.typedOp.String(), r)
					row.MTU, row.Size, row.Family, row.Fault = faultMTU, o.size, string(f), ft.name+" "+string(at)
					row.Authority =
						"IBTA 9.7.5.2, 9.7.6, 9.9.2: lost, late and damaged packets are repaired, and take effect once"
					jobs = append(jobs, job{rows: []Row{row}, run: func(p *pair) []Row {
						return []Row{e.runFault(p, row, o.typedOp, f, o.size, at, ft)}
					}})
				}
			}
		}
		jobs = append(jobs, e.unreliable(r, f)...)
	}
	return jobs
}

func (e *Env) runFault(p *pair, row Row, t typedOp, f peer.Family, size int, at position, ft fault) Row {
	if why := lacks(t, p.req.p, p.rsp.p); why != "" {
		return row.skipped(why)
	}
	if isRXE(p.req.p) && rxeForgetsVA(t.op, at, ft) {
		row.Authority = "seen on rxe 6.12: a repeated request has address 0, which must be refused"
	}
	if isRXE(p.rsp.p) && rxeForgetsFlush(t.op, at, ft) {
		row.Authority = "seen on rxe 6.12: a repeated FLUSH is never answered"
	}
	var took time.Duration
	err := row.whileStarved(
		func() (err error) { took, row.Deviates, err = e.oneFault(p, t, f, size, at, ft); return err })
	if row = row.ended(err); err != nil {
		row.Deviates = ""
	}
	if err == nil && ft.warm > 0 {
		row.Detail = fmt.Sprintf("took %.1f ms", float64(took.Microseconds())/1e3)
	}
	return row
}

// oneFault returns for how long the operation with the fault took, and what rxe has done otherwise
// than the specification says, if it is known to.
func (e *Env) oneFault(p *pair, t typedOp, f peer.Family, size int, at position,
	ft fault) (took time.Duration, deviates string, err error) {
	par := defaults(t.typ, f, faultMTU)
	par.timeout = timeoutOfFault(p.req.p, p.rsp.p, t.op, at, ft)
	c, err := p.connect(par)
	if err != nil {
		return 0, "", err
	}
	defer c.close()
	tr := e.Wire.Trace(c.between())
	defer tr.Stop()
	v := c.views()
	defer v.Stop()
	defer func() { err = c.excuse(err, tr) }()
	for range ft.warm {
		if err := c.transfer(t.op, size); err != nil {
			return 0, "", fmt.Errorf("before the fault: %w\n%s", err, tr.Tail(60))
		}
	}
	match := c.target(at, size)
	if t.op == peer.OpFlush { // one packet, behind the WRITE that it flushes
		match.PSN = (c.psn + uint32(c.packets(size))) & psnMask
	}
	rule := &ether.Rule{Match: match, Kind: ft.kind, Times: ft.times, Offset: -5}
	e.Wire.Add(rule)
	begin := time.Now()
	err = c.transfer(t.op, size)
	took = time.Since(begin)
	e.Wire.Remove(rule)
	better := e.Untried && err == nil
	if isRXE(p.req.p) && rxeForgetsVA(t.op, at, ft) && !better {
		return took, "the repeated request has address 0, and is refused", c.forgotVA(match, err, tr, v)
	}
	if isRXE(p.rsp.p) && rxeForgetsFlush(t.op, at, ft) && !better {
		if err == nil || !strings.Contains(err.Error(), peer.RetryExcErr.String()) {
			if err == nil {
				return took, "", errors.New("a FLUSH whose answer was lost was answered again, as specified; this version of rxe is known never to do that, which is no longer true")
			}
			return took, "",
				fmt.Errorf("a FLUSH whose answer was lost: %w, want %v, as rxe is known to end", err, peer.RetryExcErr)
		}
		return took, "a repeated FLUSH is never answered", nil
	}
	if err != nil && isRXE(p.req.p) && rxeOvertakes(t.op, at, ft) && c.forgotVA(match, err, tr, v) == nil {
		return took, "its timer expired while the request was held back, and the repeated one has address 0", nil
	}
	if err != nil {
		return took, "", fmt.Errorf("%w\n%s", err, tr.Tail(60))
	}
	if rule.Hits() != ft.times {
		return took, "", fmt.Errorf("the fault happened %d times, want %d\n%s", rule.Hits(), ft.times, tr.Tail(40))
	}
	if err := c.transfer(t.op, size); err != nil {
		return took, "", fmt.Errorf("the next operation: %w\n%s", err, tr.Tail(60))
	}
	// Exactly once: nothing may complete a second time.
	for _, poll := range []func(int, time.Duration) ([]peer.WC, error){c.rq.PollSend, c.sq.PollRecv} {
		wc, err := poll(1, 0)
		if err != nil {
			return took, "", err
		}
		if len(wc) != 0 {
			return took, "", fmt.Errorf("one completion too many: %v\n%s", wc[0], tr.Tail(60))
		}
	}
	if broken := c.checkConduct(v); broken != nil {
		return took, "", fmt.Errorf("%w\n%s", broken, tr.Tail(60))
	}
	return took, "", nil
}

// timeoutOfFault is the ACK timeout's code of the requester. A guest was seen to answer nobody for
// 1.3 s, which the retries of one that probes may outlast: it waits for its timer only where a
// probe is lost, too, or where nothing helps.
func timeoutOfFault(req, rsp peer.Peer, op peer.Opcode, at position, ft fault) int {
	if !isGoroce(req) || isRXE(rsp) && rxeForgetsFlush(op, at, ft) {
		return faultTimeout
	}
	return probeTimeout
}

// rxeForgetsVA reports whether a fault makes rxe 6.12 repeat a request with address 0:
// an ATOMIC WRITE or FLUSH that did not arrive. (Repeats of one that did arrive are
// answered from what the responder remembers.)
func rxeForgetsVA(op peer.Opcode, at position, ft fault) bool {
	return (op == peer.OpAtomicWrite || op == peer.OpFlush) && at == reqOnly &&
		(ft.kind == ether.Drop || ft.kind == ether.Corrupt)
}

// rxeOvertakes reports whether a fault lets a repeated request of rxe 6.12, with address 0, arrive
// before the first one, if its timer expires meanwhile. A guest that had paused was seen to send it
// again after 3 ms, where the ACK timeout is 134 ms.
func rxeOvertakes(op peer.Opcode, at position, ft fault) bool {
	return (op == peer.OpAtomicWrite || op == peer.OpFlush) && at == reqOnly && ft.kind == ether.Hold
}

// rxeForgetsFlush reports whether a fault makes rxe 6.12 see a repeated FLUSH, which it
// does not remember and drops in silence.
func rxeForgetsFlush(op peer.Opcode, at position, ft fault) bool {
	return op == peer.OpFlush && at == ack && (ft.kind == ether.Drop || ft.kind == ether.Corrupt)
}

// forgotVA checks that the repeated request did have address 0, and that it was refused:
// nothing else is right, because to the responder it is a request for address 0.
func (c *conn) forgotVA(m ether.Match, got error, tr *ether.Trace, v *ether.Views) error {
	r, err := c.analysed(v, atRequester,
		analyse.Conduct{Losses: []analyse.Loss{{Requester: c.ends()[0], Responder: c.ends()[1], PSN: ib.PSN(m.PSN)}}})
	switch {
	case err != nil:
		return err
	case r.Repairs[0].Times < 2:
		return fmt.Errorf("the request was not repeated\n%s", tr.Tail(20))
	case !slices.ContainsFunc(r.Breaches, func(b analyse.Breach) bool {
		return b.Rule == analyse.RuleAgain && strings.Contains(b.Text, "for address 0x0,")
	}):
		return fmt.Errorf("the repeated request has its address, as specified; this version of rxe is known to send address 0, which is no longer true\n%s", tr.Tail(20))
	case got == nil || !strings.Contains(got.Error(), peer.RemAccessErr.String()):
		return fmt.Errorf("a request for address 0 ended with %v, want %v\n%s", got, peer.RemAccessErr, tr.Tail(20))
	}
	return nil
}

// unreliable makes the rows that lose a packet of a UC message: the message is gone as a whole, and
// the next one arrives whole.
func (e *Env) unreliable(r role, f peer.Family) []job {
	var jobs []job
	for _, op := range []peer.Opcode{peer.OpSend, peer.OpWriteImm} {
		for _, at := range []position{reqFirst, reqMiddle, reqLast} {
			for _, ft := range []fault{{name: "drop", kind: ether.Drop, times: 1}, {name: "corrupt",
				kind: ether.Corrupt, times: 1}} {
				row := e.row("faults", typedOp{peer.UC, op}.String(), r)
				row.MTU, row.Size, row.Family, row.Fault = faultMTU, faultSize, string(f), ft.name+" "+string(at)
				row.Authority = "IBTA 9.8.2.2: UC messages with a gap are dropped whole"
				jobs = append(jobs, oneRow(row, func(p *pair, row *Row) error {
					if isRXE(p.rsp.p) && op == peer.OpWriteImm && at != reqFirst {
						*row = row.skipped("rxe never recovers from a UC WRITE without its end (seen on 6.1, 6.12)")
						return nil
					}
					return row.whileLost(p, defaults(peer.UC, f, faultMTU),
						func() error { return e.oneLoss(p, op, f, at, ft) })
				}))
			}
		}
	}
	return jobs
}

func (e *Env) oneLoss(p *pair, op peer.Opcode, f peer.Family, at position, ft fault) error {
	c, err := p.connect(defaults(peer.UC, f, faultMTU))
	if err != nil {
		return err
	}
	defer c.close()
	tr := e.Wire.Trace(c.between())
	defer tr.Stop()
	begin := c.psn
	rule := &ether.Rule{Match: c.target(at, faultSize), Kind: ft.kind, Offset: -5}
	e.Wire.Add(rule)
	defer e.Wire.Remove(rule)
	if err := c.sq.PostRecv(peer.RecvWR{
		ID: 1, SGL: []peer.SGE{{MR: c.rsp.arena, Off: dataOff, Len: faultSize}},
	}); err != nil {
		return err
	}
	if _, err := c.sendOnly(op, 1); err != nil {
		return err
	}
	if err := waitHits(rule, 1, e.lossyWait()); err != nil {
		return fmt.Errorf("%w\n%s", c.seen(lostError{error: err, came: -1}, tr, begin), tr.Tail(60))
	}
	last, second := uint32(2), uint64(0)
	if isRXE(c.rsp.p) && at != reqFirst {
		// rxe 6.1 and 6.12 lose the message after one without its end as well.
		if second, err = c.sendOnly(op, 2); err != nil {
			return err
		}
		last = 3
	}
	begin = c.psn
	seed, err := c.sendOnly(op, last)
	if err != nil {
		return err
	}
	wc, err := c.arrives(1, c.packets(faultSize))
	if err != nil {
		return fmt.Errorf("%w\n%s", c.seen(err, tr, begin), tr.Tail(60))
	}
	if wc.ByteLen != faultSize || op == peer.OpWriteImm && wc.Imm != last {
		return fmt.Errorf("the responder got %v, want message %d\n%s", wc, last, tr.Tail(60))
	}
	err = verify(c.rsp.arena, dataOff, faultSize, seed)
	if err != nil && e.Untried && last == 3 {
		err = verify(c.rsp.arena, dataOff, faultSize, second)
	}
	if err != nil {
		return err
	}
	if wc, err := c.sq.PollRecv(1, 0); err != nil || len(wc) != 0 {
		return fmt.Errorf("one completion too many: %v %v", wc, err)
	}
	return nil
}

// sendOnly fills a message (number n, which is its immediate), sends it, and waits for
// the requester's completion only.
func (c *conn) sendOnly(op peer.Opcode, n uint32) (seed uint64, err error) {
	seed = c.nextSeed()
	if err := place(c.req.arena, c.rsp.arena, dataOff, faultSize, seed); err != nil {
		return 0, err
	}
	err = c.rq.PostSend(peer.SendWR{
		ID: seed, Op: op, Flags: peer.FlagSignaled, SGL: sgl(c.req.arena, dataOff, faultSize), Imm: n,
		RemoteAddr: c.rsp.arena.Addr() + dataOff, RKey: c.rsp.arena.RKey(),
	})
	if err != nil {
		return 0, err
	}
	c.advance(faultSize)
	return seed, c.sendDone(op, seed)
}

// waitHits waits until a rule has acted often enough: the condition is the packets', the
// time only a limit.
func waitHits(r *ether.Rule, n int, within time.Duration) error {
	end := time.Now().Add(within)
	for r.Hits() < n {
		if time.Now().After(end) {
			return fmt.Errorf("the wire saw the packet %d times in %v, want %d", r.Hits(), within, n)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
