package captures

import (
	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/transport"
)

// mistakeScenes are what applications and networks get wrong for good. The packet that is written
// down is the one that must not be answered well.
func mistakeScenes() []Scene {
	return []Scene{
		{Name: "no receive", Fault: "a SEND comes before the receive is posted", Want: both("rnr"),
			play: warm(playRNR)},
		{Name: "no receive ever", Fault: "a SEND, and no receive is ever posted",
			Want: both("rnr", "rnr-retry-exceeded"), link: func(l *link) { l.rnrRetry = shortRun },
			play: warm(playRNRExceeded)},
		{Name: "wrong key", Fault: "a WRITE with another generation of the key", Want: both("remote-access"),
			play: mistake(peer.RemAccessErr, func(t *take) peer.SendWR {
				w := t.write(short)
				w.RKey ^= 0x5a
				return w
			})},
		{Name: "beyond the end", Fault: "a READ beyond the end of the region", Want: both("remote-access"),
			play: mistake(peer.RemAccessErr, func(t *take) peer.SendWR {
				w := t.read(short)
				w.RemoteAddr = t.ends[1].mr.Addr() + arenaBytes - short + 1
				return w
			})},
		{Name: "misaligned atomic", Fault: "the address of a FETCH_ADD is made odd on the way",
			Want: both("invalid-request"), play: warm(playMisaligned)},
		{Name: "receive key wrong", Fault: "the receive that a SEND meets has a wrong key",
			Want: both("remote-operational"), play: warm(playRemoteOp)},
		{Name: "nothing arrives", Fault: "a WRITE ONLY is dropped for ever", Want: ends("retry-exceeded", ""),
			link: soon,
			play: dropped(func(t *take) (ether.Match, peer.SendWR) { return t.request(0), t.write(short) })},
		{Name: "no ACK arrives", Fault: "the ACK of a WRITE ONLY is dropped for ever",
			Want: [2][]string{{"retry-exceeded"}, {"lost-ack", "retry-exceeded"}}, link: soon,
			play: dropped(func(t *take) (ether.Match, peer.SendWR) { return t.answer(0), t.write(short) })},
		{Name: "peer gone", Fault: "from some time on nothing of the responder comes through; two queue pairs ask",
			Want: [2][]string{{"retry-exceeded", "retry-exceeded", "peer-gone"}, {"lost-ack", "lost-ack",
				"retry-exceeded", "retry-exceeded"}}, link: soon, play: playPeerGone},
		{Name: "path MTUs differ", Fault: "the requester has a path MTU of 1024, the responder one of 512",
			Want: both("mtu-mismatch"), link: func(l *link) { l.mtu = [2]int{1024, 512} }, tune: split,
			play: mistake(peer.RemInvReqErr, func(t *take) peer.SendWR { return t.write(long) })},
		{Name: "path MTU blackhole", Fault: "packets of more than 600 bytes are dropped for ever", Want: [2][]string{
			{"pmtu-blackhole", "retry-exceeded"}, nil,
		}, link: func(l *link) { soon(l); l.mtu = [2]int{1024, 1024} }, tune: split,
			play: dropped(func(t *take) (ether.Match, peer.SendWR) {
				m := t.request(0)
				m.AnyPSN, m.Func = true, func(p *ether.Packet) bool { return len(p.Frame) > 600 }
				return m, t.write(long)
			})},
		{Name: "no credits", Fault: "SENDs, of which but the first has a receive, with end-to-end credits",
			Want: both("credits-exhausted", "rnr"),
			tune: func(t *transport.Tuning) { t.EndToEndCredits = true }, play: playCredits,
			Lacks: func(rxe [2]bool) string {
				if rxe[1] {
					return "rxe grants no end-to-end credits"
				}
				return ""
			}},
	}
}

// split has goroce send a long message as it does by itself: each packet a message.
func split(t *transport.Tuning) { t.WholeMessages = false }

// mistake carries out a work request that the responder refuses.
func mistake(want peer.Status, w func(*take) peer.SendWR) func(*take) {
	return warm(func(t *take) {
		m := t.mark(t.request(0))
		t.fails(want, w(t))
		t.hit(m, 1)
	})
}

// dropped carries out a work request of which certain packets are dropped for ever.
func dropped(of func(*take) (ether.Match, peer.SendWR)) func(*take) {
	return warm(func(t *take) {
		m, w := of(t)
		r := t.rule(&ether.Rule{Match: m, Kind: ether.Drop, Times: -1})
		t.fails(peer.RetryExcErr, w)
		t.hit(r, shortRun+1)
		t.talkOn()
	})
}

// naks observes the negative acknowledgements of the responder.
func (t *take) naks(kind uint8) *ether.Rule {
	m := t.packet(1, 0)
	m.AnyPSN, m.Opcodes = true, []uint8{ether.OpAcknowledge}
	m.Func = func(p *ether.Packet) bool { s, ok := p.Syndrome(); return ok && s&0xe0 == kind }
	return &ether.Rule{Match: m, Kind: ether.Observe, Times: -1}
}

const rnrKind = 0x20

func playRNR(t *take) {
	t.mark(t.request(0))
	n := t.rule(t.naks(rnrKind))
	w := t.send(long)
	t.post(w)
	t.awaitHits(n, 2)
	t.recv(1, long)
	t.await(t.ends[0].qp, 1, peer.Success)
}

func playRNRExceeded(t *take) {
	t.mark(t.request(0))
	n := t.markAll(t.naks(rnrKind)) // the last one is when it gave up
	t.fails(peer.RNRRetryExcErr, t.send(short))
	t.hit(n, shortRun+1)
	t.talkOn()
}

func playMisaligned(t *take) {
	const vaLow = 7 // the last byte of the address
	r := t.rule(&ether.Rule{
		Match: t.request(0), Kind: ether.Rewrite, Edit: func(p *ether.Packet) { p.Body()[vaLow] |= 4 },
	})
	t.fails(peer.RemInvReqErr, t.atomic())
	t.hit(r, 1)
}

func playRemoteOp(t *take) {
	rsp := t.ends[1]
	bad := peer.SGE{Raw: true, Addr: rsp.mr.Addr(), LKey: rsp.mr.LKey() ^ 0x5a, Len: long}
	peer.Must(rsp.qp.PostRecv(peer.RecvWR{ID: 1, SGL: []peer.SGE{bad}}))
	m := t.mark(t.request(0))
	t.fails(peer.RemOpErr, t.send(short))
	t.hit(m, 1)
}

// playPeerGone loses all that the responder sends from some time on.
func playPeerGone(t *take) {
	other := peer.Got(t.pair(t.link, 3*psn0))
	t.warm()
	w := t.write(short)
	t.psn-- // that of the other pair counts by itself
	peer.Must(other[0].PostSend(w))
	t.await(other[0], 1, peer.Success)
	all := ether.Match{From: t.ports[1], Src: t.addrs[1], Dst: t.addrs[0], AnyPSN: true}
	r := t.rule(&ether.Rule{Match: all, Kind: ether.Drop, Times: -1})
	w = t.write(short)
	t.post(w)
	peer.Must(other[0].PostSend(w))
	t.await(t.ends[0].qp, 1, peer.RetryExcErr)
	t.await(other[0], 1, peer.RetryExcErr)
	t.hit(r, 2*(shortRun+1))
	t.shout()
}

func playCredits(t *take) {
	t.recv(1, short)
	t.mark(t.answer(0)) // its ACK says: no credits
	t.mark(t.request(1))
	n := t.rule(t.naks(rnrKind))
	w := []peer.SendWR{t.send(short), t.send(short), t.send(short)}
	t.post(w...)
	t.awaitHits(n, 1)
	t.recv(4, short)
	t.await(t.ends[0].qp, len(w), peer.Success)
}

// shout has the requester send a datagram, which nobody answers, after a time in which it would
// have sent again: the capture goes on.
func (t *take) shout() {
	qp := peer.Got(t.ends[0].s.QP(peer.QPConfig{Type: peer.UD, QKey: qkey}))
	peer.Must(qp.Connect(peer.Conn{Family: peer.V4, Remote: t.addrs[1], MTU: t.link.mtu[0], SQPSN: psn0}))
	pause(t.link)
	w := t.write(short)
	w.Op, w.Family, w.Remote, w.RemoteQPN, w.RemoteQKey = peer.OpSend, peer.V4, t.addrs[1], t.ends[1].qp.QPN(), qkey
	peer.Must(qp.PostSend(w))
	t.await(qp, 1, peer.Success)
}

// talkOn lets both hosts be heard after a failure, so that it is not the end of the capture: a
// WRITE of another pair of queue pairs, after a time in which the first would have sent again.
func (t *take) talkOn() {
	l := t.link
	l.retry, l.timeout = 7, calm
	qps := peer.Got(t.pair(l, 3*psn0))
	pause(t.link)
	t.calm[3*psn0] = true
	w := t.write(short)
	peer.Must(qps[0].PostSend(w))
	t.await(qps[0], 1, peer.Success)
}
