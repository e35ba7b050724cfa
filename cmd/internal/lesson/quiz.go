package lesson

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
)

// claim is what somebody may say of a capture. Whether it is so follows from the facts of the run,
// and so does how one sees it.
type claim struct {
	text string
	is   func(f *facts) bool
	yes  func(f *facts) string // how one sees that it is so
	no   func(f *facts) string // and that it is not
	kind []analyse.Kind        // under which the analyser has it
}

// Claims by number.
const (
	claimRequest = iota
	claimAck
	claimResponse
	claimRNR
	claimKey
	claimSwapped
	claimLong
	claimGone
	claimCongestion
	claimRefused
	numClaims
)

var claims = [numClaims]claim{
	claimRequest: {"One packet of A's was lost on its way; A sent it again, and what came behind it.",
		func(f *facts) bool { return f.lone(f.lostRequests) },
		func(f *facts) string { return where(f.lostRequests, "A", "B") + "." },
		func(f *facts) string {
			if len(f.lostRequests) > 0 {
				return fmt.Sprintf("Not one packet was lost, but %d, and the connection died of it.",
					len(f.lostRequests))
			}
			return fmt.Sprintf("All %d packets that A sent arrived.", f.requests)
		}, []analyse.Kind{analyse.LostRequest}},
	claimAck: {"An acknowledgement of B's was lost. B had carried out the request, and saw it twice.",
		func(f *facts) bool { return f.lone(f.lostAns) },
		func(f *facts) string { return where(f.lostAns, "B", "A") + ", so A asked again." },
		func(f *facts) string {
			return fmt.Sprintf("B sent %d answers, and no acknowledgement of them was lost.", f.answers)
		}, []analyse.Kind{analyse.LostAck}},
	claimResponse: {"A part of the answer to a READ was lost; A asked for the rest again.",
		func(f *facts) bool { return f.lone(f.lostReads) },
		func(f *facts) string { return where(f.lostReads, "B", "A") + ": the gap is the sign." },
		func(f *facts) string { return "No response to a READ was lost." }, []analyse.Kind{analyse.LostReadResponse}},
	claimRNR: {"B had no receive posted for a message, and let A wait.",
		func(f *facts) bool { return f.rnr > 0 },
		func(f *facts) string {
			return fmt.Sprintf("B sent %d RNR NAKs: a SEND met an empty receive queue.", f.rnr)
		},
		func(f *facts) string { return "B sent no RNR NAK, which it does when it has no receive for a message." },
		[]analyse.Kind{analyse.RNR}},
	claimKey: {"A used a key, or a range, that B's memory does not have.",
		func(f *facts) bool { return f.failed == verbs.WCRemoteAccessErr },
		func(f *facts) string {
			return fmt.Sprintf("B refused, with a NAK for it, and A's program has %q.", f.failed)
		},
		func(f *facts) string { return "B refused nothing: there is no NAK for a remote access error." },
		[]analyse.Kind{analyse.RemoteAccess}},
	claimSwapped: {"The network changed the order of two packets. Nothing was lost.",
		func(f *facts) bool { return f.swapped != nil && len(f.lostRequests) == 0 },
		func(f *facts) string {
			return fmt.Sprintf(
				"PSN %d reached B as packet %d there, behind PSN %d, packet %d, which A had sent after it.",
				f.swapped.PSN, f.swapped.Arrived, f.by.PSN, f.by.Arrived)
		},
		func(f *facts) string { return "No packet overtook another: what is missing did not come later." },
		[]analyse.Kind{analyse.Reordered}},
	claimLong: {"The network does not carry packets as long as A's path MTU; short ones pass.",
		func(f *facts) bool { return f.long },
		func(f *facts) string {
			return fmt.Sprintf("%d packets were lost, each of them longer than every one that arrived.",
				len(f.lostRequests))
		},
		func(f *facts) string {
			if len(f.lostRequests) > 0 {
				return "Packets that were lost are no longer than others that arrived."
			}
			return "No packet of A's was lost: long ones pass."
		}, []analyse.Kind{analyse.PMTUBlackhole}},
	claimGone: {"B does not answer any more, or the network to it is cut.",
		func(f *facts) bool { return f.silent },
		func(f *facts) string {
			return fmt.Sprintf("The last %d packets of A's had no answer, short ones too, and A gave up: %v.",
				len(f.lostRequests), f.failed)
		},
		func(f *facts) string { return "B answers until the end." },
		[]analyse.Kind{analyse.RetryExceeded, analyse.PeerGone}},
	claimCongestion: {"A queue in the network became long, and A was told to slow down.",
		func(f *facts) bool { return f.cnps > 0 },
		func(f *facts) string {
			return fmt.Sprintf("B sent congestion notifications, and A heeded %d CNPs.", f.cnps)
		},
		func(f *facts) string { return "There is no CNP." }, []analyse.Kind{analyse.RateCut, analyse.CEMarked}},
	claimRefused: {"A asked for a service that nobody offers at B.",
		func(f *facts) bool { return f.refused },
		func(f *facts) string { return "B answered the REQ with a REJ." },
		func(f *facts) string { return "There is no REJ." }, []analyse.Kind{analyse.CMRejected}},
}

// scenes are what can have happened in a capture of the quiz, by the number of the claim that is
// right, and from which host one can tell.
var scenes = [numClaims]struct {
	view stage.View
	play func(r *run, d *draw) error
}{
	claimRequest: {stage.At1, func(r *run, d *draw) error {
		r.lose(0, d.psn.Add(d.which))
		return r.do(r.s.Write(0, d.packets*1024))
	}},
	claimAck: {stage.At1, func(r *run, d *draw) error {
		r.lose(1, d.psn.Add(d.packets-1))
		return r.do(r.s.Write(0, d.packets*1024))
	}},
	claimResponse: {stage.At0, func(r *run, d *draw) error {
		r.lose(1, d.psn.Add(d.which))
		return r.do(r.s.Read(0, d.packets*1024))
	}},
	claimRNR: {stage.At0, func(r *run, d *draw) error {
		r.s.Net.At(r.s.Net.Now()+int64(d.packets)*100_000, func() { _ = r.s.Recv(1, d.packets, 8192) })
		return r.do(r.s.Send(0, 64*d.packets))
	}},
	claimKey: {stage.At0, func(r *run, d *draw) error {
		w := r.s.Write(0, 64)
		w.RKey ^= ib.RKey(1) << d.packets
		return r.do(r.s.Write(0, 64), w, r.s.Read(0, 64))
	}},
	claimSwapped: {stage.At1, func(r *run, d *draw) error {
		r.delay(d.psn.Add(d.which))
		return r.do(r.s.Write(0, d.packets*1024))
	}},
	claimLong: {stage.At0, func(r *run, d *draw) error {
		for i := range d.packets {
			r.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: d.psn.Add(i), HasPSN: true})
		}
		return r.do(r.s.Write(0, d.packets*1024+64))
	}},
	claimGone: {stage.At0, func(r *run, d *draw) error {
		if err := r.do(r.s.Write(0, d.packets*1024)); err != nil {
			return err
		}
		r.s.Net.Partition(r.s.Hosts[0].Addr, r.s.Hosts[1].Addr, true)
		return r.do(r.s.Write(0, 64))
	}},
	claimCongestion: {stage.At1, func(r *run, d *draw) error { return r.do(r.s.Write(0, (128+16*d.packets)<<10)) }},
	claimRefused:    {stage.At0, func(r *run, _ *draw) error { return r.dial() }},
}

// draw is what a seed decides about a capture.
type draw struct {
	scene   int
	psn     ib.PSN // of the first packet after warm
	packets int    // of the message
	which   int    // of them something happens to: neither the first nor the last two
	choices []int  // claims, in the order in which they are offered
}

// drawn returns the nth capture of a seed: each seed has all scenes, in another order and with
// other numbers.
func drawn(seed, n int) *draw {
	scenes := rand.New(rand.NewPCG(uint64(seed), 0)).Perm(numClaims)
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)+1))
	d := &draw{scene: scenes[n], psn: ib.PSN(rng.Uint32()) & ib.PSNMask, packets: 5 + rng.IntN(5)}
	d.which = 1 + rng.IntN(d.packets-3)
	for _, c := range rng.Perm(numClaims) {
		if c != d.scene && len(d.choices) < 3 {
			d.choices = append(d.choices, c)
		}
	}
	at := rng.IntN(4)
	d.choices = append(d.choices[:at], append([]int{d.scene}, d.choices[at:]...)...)
	return d
}

// quiz are ten captures in which something happened.
func quiz() (all []lesson) {
	for n := range int(numClaims) {
		of := func(v values) *draw { return drawn(v["seed"], n) }
		all = append(all, lesson{
			name: fmt.Sprintf("quiz%d", n+1), title: fmt.Sprintf("Capture %d: what happened?", n+1), hidden: true,
			text: "The run is not told. Look at the packets, and at what A's program saw of it, and say which of the four it was. With another seed it is another capture: seed=2.",
			params: []param{
				{name: "answer", min: 0, max: 4, help: "which of the four it was; 0: you do not know yet"},
				{name: "seed", def: 1, min: 1, max: 1_000_000, help: "of the captures"},
			},
			cfg: func(v values) stage.Config {
				d := of(v)
				if d.scene == claimCongestion {
					return bottleneck(20, true)
				}
				c := stage.Config{Bare: d.scene == claimRefused, PSN: [2]ib.PSN{d.psn.Add(-3)}}
				c.Attr = func(_ int, a *verbs.ConnAttr) { a.RetryCnt = 2 }
				return c
			},
			turns: func(v values) bool { return of(v).scene == claimRefused },
			view:  func(v values) stage.View { return scenes[of(v).scene].view },
			play: func(r *run) error {
				d := of(r.v)
				if d.scene != claimRefused {
					if err := r.warm(); err != nil {
						return err
					}
				}
				err := scenes[d.scene].play(r, d)
				if d.scene != claimRefused {
					r.s.Net.RunFor(time.Second) // what is on its way arrives
				}
				return err
			},
			choices: func(v values) (texts []string) {
				for _, c := range of(v).choices {
					texts = append(texts, claims[c].text)
				}
				return texts
			},
			goal: func(r *run) (string, error) { return judge(r, of(r.v).choices, r.v["answer"]) },
		})
	}
	return all
}

// judge says of an answer whether it is right, from the facts of the run.
func judge(r *run, choices []int, answer int) (string, error) {
	if answer == 0 {
		return "", noAnswer(fmt.Sprintf("Your answer, if it is the first: roce lesson %s answer=1", r.l.name))
	}
	f, err := r.facts()
	if err != nil {
		return "", err
	}
	c := &claims[choices[answer-1]]
	if !c.is(f) {
		return "", errors.New(c.no(f))
	}
	return c.yes(f), nil
}

// offered are the answers of a quiz.
func (l *lesson) offered(v values) string {
	if l.choices == nil {
		return ""
	}
	var b strings.Builder
	for i, c := range l.choices(v) {
		fmt.Fprintf(&b, "  answer=%d  %s\n", i+1, c)
	}
	return b.String()
}
