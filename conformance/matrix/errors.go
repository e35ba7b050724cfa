package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// scenario is one error scenario, named as in datenlord/roce-sim where that has it, so
// that results compare.
type scenario struct {
	name      string
	authority string
	adjust    func(*params)
	// run returns what was seen, for the row's detail.
	run func(x *trial) (string, error)
}

// trial is a scenario being run.
type trial struct {
	*conn
	tr    *wire.Trace
	rules []*wire.Rule
}

const (
	shortRetry = 2 // retry_cnt where it is to be exceeded
	// rnrCode is 0.64 ms.
	rnrCode = 12
)

var scenarios = []scenario{
	{"success_send", "IBTA 9.7", nil, func(x *trial) (string, error) { return "", x.transfer(peer.OpSend, faultSize) }},
	{"success_write", "IBTA 9.7", nil, func(x *trial) (string, error) { return "", x.transfer(peer.OpWrite, faultSize) }},
	{"success_write_imm", "IBTA 9.7", nil, func(x *trial) (string, error) { return "", x.transfer(peer.OpWriteImm, faultSize) }},
	{"success_read", "IBTA 9.7", nil, func(x *trial) (string, error) { return "", x.transfer(peer.OpRead, faultSize) }},
	{"success_atomic_cas", "IBTA 9.7", nil, func(x *trial) (string, error) { return "", x.transfer(peer.OpCmpSwap, 8) }},

	{"rkey_violation write", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpWrite)},
	{"rkey_violation read", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpRead)},
	{"rkey_violation atomic", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpFetchAdd)},
	{"rkey_violation beyond_the_end", "IBTA 9.7.5.2.4: remote access error", nil, beyondEnd},
	{"rkey_violation no_write_permission", "IBTA 9.7.5.2.4: remote access error", nil, noPermission},
	{"misaligned_atomic", "IBTA 9.4.5.1; NAK code seen on rxe 6.1, 6.12", nil, misalignedAtomic},

	{"rnr_nak_retry_limit_exceeded", "IBTA 9.7.5.2.8", func(p *params) { p.rnrRetry = shortRetry }, rnrExceeded},
	{"rnr_nak_retry_limit_not_exceeded", "IBTA 9.7.5.2.8", func(p *params) { p.rnrRetry = 7 }, rnrNotExceeded},

	{"psn_retry_limit_exceeded", "IBTA 9.9.2.1", tense,
		exceeded(peer.OpSend, reqMiddle)},
	{"psn_retry_limit_not_exceeded", "IBTA 9.9.2.1", spare,
		notExceeded(peer.OpSend, reqMiddle, shortRetry)},
	{"local_ack_timeout_retry_limit_exceeded", "IBTA 9.7.6.1.3", tense,
		exceeded(peer.OpSend, reqLast)},
	{"local_ack_timeout_retry_limit_not_exceeded", "IBTA 9.7.6.1.3", spare,
		notExceeded(peer.OpSend, reqLast, shortRetry)},
	{"lost_ack_retry_limit_exceeded", "IBTA 9.7.6.1.3", tense,
		exceeded(peer.OpWrite, ack)},
	{"implied_nak_sequence_error_retry_limit_exceeded", "IBTA 9.7.5.2.7", tense,
		exceeded(peer.OpRead, rspMiddle)},
	{"implied_nak_sequence_error_retry_limit_not_exceeded", "IBTA 9.7.5.2.7", spare,
		notExceeded(peer.OpRead, rspMiddle, shortRetry)},

	{"write_partial_retry", "IBTA 9.9.2.1.1", nil, partialWrite},
	{"read_partial_retry", "IBTA 9.7.5.2.7", nil, partialRead},
	{"ghost_ack", "IBTA 9.7.6.1: acknowledges nothing that was sent", nil, ghostAck},
	{"bad_response", "IBTA 9.9.2.1; status as rxe 6.1, 6.12 or the specification", nil, badResponse},
	{"unexpected_opcode", "IBTA 9.7.4.1.3: invalid request", nil, unexpectedOpcode},
	{"remote_operation_err", "IBTA 9.7.5.2.5", nil, remoteOperation},
	{"receive_buffer_too_short", "IBTA 9.7.4.1.7 says invalid request, rxe 6.1 and 6.12 say remote operational error", nil, tooShort},
}

// tense makes the retries run out soon; spare leaves one more than there are losses, so
// that one stall of an emulated guest is not taken for the peer's mistake.
func tense(p *params) { p.timeout, p.retry = tenseTimeout, shortRetry }
func spare(p *params) { p.timeout, p.retry = calmTimeout, shortRetry+1 }

// Errors runs the error scenarios with the subject in both roles.
func (e *Env) Errors(ctx context.Context) error {
	families := []peer.Family{peer.V4}
	if e.Full {
		families = append(families, peer.V6)
	}
	for _, r := range []role{requester, responder} {
		p, err := e.open(ctx, r)
		if err != nil {
			return err
		}
		for _, f := range families {
			for _, s := range scenarios {
				if err := ctx.Err(); err != nil {
					p.close()
					return err
				}
				row := e.row("errors", s.name, r)
				row.MTU, row.Size, row.Family, row.Authority = faultMTU, faultSize, string(f), s.authority
				var rowErr error
				row.Detail, rowErr = e.oneScenario(p, s, f)
				e.finish(row, rowErr)
			}
			row := e.row("errors", "ud_wrong_qkey", r)
			row.MTU, row.Size, row.Family, row.Authority = faultMTU, 1, string(f), "IBTA 9.6.1.4: dropped silently"
			e.finish(row, e.wrongQKey(p, f))
		}
		p.close()
	}
	return nil
}

func (e *Env) oneScenario(p *pair, s scenario, f peer.Family) (string, error) {
	par := defaults(peer.RC, f, faultMTU)
	par.rnrTimer = rnrCode
	if s.adjust != nil {
		s.adjust(&par)
	}
	c, err := p.connect(par)
	if err != nil {
		return "", err
	}
	defer c.close()
	x := &trial{conn: c, tr: e.Wire.Trace(c.between())}
	defer x.tr.Stop()
	defer func() { e.Wire.Remove(x.rules...) }()
	detail, err := s.run(x)
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, x.tr.Tail(50))
	}
	for _, ev := range x.tr.Events() {
		if ev.Fate == "" && !ev.Pkt.ICRCValid() {
			return "", fmt.Errorf("ICRC is %#08x, want %#08x: %v", ev.Pkt.GotICRC(), ev.Pkt.ICRC(), ev.Pkt)
		}
	}
	return detail, nil
}

// rule puts a rule in force for the length of the trial.
func (x *trial) rule(r *wire.Rule) *wire.Rule {
	x.rules = append(x.rules, r)
	x.env.Wire.Add(r)
	return r
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
	if wc[0].ID != id || !slices.Contains(want, wc[0].Status) {
		return wc[0], fmt.Errorf("completion %v, want %v", wc[0], want)
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

func wrongKey(op peer.Opcode) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		seed := x.nextSeed()
		if err := x.rsp.arena.Fill(0, 4*guard, seed, 0); err != nil {
			return "", err
		}
		wr := x.wr(op, 1, 64)
		wr.RKey ^= 0x5a // another generation of the same key
		if err := x.rq.PostSend(wr); err != nil {
			return "", err
		}
		wc, err := x.fails(1, peer.RemAccessErr)
		if err != nil {
			return "", err
		}
		return wc.Status.String(), x.untouched(seed)
	}
}

func beyondEnd(x *trial) (string, error) {
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr = x.rsp.arena.Addr() + uint64(x.rsp.arena.Len()) - 63
	if err := x.rq.PostSend(wr); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemAccessErr)
	return wc.Status.String(), err
}

func noPermission(x *trial) (string, error) {
	mr, err := x.rsp.s.MR(4096, peer.AccessLocalWrite|peer.AccessRemoteRead)
	if err != nil {
		return "", err
	}
	defer mr.Dereg()
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
	if err := x.rq.PostSend(wr); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemAccessErr)
	if err != nil {
		return "", err
	}
	b, err := mr.Read(0, 64)
	if err == nil && !slices.Equal(b, make([]byte, 64)) {
		err = errors.New("a region without remote write permission was written")
	}
	return wc.Status.String(), err
}

func misalignedAtomic(x *trial) (string, error) {
	// The address is changed on the way, because libraries refuse to post such a request.
	const vaLow = 7 // the last byte of the AtomicETH's address
	hit := x.rule(&wire.Rule{Match: x.target(reqOnly, 8), Kind: wire.Rewrite, Edit: func(p *wire.Packet) { p.Body()[vaLow] |= 4 }})
	if err := x.post(peer.OpFetchAdd, 1, 8); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemInvReqErr)
	if err == nil && hit.Hits() != 1 {
		err = errors.New("no request was changed")
	}
	return wc.Status.String(), err
}

// rnrNAKs counts the RNR NAKs that came back.
func (x *trial) rnrNAKs() *wire.Rule {
	m := wire.Match{From: x.rsp.p.PortName(), Dst: x.req.p.Addr(x.family), QPN: x.rq.QPN(), AnyPSN: true, Opcodes: []uint8{wire.OpAcknowledge},
		Func: func(p *wire.Packet) bool { s, ok := p.Syndrome(); return ok && s&synKind == 0x20 }}
	return x.rule(&wire.Rule{Match: m, Kind: wire.Observe, Times: -1})
}

func rnrExceeded(x *trial) (string, error) {
	naks := x.rnrNAKs()
	if err := x.post(peer.OpSend, 1, 64); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RNRRetryExcErr)
	if err != nil {
		return "", err
	}
	if naks.Hits() != shortRetry+1 {
		return "", fmt.Errorf("%d RNR NAKs, want 1 and %d for the retries", naks.Hits(), shortRetry)
	}
	return fmt.Sprintf("%v after %d RNR NAKs", wc.Status, naks.Hits()), nil
}

func rnrNotExceeded(x *trial) (string, error) {
	naks := x.rnrNAKs()
	seed := x.nextSeed()
	if err := place(x.req.arena, x.rsp.arena, dataOff, faultSize, seed); err != nil {
		return "", err
	}
	if err := x.post(peer.OpSend, 1, faultSize); err != nil {
		return "", err
	}
	if err := waitHits(naks, 3); err != nil {
		return "", err
	}
	if err := x.recv(2, faultSize); err != nil {
		return "", err
	}
	if _, err := await(x.rq.PollSend, 1, "requester"); err != nil {
		return "", err
	}
	if _, err := await(x.sq.PollRecv, 2, "responder"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d RNR NAKs", naks.Hits()), verify(x.rsp.arena, dataOff, faultSize, seed)
}

// exceeded loses the same packet for ever.
func exceeded(op peer.Opcode, at position) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		m := x.target(at, faultSize)
		m.AnyPSN = at == ack // whatever a duplicate is answered with
		lost := x.rule(&wire.Rule{Match: m, Kind: wire.Drop, Times: -1})
		if err := x.recv(2, faultSize); err != nil {
			return "", err
		}
		start := time.Now()
		if err := x.post(op, 1, faultSize); err != nil {
			return "", err
		}
		wc, err := x.fails(1, peer.RetryExcErr)
		if err != nil {
			return "", err
		}
		took := time.Since(start)
		if lost.Hits() == 0 {
			return "", errors.New("nothing was lost")
		}
		// Where responses are lost the requests are counted: a responder in a guest that
		// stalls may answer late, or two at once.
		sent := lost.Hits()
		if at == ack || op == peer.OpRead {
			sent = x.transmissions(op)
		}
		if sent < shortRetry+1 {
			return "", fmt.Errorf("the request was sent %d times, want 1 and %d retries", sent, shortRetry)
		}
		return fmt.Sprintf("%v after %d transmissions, %d ms", wc.Status, sent, took.Milliseconds()), nil
	}
}

// notExceeded loses it as often as there are retries.
func notExceeded(op peer.Opcode, at position, times int) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		lost := x.rule(&wire.Rule{Match: x.target(at, faultSize), Kind: wire.Drop, Times: times})
		if err := x.transfer(op, faultSize); err != nil {
			return "", err
		}
		if lost.Hits() != times {
			return "", fmt.Errorf("the packet was lost %d times, want %d", lost.Hits(), times)
		}
		return fmt.Sprintf("lost %d times", times), x.transfer(op, faultSize)
	}
}

// requests returns the PSNs of the request packets in the order sent.
func (x *trial) requests() []*wire.Packet {
	var out []*wire.Packet
	for _, e := range x.tr.Events() {
		if e.Pkt.Dst == x.rsp.p.Addr(x.family) && e.Fate != "release" {
			out = append(out, e.Pkt)
		}
	}
	return out
}

// transmissions counts how often a message was sent: READ requests, or last packets.
func (x *trial) transmissions(op peer.Opcode) int {
	last := (uint32(firstPSN) + uint32(x.packets(faultSize)) - 1) & psnMask
	n := 0
	for _, p := range x.requests() {
		if op == peer.OpRead && p.Opcode == wire.OpReadRequest || op != peer.OpRead && p.PSN == last {
			n++
		}
	}
	return n
}

// partialWrite loses a packet in the middle: what lies before it must not be sent again.
func partialWrite(x *trial) (string, error) {
	target := x.target(reqMiddle, faultSize)
	lost := x.rule(&wire.Rule{Match: target, Kind: wire.Drop})
	if err := x.transfer(peer.OpWrite, faultSize); err != nil {
		return "", err
	}
	if lost.Hits() != 1 {
		return "", errors.New("nothing was lost")
	}
	count := map[uint32]int{}
	for _, p := range x.requests() {
		count[p.PSN]++
	}
	for psn, n := range count {
		if d := psnDiff(psn, target.PSN); d < 0 && n > 1 {
			return "", fmt.Errorf("PSN %#x, before the lost %#x, was sent %d times", psn, target.PSN, n)
		} else if d == 0 && n != 2 {
			return "", fmt.Errorf("the lost PSN %#x was sent %d times, want 2", psn, n)
		}
	}
	return "resent from the lost packet on", nil
}

// partialRead loses a response: the request is issued again for the missing range.
func partialRead(x *trial) (string, error) {
	target := x.target(rspMiddle, faultSize)
	lost := x.rule(&wire.Rule{Match: target, Kind: wire.Drop})
	if err := x.transfer(peer.OpRead, faultSize); err != nil {
		return "", err
	}
	if lost.Hits() != 1 {
		return "", errors.New("nothing was lost")
	}
	req := x.requests()
	if len(req) < 2 {
		return "", fmt.Errorf("%d READ requests, want 2 or more", len(req))
	}
	second := req[1]
	if second.Opcode != wire.OpReadRequest || second.PSN != target.PSN {
		return "", fmt.Errorf("the second request is %v, want a READ request with PSN %#x", second, target.PSN)
	}
	b := second.Body()
	n := int(b[12])<<24 | int(b[13])<<16 | int(b[14])<<8 | int(b[15])
	done := psnDiff(target.PSN, req[0].PSN) * faultMTU
	if n != faultSize-done {
		return "", fmt.Errorf("the second request is for %d bytes, want the missing %d", n, faultSize-done)
	}
	return fmt.Sprintf("asked again for the last %d bytes", n), nil
}

// ghostAck acknowledges what was never sent.
func ghostAck(x *trial) (string, error) {
	if err := x.transfer(peer.OpWrite, 64); err != nil {
		return "", err
	}
	port := x.env.Wire.Port(x.req.p.PortName())
	for _, e := range x.tr.Events() {
		if e.Pkt.Opcode != wire.OpAcknowledge {
			continue
		}
		for _, ahead := range []uint32{1, 2, 1000} {
			p, ok := wire.Decode(slices.Clone(e.Pkt.Frame))
			if !ok {
				continue
			}
			psn := (e.Pkt.PSN + ahead) & psnMask
			b := p.BTH()
			b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
			p.Seal()
			port.Inject(p.Frame)
		}
		if err := x.transfer(peer.OpWrite, faultSize); err != nil {
			return "", fmt.Errorf("after ACKs for PSNs not sent: %w", err)
		}
		if wc, err := x.rq.PollSend(1, 0); err != nil || len(wc) > 0 {
			return "", fmt.Errorf("one completion too many: %v %v", wc, err)
		}
		return "ignored", nil
	}
	return "", errors.New("no ACK was seen")
}

// badResponse answers a WRITE with a READ response.
func badResponse(x *trial) (string, error) {
	hit := x.rule(&wire.Rule{Match: x.target(ack, 64), Kind: wire.Rewrite, Edit: func(p *wire.Packet) { p.BTH()[0] = wire.OpReadOnly }})
	if err := x.post(peer.OpWrite, 1, 64); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.BadRespErr, peer.FatalErr)
	if err == nil && hit.Hits() != 1 {
		err = errors.New("no response was changed")
	}
	return wc.Status.String(), err
}

// unexpectedOpcode puts a WRITE MIDDLE into a SEND.
func unexpectedOpcode(x *trial) (string, error) {
	hit := x.rule(&wire.Rule{Match: x.target(reqMiddle, faultSize), Kind: wire.Rewrite, Edit: func(p *wire.Packet) { p.BTH()[0] = wire.OpWriteMiddle }})
	if err := x.recv(2, faultSize); err != nil {
		return "", err
	}
	if err := x.post(peer.OpSend, 1, faultSize); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemInvReqErr)
	if err == nil && hit.Hits() != 1 {
		err = errors.New("no request was changed")
	}
	return wc.Status.String(), err
}

// remoteOperation posts a receive request whose key is wrong.
func remoteOperation(x *trial) (string, error) {
	bad := peer.SGE{Raw: true, Addr: x.rsp.arena.Addr(), LKey: x.rsp.arena.LKey() ^ 0x5a, Len: faultSize}
	if err := x.sq.PostRecv(peer.RecvWR{ID: 2, SGL: []peer.SGE{bad}}); err != nil {
		return "", err
	}
	if err := x.post(peer.OpSend, 1, 64); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemOpErr)
	if err != nil {
		return "", err
	}
	got, err := x.sq.PollRecv(1, opWait)
	if err == nil && (len(got) != 1 || got[0].ID != 2 || !slices.Contains([]peer.Status{peer.LocProtErr, peer.LocQPOpErr}, got[0].Status)) {
		err = fmt.Errorf("responder: %v, want LOC_PROT_ERR (rxe: LOC_QP_OP_ERR)", got)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%v, responder %v", wc.Status, got[0].Status), nil
}

// tooShort sends more than the receive request has room for.
func tooShort(x *trial) (string, error) {
	want, wantRecv := peer.RemInvReqErr, peer.LocLenErr
	if isRXE(x.rsp.p) {
		want, wantRecv = peer.RemOpErr, peer.LocQPOpErr
	}
	seed := x.nextSeed()
	if err := x.rsp.arena.Fill(0, 2*guard+faultSize, seed, 0); err != nil {
		return "", err
	}
	if err := x.recv(2, 100); err != nil {
		return "", err
	}
	if err := x.post(peer.OpSend, 1, faultSize); err != nil {
		return "", err
	}
	wc, err := x.fails(1, want)
	if err != nil {
		return "", err
	}
	got, err := x.sq.PollRecv(1, opWait)
	if err == nil && (len(got) != 1 || got[0].ID != 2 || got[0].Status != wantRecv) {
		err = fmt.Errorf("responder: %v, want %v", got, wantRecv)
	}
	if err != nil {
		return "", err
	}
	if bad, err := x.rsp.arena.Check(dataOff+100, faultSize-100, seed, dataOff+100); err != nil || bad >= 0 {
		return "", fmt.Errorf("byte %d behind the receive buffer was written (%v)", bad, err)
	}
	return fmt.Sprintf("%v, responder %v", wc.Status, got[0].Status), nil
}

// wrongQKey sends a datagram with a wrong Q_Key and then a right one.
func (e *Env) wrongQKey(p *pair, f peer.Family) error {
	c, err := p.connect(defaults(peer.UD, f, faultMTU))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.sq.PostRecv(peer.RecvWR{ID: 1, SGL: []peer.SGE{{MR: c.rsp.arena, Off: dataOff, Len: udGRH + 64}}}); err != nil {
		return err
	}
	for i, key := range []uint32{qkey ^ 1, qkey} {
		err := c.rq.PostSend(peer.SendWR{ID: uint64(i), Op: peer.OpSendImm, Flags: peer.FlagSignaled, SGL: sgl(c.req.arena, 0, 1), Imm: uint32(i),
			Family: f, Remote: c.rsp.p.Addr(f), RemoteQPN: c.sq.QPN(), RemoteQKey: key})
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
