package transport_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// A watcher checks the micro-behaviours that Lumina (SIGCOMM 2023) looks for on any trace of
// packets: it sees what is sent and what arrives, and knows nothing of the engine.
//
//	L1 go-back-N receiver: a sequence NAK names the first missing PSN; it is not
//	   repeated sooner than the re-arm time until the gap is repaired, unless a packet
//	   behind it has come again, and more than 3 behind that since; an
//	   acknowledgement never acknowledges what did not arrive.
//	L2 go-back-N sender: the next PSN is the one after the previous, or the first
//	   that is not acknowledged, and goes back only if a NAK, a gap in responses
//	   or a timeout is the reason. A loss probe repeats the last PSN, or the first
//	   that is not acknowledged, and goes on where it was: two at most before
//	   something new is acknowledged, and none before its time.
//	L3 a READ is asked for again from the first missing byte, and for no more.
//	L4 the counters are those of the trace.
//	L10 MigReq is sent 1.
type watcher struct {
	cnpAt  map[connKey]int64 // last CNP to a QP
	t      testing.TB
	p      *pair
	rearm  int64
	sides  map[connKey]*watched
	counts [2]transport.Counters // of the trace
}

// watched is the send side of one QP and the receive side of its peer.
type watched struct {
	// Requester.
	next      ib.PSN // after the last one sent
	highest   ib.PSN // after the highest one sent
	una       ib.PSN // first that no response has covered
	reads     map[ib.PSN]readRange
	reason    bool // a NAK or a gap arrived since it last went back
	atUna     bool // it went to una from resume, once: that may have been a probe
	resume    ib.PSN
	probedUna ib.PSN
	lastAt    int64 // when it last sent
	probes    int   // since una moved
	// Responder.
	expected ib.PSN // first that did not arrive in order
	naked    ib.PSN
	nakAt    int64
	nakSent  bool
	far      ib.PSN          // the highest behind the gap since that NAK, or since packets have begun anew
	behind   map[ib.PSN]bool // those that have come
	anew     bool
	recvs    int  // receive requests that wait
	refused  bool // the one expected came when there was none: an RNR NAK is owed
}

type readRange struct {
	psns int
	va   uint64
	n    uint32
	from uint64 // furthest address asked for
}

// watch installs a watcher; call it before anything is sent.
func watch(t testing.TB, p *pair, rearm int64) *watcher {
	w := &watcher{t: t, p: p, rearm: rearm, sides: map[connKey]*watched{}, cnpAt: map[connKey]int64{}}
	p.watcher = w
	return w
}

// side returns the state of the QP that sends requests to qpn at end to.
func (w *watcher) side(to *end, qpn ib.QPN) *watched {
	k := connKey{to.i, qpn}
	if w.sides[k] == nil {
		c := w.p.conns[k]
		w.sides[k] = &watched{next: c.rqPSN, highest: c.rqPSN, una: c.rqPSN, expected: c.rqPSN,
			reads: map[ib.PSN]readRange{}}
	}
	return w.sides[k]
}

// requester returns the state for a response: its requester is the receiver.
func (w *watcher) requester(f *flight) *watched {
	c := w.p.conns[connKey{1 - f.from.i, f.pkt.DestQP}]
	return w.side(f.from, c.peer)
}

// span is how many PSNs a request takes.
func (w *watcher) span(k *ib.Packet) int {
	if k.Opcode == ib.RCReadRequest {
		return max(1, (int(k.RETH.Len)+w.mtu(k)-1)/w.mtu(k))
	}
	return 1
}

func (w *watcher) mtu(*ib.Packet) int { return w.p.pathMTU }

func (w *watcher) fail(f *flight, format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%v (QP %v, PSN %#x) at %d ns: %s\n%s", f, f.pkt.DestQP, f.pkt.PSN, w.p.now,
		fmt.Sprintf(format, args...), w.p.history(f, 60))
}

// sent sees every packet as it is sent.
func (w *watcher) sent(f *flight) {
	k := &f.pkt
	info := k.Opcode.Info()
	if k.Opcode == ib.CNP {
		w.sentCNP(f)
		return
	}
	if info.Transport != ib.RC {
		return
	}
	if !k.MigReq {
		w.fail(f, "L10: MigReq 0")
	}
	c := &w.counts[f.from.i]
	c.SentPkts++
	c.SentBytes += uint64(len(f.data))
	if info.Response {
		w.sentResponse(f)
		return
	}
	s := w.side(f.from.peer(), k.DestQP)
	span := w.span(k)
	switch {
	case k.PSN == s.next:
		s.atUna = s.atUna && k.PSN == s.una // the next probe looks the same
	case k.PSN == s.una: // L2: it went back
		if !s.atUna {
			s.atUna, s.resume, s.probedUna = true, s.next, s.una
		}
		s.reason = false
	case s.atUna && k.PSN == s.resume: // it did not
		s.atUna = false
		if s.una == s.probedUna { // otherwise that was before
			w.probed(f, s, 0)
		}
	case s.atUna && k.PSN.Add(span) == s.resume:
		s.atUna = false
		w.probed(f, s, f.sent-s.lastAt)
	case k.PSN.Add(span) == s.next:
		w.probed(f, s, f.sent-s.lastAt)
	default:
		w.fail(f, "L2: neither next (%#x) nor first unacknowledged (%#x)", s.next, s.una)
	}
	s.lastAt = f.sent
	if k.PSN.Before(s.highest) {
		c.RetransmittedPkts++
	}
	s.next = k.PSN.Add(span)
	if s.next.After(s.highest) {
		s.highest = s.next
	}
	switch info.Op {
	case ib.OpRead:
		w.sentRead(f, s, span)
	case ib.OpCompareSwap, ib.OpFetchAdd:
		// Not ATOMIC WRITE and FLUSH: they return nothing, so that any later
		// acknowledgement says that they were executed.
		s.reads[k.PSN] = readRange{psns: 1}
	}
}

// probed checks a loss probe that came so long after the last packet; 0 if that is not known.
func (w *watcher) probed(f *flight, s *watched, after int64) {
	least := int64(w.p.tuning[f.from.i].LossProbe)
	if least == 0 {
		least = transport.DefaultLossProbeNs
	}
	if s.probes++; least < 0 || s.probes > 2 || after != 0 && after < least {
		w.fail(f, "L2: loss probe %d after %d ns, the least is %d", s.probes, after, least)
	}
}

// sentCNP checks L5: no closer than the gap, for a QP.
func (w *watcher) sentCNP(f *flight) {
	c := &w.counts[f.from.i]
	c.SentPkts++
	c.SentBytes += uint64(len(f.data))
	c.CNPsSent++
	gap := int64(w.p.tuning[f.from.i].CNPGap)
	if gap == 0 {
		gap = transport.DefaultCNPGapNs
	}
	key := connKey{1 - f.from.i, f.pkt.DestQP}
	if last, ok := w.cnpAt[key]; gap < 0 || ok && f.sent-last < gap {
		w.fail(f, "L5: a CNP %d ns after the last one, the gap is %d", f.sent-last, gap)
	}
	w.cnpAt[key] = f.sent
}

// sentRead checks L3.
func (w *watcher) sentRead(f *flight, s *watched, span int) {
	k := &f.pkt
	for first, r := range s.reads {
		if r.n == 0 || !k.PSN.InRange(first, r.psns) {
			continue
		}
		skipped := uint64(k.PSN.Diff(first)) * uint64(w.mtu(k))
		if k.RETH.VA != r.va+skipped || uint64(k.RETH.Len) != uint64(r.n)-skipped {
			w.fail(f, "L3: the READ was of %d bytes at +%#x", r.n, r.va-f.from.peer().base)
		}
		if k.RETH.VA < r.from {
			w.fail(f, "L3: asks again for what it had got past")
		}
		r.from = k.RETH.VA
		s.reads[first] = r
		return
	}
	s.reads[k.PSN] = readRange{psns: span, va: k.RETH.VA, n: k.RETH.Len, from: k.RETH.VA}
}

// sentResponse checks L1.
func (w *watcher) sentResponse(f *flight) {
	k := &f.pkt
	s := w.requester(f)
	c := &w.counts[f.from.i]
	if !k.Opcode.Has(ib.HasAETH) {
		return
	}
	switch kind := k.AETH.Syndrome.Kind(); {
	case kind == ib.SyndromeRNR:
		c.SendRNRErr++
		// It may be late: READ responses before it may be paced.
		if !s.refused || k.PSN != s.expected {
			w.fail(f, "L1: refuses what needed no receive request; first missing is %#x", s.expected)
		}
		s.refused = false
	case k.AETH.Syndrome == ib.NAKSequence:
		c.SentSeqNAKs++
		if k.PSN != s.expected {
			w.fail(f, "L1: first missing is %#x", s.expected)
		}
		if s.nakSent && s.naked == k.PSN && w.p.now-s.nakAt < w.rearm && !s.anew {
			w.fail(f, "L1: a second NAK after %d ns", w.p.now-s.nakAt)
		}
		s.anew = false
		s.nakSent, s.naked, s.nakAt = true, k.PSN, w.p.now
	case kind == ib.SyndromeACK:
		if !k.PSN.Before(s.expected) {
			w.fail(f, "L1: acknowledges what did not arrive; first missing is %#x", s.expected)
		}
	}
}

// postedRecv sees every receive request of a QP. Without them the trace does not
// tell in time what the responder refused.
func (w *watcher) postedRecv(l *link) {
	if w != nil {
		w.side(l.end, l.qp.Number()).recvs++
	}
}

// arrived sees every packet just before the engine does.
func (w *watcher) arrived(f *flight) {
	k := &f.pkt
	info := k.Opcode.Info()
	c := &w.counts[1-f.from.i]
	if f.rx.TrafficClass&transport.ECNMask == transport.ECNCE {
		c.CEMarkedPkts++
	}
	if k.Opcode == ib.CNP {
		c.CNPsHandled++
	}
	if info.Transport != ib.RC {
		return
	}
	if !info.Response {
		s := w.side(f.from.peer(), k.DestQP)
		switch d := k.PSN.Diff(s.expected); {
		case d == 0:
			s.nakSent, s.behind, s.anew = false, nil, false
			needs := info.Op == ib.OpSend && info.Pos&ib.First != 0 ||
				info.Op == ib.OpWrite && info.Headers&ib.HasImmDt != 0
			if s.refused = needs && s.recvs == 0; s.refused {
				break
			}
			if needs {
				s.recvs--
			}
			s.expected = k.PSN.Add(w.span(k))
		case d < 0:
			w.counts[1-f.from.i].DuplicateRequest++
		case d > 0:
			w.counts[1-f.from.i].OutOfSeqRequest++
			switch {
			case s.behind == nil:
				s.behind, s.far = map[ib.PSN]bool{}, k.PSN
			case s.behind[k.PSN] && s.far.Diff(k.PSN) > 3:
				s.anew, s.far = true, k.PSN
			case s.far.Before(k.PSN):
				s.far = k.PSN
			}
			s.behind[k.PSN] = true
		}
		return
	}
	w.arrivedResponse(f)
}

// arrivedResponse advances the first unacknowledged PSN as a completer must.
func (w *watcher) arrivedResponse(f *flight) {
	k := &f.pkt
	s := w.requester(f)
	c := &w.counts[1-f.from.i]
	covered := k.PSN.Next() // first PSN that the packet does not cover
	if k.Opcode.Has(ib.HasAETH) {
		switch {
		case k.AETH.Syndrome.Kind() == ib.SyndromeRNR:
			c.RcvdRNRErr++
			covered, s.reason = k.PSN, true
		case k.AETH.Syndrome == ib.NAKSequence:
			c.RcvdSeqErr++
			covered, s.reason = k.PSN, true
		}
	}
	if covered.After(s.highest) || covered.Diff(s.una) <= 0 {
		return // about something else: a duplicate, or forged
	}
	if !k.Opcode.Has(ib.HasAETH) && k.PSN != s.una {
		s.reason = true // implied NAK: without an MSN it covers nothing else
		return
	}
	// It cannot cover READs and atomics that it is not itself the answer to.
	for s.una != covered {
		first, r, ok := s.pendingAt(s.una)
		if !ok {
			s.una, s.probes = s.una.Next(), 0
			continue
		}
		answers := info(k).Op != ib.OpAcknowledge && k.PSN == s.una
		if !answers {
			s.reason = true // implied NAK
			return
		}
		s.una, s.probes = s.una.Next(), 0
		if s.una == first.Add(r.psns) {
			delete(s.reads, first)
		}
	}
}

func info(k *ib.Packet) *ib.OpcodeInfo { return k.Opcode.Info() }

func (s *watched) pendingAt(psn ib.PSN) (ib.PSN, readRange, bool) {
	for first, r := range s.reads {
		if psn.InRange(first, r.psns) {
			return first, r, true
		}
	}
	return 0, readRange{}, false
}

// counters checks L4 for what the trace shows without knowing the engine. A
// NAK that is stale when it arrives need not be counted.
func (w *watcher) counters() {
	w.t.Helper()
	for i, e := range w.p.ends {
		got := e.eng.Counters()
		want := w.counts[i]
		require.Equal(w.t, want.SentPkts, got.SentPkts, "%s: sent_pkts", e.name)
		require.Equal(w.t, want.SentBytes, got.SentBytes, "%s: sent_bytes", e.name)
		require.Equal(w.t, want.RetransmittedPkts, got.RetransmittedPkts, "%s: retransmitted", e.name)
		require.Equal(w.t, want.SentSeqNAKs, got.SentSeqNAKs, "%s: sequence NAKs sent", e.name)
		require.Equal(w.t, want.SendRNRErr, got.SendRNRErr, "%s: send_rnr_err", e.name)
		stale := want.RcvdRNRErr + want.RcvdSeqErr - got.RcvdRNRErr - got.RcvdSeqErr
		require.LessOrEqual(w.t, stale, got.DropBadResponse, "%s: rcvd_rnr_err and rcvd_seq_err", e.name)
		require.Equal(w.t, want.DuplicateRequest, got.DuplicateRequest, "%s: duplicate_request", e.name)
		require.Equal(w.t, want.CEMarkedPkts, got.CEMarkedPkts, "%s: CE marks", e.name)
		require.Equal(w.t, want.CNPsSent, got.CNPsSent, "%s: CNPs sent", e.name)
		require.Equal(w.t, want.CNPsHandled, got.CNPsHandled, "%s: CNPs handled", e.name)
		require.Equal(w.t, want.OutOfSeqRequest, got.OutOfSeqRequest, "%s: out_of_seq_request", e.name)
	}
}

// Every packet of an exchange of all operations is lost once, one at a time;
// then every one doubled; then every one overtaken by the next. The data is
// right, and so are the behaviours and the counters.
func TestMicroBehavioursEveryPacket(t *testing.T) {
	faults := map[string]func(p *pair, f *flight){
		"lost":      func(p *pair, f *flight) { f.lost = true },
		"doubled":   func(p *pair, f *flight) { f.copies = 1 },
		"late":      func(p *pair, f *flight) { f.at += 5 * us },
		"very late": func(p *pair, f *flight) { f.at += 3 * ms },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			total := 0
			for victim := -1; victim < total || total == 0; victim++ {
				p := newPair(t, pairConfig{tuning: goBackN})
				w := watch(t, p, 2*ms)
				a, b := p.connect(linkConfig{})
				n := 0
				p.onSend = func(f *flight) {
					if n == victim {
						fault(p, f)
					}
					n++
				}
				playAll(t, p, a, b)
				w.counters()
				if victim < 0 {
					total = n
					require.Equal(t, transport.Counters{}.RetransmittedPkts, a.eng.Counters().RetransmittedPkts)
				}
			}
			require.Greater(t, total, 15)
		})
	}
}

// playAll plays each operation once: whatever happens to packets, it is done once, in order.
func playAll(t *testing.T, p *pair, a, b *link) {
	t.Helper()
	src := a.fill(0, 3000, 1)
	static := b.fill(0x8000, 3000, 2)
	for i := range 2 {
		b.recv(uint64(i), 0x20000+0x1000*i, 3000)
	}
	a.post(a.write(0, 0x4000, 3000))
	a.post(a.read(0x8000, 0x8000, 3000))
	a.post(a.send(0, 2000))
	a.post(a.fetchAdd(0x10000, 0x10000, 5))
	a.post(a.compareSwap(0x10008, 0x10000, 5, 9))
	a.post(with(a.write(0, 0x6000, 700), func(wr *transport.SendWR) { wr.Opcode = transport.WRWriteImm }))
	a.post(a.read(0xA000, 0x8000, 1500))
	a.post(with(a.write(0, 0x10008, 8), func(wr *transport.SendWR) { wr.Opcode = transport.WRAtomicWrite }))
	p.run()
	require.Len(t, a.poll(), 8)
	require.Len(t, b.poll(), 2)
	require.Equal(t, src, b.buf[0x4000:0x4000+3000])
	require.Equal(t, src[:700], b.buf[0x6000:0x6000+700])
	require.Equal(t, src[:2000], b.buf[0x20000:0x20000+2000])
	require.Equal(t, static, a.buf[0x8000:0x8000+3000])
	require.EqualValues(t, 9, binary.NativeEndian.Uint64(b.buf[0x10000:]), "the atomics were executed once")
}

// L8: the timeout is 4.096 us x 2^timeout, and grows to no more than four
// times that (IBTA 9.7.6.1.3 lets it be that late).
func TestMicroBehaviourTimeout(t *testing.T) {
	for code := ib.TimeoutCode(1); code < 20; code++ {
		d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{LossProbe: -1}}},
			linkConfig{attr: func(l *link, a *transport.QPAttr) { a.Timeout = code }})
		d.a.post(d.a.write(0, 0, 8))
		d.wait(100 * second)
		require.Len(t, d.log, 8)
		for i := 1; i < 8; i++ {
			gap := d.log[i].sent - d.log[i-1].sent
			require.GreaterOrEqual(t, gap, code.Ns())
			require.LessOrEqual(t, gap, 4*code.Ns())
		}
		require.EqualValues(t, 8, d.a.eng.Counters().Timeouts)
	}
}
