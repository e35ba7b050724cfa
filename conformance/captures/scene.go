package captures

import (
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/transport"
)

// Scene is a fault and what is done around it.
type Scene struct {
	Name string
	// Fault says what is injected, in the words of the table.
	Fault string
	// Want is the kinds that have to be found at each end; one end's view of some faults is that
	// of a clean connection.
	Want [2][]string
	// Lacks says why the scene cannot be made between two peers; nil or "" is that it can.
	Lacks func(rxe [2]bool) string
	// tune changes the tuning of goroce's devices.
	tune func(*transport.Tuning)

	link func(*link)
	play func(*take)
	call *call // through RDMA-CM; then play is nil
}

// tuning is that of goroce's devices: long messages are FIRST, MIDDLE and LAST, as those of rxe,
// and probes for losses wait until a guest has had time to answer.
func (sc *Scene) tuning() transport.Tuning {
	t := transport.Tuning{WholeMessages: true, LossProbe: 100 * time.Millisecond}
	if sc.tune != nil {
		sc.tune(&t)
	}
	return t
}

func both(kinds ...string) [2][]string { return [2][]string{kinds, kinds} }

func ends(requester, responder string) [2][]string {
	var w [2][]string
	for i, s := range []string{requester, responder} {
		if s != "" {
			w[i] = []string{s}
		}
	}
	return w
}

// onRequest injects a fault into packet n of an operation; onAnswer into its answer.
func onRequest(k ether.Kind, n uint32, ops func(*take) []peer.SendWR) func(*take) {
	return warm(func(t *take) { hitOne(t, &ether.Rule{Match: t.request(n), Kind: k, Offset: -5}, ops) })
}

func onAnswer(k ether.Kind, n uint32, ops func(*take) []peer.SendWR) func(*take) {
	return warm(func(t *take) { hitOne(t, &ether.Rule{Match: t.answer(n), Kind: k, Offset: -5}, ops) })
}

// hitOne carries out operations with a fault, and one more without.
func hitOne(t *take, r *ether.Rule, ops func(*take) []peer.SendWR) {
	rule := t.rule(r)
	t.do(ops(t)...)
	t.hit(rule, 1)
	t.after(short)
}

func writes(size int) func(*take) []peer.SendWR {
	return func(t *take) []peer.SendWR { return []peer.SendWR{t.write(size)} }
}

func reads(size int) func(*take) []peer.SendWR {
	return func(t *take) []peer.SendWR { return []peer.SendWR{t.read(size)} }
}

func atomics(t *take) []peer.SendWR { return []peer.SendWR{t.atomic()} }

// timer lets timers run out soon.
func timer(l *link) { l.timeout = tense }

// soon lets retries run out soon.
func soon(l *link) { l.timeout, l.retry = tense, shortRun }
