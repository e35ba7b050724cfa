package captures

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// Scenes are all that are recorded.
func Scenes() []Scene {
	return append(append(append(lossScenes(), oddScenes()...), mistakeScenes()...), callScenes()...)
}

// lossScenes lose packets.
func lossScenes() []Scene {
	return []Scene{
		{Name: "clean", Fault: "none: every operation", Want: ends("", ""), play: playClean},
		{Name: "lost request", Fault: "a WRITE MIDDLE is dropped", Want: both("lost-request"),
			play: onRequest(ether.Drop, 3, writes(long))},
		{Name: "lost request twice", Fault: "a WRITE MIDDLE is dropped, and again when it is sent again",
			Want: both("lost-request", "lost-request"), play: warm(playLostTwice)},
		{Name: "lost last request", Fault: "the WRITE LAST is dropped: no later packet tells",
			Want: both("lost-request"), link: timer, play: onRequest(ether.Drop, packets-1, writes(long))},
		{Name: "lost lone request", Fault: "a WRITE ONLY is dropped", Want: ends("lost-request", ""),
			link: timer, play: onRequest(ether.Drop, 0, writes(short))},
		{Name: "lost READ request", Fault: "a READ REQUEST is dropped, a WRITE follows",
			Want: both("lost-read-request"), link: timer, play: onRequest(ether.Drop, 0, func(t *take) []peer.SendWR {
				return []peer.SendWR{t.read(long), t.write(short)}
			})},
		{Name: "lost READ response", Fault: "a READ RESPONSE MIDDLE is dropped",
			Want: both("lost-read-response"), link: timer, play: onAnswer(ether.Drop, 3, reads(long))},
		{Name: "lost last READ response", Fault: "the READ RESPONSE LAST is dropped",
			Want: both("lost-read-response"), link: timer, play: onAnswer(ether.Drop, packets-1, reads(long))},
		{Name: "lost ACK", Fault: "the ACK of a WRITE is dropped", Want: both("lost-ack"), link: timer,
			play: onAnswer(ether.Drop, packets-1, writes(long))},
		{Name: "lost atomic ACK", Fault: "the answer to a FETCH_ADD is dropped",
			Want: both("lost-atomic-ack"), link: timer, play: onAnswer(ether.Drop, 0, atomics)},
		{Name: "lost in the host", Fault: "a WRITE MIDDLE reaches the responder's host and is lost there",
			Want: ends("lost-request", "slow-receiver"), play: onRequest(ether.Swallow, 3, writes(long))},
		{Name: "lost on UC", Fault: "a WRITE MIDDLE of UC is dropped", Want: ends("", "uc-lost"),
			link: func(l *link) { l.typ = peer.UC }, play: playUC},
		{Name: "lost on UD", Fault: "a datagram is dropped", Want: ends("", "ud-lost"),
			link: func(l *link) { l.typ = peer.UD }, play: playUD},
	}
}

// oddScenes do to packets what is no loss.
func oddScenes() []Scene {
	return []Scene{
		{Name: "doubled request", Fault: "a WRITE MIDDLE comes twice", Want: ends("", "duplicate-request"),
			play: onRequest(ether.Duplicate, 3, writes(long))},
		{Name: "doubled READ request", Fault: "a READ REQUEST comes twice",
			Want: ends("duplicate-request", "duplicate-request"), play: onRequest(ether.Duplicate, 0, reads(long))},
		{Name: "doubled ACK", Fault: "an ACK comes twice", Want: ends("duplicate-ack", ""),
			play: onAnswer(ether.Duplicate, packets-1, writes(long))},
		{Name: "doubled READ response", Fault: "a READ RESPONSE MIDDLE comes twice",
			Want: ends("duplicate-ack", ""), play: onAnswer(ether.Duplicate, 3, reads(long))},
		{Name: "overtaken request", Fault: "a WRITE MIDDLE is overtaken by the next", Want: both("reordered"),
			play: onRequest(ether.Hold, 3, writes(long))},
		{Name: "overtaken READ response", Fault: "a READ RESPONSE MIDDLE is overtaken by the next",
			Want: ends("reordered", "lost-read-response"), link: timer, play: onAnswer(ether.Hold, 3, reads(long))},
		{Name: "damaged request", Fault: "a bit of a WRITE MIDDLE is flipped",
			Want: ends("lost-request", "corrupt"), play: onRequest(ether.Corrupt, 3, writes(long))},
		{Name: "damaged READ response", Fault: "a bit of a READ RESPONSE MIDDLE is flipped",
			Want: ends("corrupt", "lost-read-response"), link: timer, play: onAnswer(ether.Corrupt, 3, reads(long))},
		{Name: "rewritten", Fault: "a bit of every packet of the requester is flipped, as NAT does to addresses",
			Want: ends("retry-exceeded", "icrc-rewritten"), link: soon, play: playRewritten},
		{Name: "marked", Fault: "a switch marks a WRITE MIDDLE", Want: ends("", "ce-marked"),
			play: onRequest(ether.MarkCE, 3, writes(long)),
			Lacks: func(rxe [2]bool) string {
				if !rxe[1] {
					return "goroce answers with CNPs: the next scene"
				}
				return ""
			}},
		{Name: "marked with CNPs", Fault: "a switch marks a WRITE MIDDLE, DCQCN is on",
			Want: [2][]string{{"rate-cut"}, {"ce-marked", "rate-cut"}},
			tune: func(t *transport.Tuning) { t.Congestion.Algorithm = cc.DCQCNPaper }, play: warm(playCNP),
			Lacks: func(rxe [2]bool) string {
				if rxe[1] {
					return "rxe sends no CNPs, so that nobody cuts a rate"
				}
				return ""
			}},
		{Name: "late ACK", Fault: "an ACK is held for longer than the requester waits",
			Want: ends("late-ack", "lost-ack"), link: timer, play: warm(playLateACK)},
	}
}

func playClean(t *take) {
	t.recv(4, long)
	for _, n := range []int{short, mtu, long} {
		t.do(t.write(n), t.read(n), t.send(n), t.atomic())
	}
}

func playLostTwice(t *take) {
	r := t.rule(&ether.Rule{Match: t.request(3), Kind: ether.Drop, Times: 2})
	t.do(t.write(long))
	t.hit(r, 2)
}

// playUC loses a packet in the middle of three messages. rxe loses the next message too.
func playUC(t *take) {
	t.do(t.write(long))
	r := t.rule(&ether.Rule{Match: t.request(3), Kind: ether.Drop})
	t.do(t.write(long))
	last := t.rule(&ether.Rule{Match: t.request(packets - 1), Kind: ether.Observe})
	t.do(t.write(long))
	t.awaitHits(last, 1)
	t.wire.Remove(last)
	t.hit(r, 1)
}

func playUD(t *take) {
	t.recv(8, short+udGRH)
	r := t.rule(&ether.Rule{Match: t.request(5), Kind: ether.Drop})
	for range 8 {
		t.do(t.send(short))
	}
	peer.Got(t.ends[1].qp.PollRecv(7, opWait))
	t.hit(r, 1)
}

func playRewritten(t *take) {
	m := t.request(0)
	m.AnyPSN = true
	r := t.rule(&ether.Rule{Match: m, Kind: ether.Corrupt, Offset: -5, Times: -1})
	t.fails(peer.RetryExcErr, t.write(short))
	t.hit(r, shortRun+1)
}

func playCNP(t *take) {
	cnp := t.packet(1, 0)
	cnp.AnyPSN, cnp.Opcodes = true, []uint8{ether.OpCNP}
	seen := t.mark(cnp)
	r := t.rule(&ether.Rule{Match: t.request(3), Kind: ether.MarkCE})
	t.do(t.write(long))
	t.hit(r, 1)
	t.awaitHits(seen, 1)
}

// playLateACK holds two ACKs for longer than the requester waits: so long takes the way back.
func playLateACK(t *take) {
	const wait = 4096 * time.Nanosecond << tense
	r := t.rule(&ether.Rule{Match: t.answer(0), Kind: ether.Hold, Behind: 1 << 20, MaxHold: wait * 3 / 2, Times: 2})
	t.do(t.write(short))
	if err := waitHits(r, 2); err != nil {
		peer.Must(fmt.Errorf("the request was not sent again: %w", err))
	}
	time.Sleep(wait * 3 / 2) // for which the wire holds the second answer
	t.after(short)
}
