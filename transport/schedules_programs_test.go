package transport_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// program is what each end posts, and what may go wrong meanwhile.
type program struct {
	name  string
	lives [][2][]operation // of the queue pairs, one after the other, under the same numbers
	// Receives that are posted at any time; -1: those that are needed are there from the start.
	recvs    [2]int
	script   []action // what happens first, of which the budget is as of all else
	budget   budget
	retry    uint8
	rnrRetry uint8
	rdAtomic uint8
	psn      [2]ib.PSN // the first one, in each life
	tuning   transport.Tuning
	room     transport.Room // of each end for what arrives
	silence  int64          // how long a silent peer is waited for
	windows  bool           // each end has a window
	bound    bool           // which is bound from the start
	trip     bool           // packets take time: see tripNs
	lazy     bool           // sending, a packet at a time, and looking for completions are actions of their own
	mirrored bool           // both ends have the same program
	always   bool           // in every run of the tests
}

// operation is one request, of so many bytes.
type operation struct {
	letter    byte
	op        transport.WROpcode
	n         int
	after     int  // posted when so many of the peer's are complete
	fence     bool // it waits for READs and atomics
	silent    bool // it asks for no completion
	patient   bool // nobody waits for it yet
	fails     transport.WCStatus
	recvFails transport.WCStatus // status of the receive that the peer takes for it
}

// letters name operations in the names of programs, with their number of packets.
var letters = map[byte]operation{
	's': {op: transport.WRSend}, 'i': {op: transport.WRSendImm}, 'w': {op: transport.WRWrite},
	'x': {op: transport.WRWriteImm}, 'r': {op: transport.WRRead}, 'f': {op: transport.WRFetchAdd},
	'c': {op: transport.WRCompareSwap}, 'a': {op: transport.WRAtomicWrite},
	'p': {op: transport.WRFlush}, 'q': {op: transport.WRFlush}, // q: of the whole region, whatever the address
	// The peer's window: SEND that invalidates it, WRITE through it. One's own: LOCAL_INV, BIND_MW.
	'v': {op: transport.WRSendInv, recvFails: transport.WCLocalAccessErr}, 'm': {op: transport.WRWrite},
	'l': {op: transport.WRLocalInv}, 'b': {op: transport.WRBindMW},
	// What must fail: without a key, longer than the receive, not aligned, from memory of nobody.
	'W': {op: transport.WRWrite, fails: transport.WCRemoteAccessErr}, 'R': {op: transport.WRRead,
		fails: transport.WCRemoteAccessErr},
	'F': {op: transport.WRFetchAdd, fails: transport.WCRemoteAccessErr}, 'A': {op: transport.WRAtomicWrite,
		fails: transport.WCRemoteAccessErr},
	'L': {op: transport.WRSend, fails: transport.WCRemoteInvReqErr, recvFails: transport.WCLocalLenErr},
	'K': {op: transport.WRFetchAdd, fails: transport.WCRemoteInvReqErr},
	'G': {op: transport.WRSend, fails: transport.WCLocalProtErr},
	// No request: the program ends the queue pair, or takes the right to READ from the peer.
	'E': {}, 'N': {},
}

// requests reports whether the operation is a request.
func (o operation) requests() bool { return o.letter != 'E' && o.letter != 'N' }

func (o operation) takesReceive() bool {
	switch o.op {
	case transport.WRSend, transport.WRSendImm, transport.WRSendInv, transport.WRWriteImm:
		return o.requests() && o.letter != 'G'
	}
	return false
}

// adds reports whether the operation adds one to the word.
func (o operation) adds() bool {
	return (o.op == transport.WRFetchAdd || o.op == transport.WRCompareSwap) && o.fails == transport.WCSuccess
}

// asks reports whether the operation is a READ or an atomic, of which few may be outstanding.
func (o operation) asks() bool {
	switch o.op {
	case transport.WRRead, transport.WRFetchAdd, transport.WRCompareSwap, transport.WRAtomicWrite:
		return o.requests()
	}
	return false
}

// writes returns how many bytes the operation writes into the area of the peer's WRITEs.
func (o operation) writes() int {
	switch o.op {
	case transport.WRWrite, transport.WRWriteImm, transport.WRAtomicWrite:
		if o.fails == transport.WCSuccess {
			return o.n
		}
	}
	return 0
}

// packets returns how many PSNs the operation has.
func (o operation) packets() int {
	switch {
	case !o.requests() || o.op == transport.WRLocalInv || o.op == transport.WRBindMW ||
		o.fails == transport.WCLocalProtErr:
		return 0
	case o.op == transport.WRFlush || o.adds():
		return 1
	}
	return max(1, (o.n+worldMTU.Bytes()-1)/worldMTU.Bytes())
}

// ops reads the operations of lives as "s2 w1 r3 / s1". A sign behind one says more: ! is a fence,
// - asks for no completion, ~ is patient, @2 waits until two of the peer's are complete.
func ops(text string) (lives [][]operation) {
	for life := range strings.SplitSeq(text, "/") {
		var all []operation
		for f := range strings.FieldsSeq(life) {
			o, ok := letters[f[0]]
			if !ok {
				panic(f)
			}
			o.letter = f[0]
			o.fence, f = strings.Contains(f, "!"), strings.ReplaceAll(f, "!", "")
			o.silent, f = strings.Contains(f, "-"), strings.ReplaceAll(f, "-", "")
			o.patient, f = strings.Contains(f, "~"), strings.ReplaceAll(f, "~", "")
			f, after, _ := strings.Cut(f, "@")
			o.after, _ = strconv.Atoi(after)
			packets, err := strconv.Atoi(f[1:])
			if err != nil && len(f) > 1 {
				panic(err)
			}
			switch o.op {
			case transport.WRFetchAdd, transport.WRCompareSwap, transport.WRAtomicWrite:
				o.n = 8
			default:
				o.n = max(0, packets*worldMTU.Bytes()-100) // the last packet is shorter
			}
			all = append(all, o)
		}
		lives = append(lives, all)
	}
	return lives
}

// newProgram makes a program of the requests of both ends.
func newProgram(a, b string, lost, dup, over, early uint8) *program {
	p := &program{
		tuning: transport.Tuning{GoBackN: true},
		recvs:  [2]int{-1, -1}, budget: budget{lost, dup, over, early}, retry: 7, rnrRetry: 7, rdAtomic: 2,
		psn: [2]ib.PSN{testSQPSN0, (testSQPSN0 + 1<<22) & ib.PSNMask},
	}
	p.name = strings.ReplaceAll(a, " ", "")
	if b != "" {
		p.name += "|" + strings.ReplaceAll(b, " ", "")
	}
	p.name = strings.ReplaceAll(p.name, "/", "+")
	one, two := ops(a), ops(b)
	for k := range max(len(one), len(two)) {
		var life [2][]operation
		if k < len(one) {
			life[0] = one[k]
		}
		if k < len(two) {
			life[1] = two[k]
		}
		p.lives = append(p.lives, life)
	}
	p.windows = strings.ContainsAny(a+b, "vmlb")
	p.bound = p.windows
	return p
}

// finish completes a program.
func (p *program) finish() {
	if *faultsFlag != "" && p.script == nil {
		if _, err := fmt.Sscanf(*faultsFlag, "%d,%d,%d,%d", &p.budget.lose, &p.budget.dup, &p.budget.overtake,
			&p.budget.early); err != nil {
			panic(err)
		}
	}
	p.name += fmt.Sprintf(" %d,%d,%d,%d", p.budget.lose, p.budget.dup, p.budget.overtake, p.budget.early)
	p.mirrored = p.recvs[0] == p.recvs[1]
	for _, life := range p.lives {
		p.mirrored = p.mirrored && slices.Equal(life[0], life[1])
	}
}

// tagged makes a change with a name.
func tagged(tag string, change func(*program)) func(*program) {
	return func(p *program) {
		change(p)
		p.name += " " + tag
	}
}

// both makes two changes.
func both(f, g func(*program)) func(*program) {
	return func(p *program) {
		f(p)
		g(p)
	}
}

// steps reads what happens first: "sa3 lb db2" lets a send three packets, loses what goes to b, and
// delivers the next two. p posts a request, s sends, d delivers, l loses, t is a timer and c looks
// at completions.
func steps(text string) (all []action) {
	for f := range strings.FieldsSeq(text) {
		kind := map[byte]actionKind{'p': actPost, 's': actSend, 'd': actDeliver, 'l': actLose, 't': actTimer,
			'c': actPoll}[f[0]]
		n, _ := strconv.Atoi(f[2:])
		all = append(all, slices.Repeat([]action{{kind: kind, end: f[1] - 'a'}}, max(1, n))...)
	}
	return all
}

// after begins with some steps.
func after(tag, text string) func(*program) {
	return tagged("after "+tag, func(p *program) { p.script = steps(text) })
}

// retries bounds both kinds of retries.
func retries(n, rnr uint8) func(*program) {
	return tagged(fmt.Sprintf("retry %d, rnr %d", n, rnr), func(p *program) { p.retry, p.rnrRetry = n, rnr })
}

var (
	selectively = tagged("selective", func(p *program) { p.tuning.GoBackN = false })
	noProbes    = tagged("no probes", func(p *program) { p.tuning.LossProbe = -1 })
	noMerge     = tagged("each acknowledged", func(p *program) { p.tuning.DisableAckCoalesce = true })
	patient     = tagged("patient", func(p *program) { p.tuning.PatientRetries = true })
	oneAway     = tagged("one packet away", func(p *program) { p.tuning.MaxUnackedPackets = 1 })
	wide        = tagged("wide", func(p *program) { p.tuning.MaxUnackedPackets = 64 })
	// Packets.
	room     = tagged("room for 4", func(p *program) { p.room = transport.Room{Size: 4 * (256 + 96), PerByte: 1} })
	depthOne = tagged("depth 1", func(p *program) { p.rdAtomic = 1 })
	credits  = tagged("credits", func(p *program) { p.tuning.EndToEndCredits = true })
	silence  = tagged("silence", func(p *program) { p.retry, p.silence = 1, 20*ms })
	lazy     = tagged("lazy", func(p *program) { p.lazy = true })
	trips    = tagged("trips", func(p *program) { p.trip = true })
	wrap     = tagged("wrap", func(p *program) { p.psn[0] = ib.PSNMask })
	back     = tagged("back", func(p *program) { p.psn[1] = (p.psn[0] - 1<<22) & ib.PSNMask })
	unbound  = tagged("unbound", func(p *program) { p.bound = false })
	soon     = tagged("probes soon", func(p *program) { p.tuning.LossProbe = 100 * time.Microsecond })
	late     = tagged("late", func(p *program) { // all receives of the first life
		for i := range p.recvs {
			p.recvs[i] = 0
			for _, o := range p.lives[0][1-i] {
				if o.takesReceive() {
					p.recvs[i]++
				}
			}
		}
	})
)

// schedulePrograms are the programs that are played, those with fewer states first.
func schedulePrograms() []*program {
	var all []*program
	names := map[string]bool{}
	add := func(a, b string, lost, dup, over, early uint8, change func(*program)) *program {
		p := newProgram(a, b, lost, dup, over, early)
		if change != nil {
			change(p)
		}
		p.finish()
		if !names[p.name] {
			names[p.name] = true
			all = append(all, p)
		}
		return p
	}
	remote := []string{"s", "i", "w", "x", "r", "f", "c", "a", "p", "v", "m"} // what the peer executes
	fail := []string{"W1", "W2", "R1", "R2", "F1", "A1", "L4", "K1", "G1"}
	long := func(k string) bool { return strings.Contains("siwxrvm", k) }
	takes := func(k string) bool { return strings.Contains("sixv", k) }

	// Each kind by itself.
	for _, k := range remote {
		for _, f := range []func(*program){nil, wrap, selectively, noProbes, noMerge, retries(1, 7), patient} {
			p := add(k+"1", "", 1, 1, 1, 1, f)
			p.always = f == nil && k != "m"
			add(k+"1", "", 2, 1, 1, 2, f)
		}
		if long(k) {
			add(k+"0", "", 1, 1, 1, 1, nil)
			add(k+"2", "", 1, 1, 0, 0, nil).always = true
			for _, f := range []func(*program){nil, wrap, selectively, noProbes, noMerge, oneAway} {
				add(k+"2", "", 1, 1, 1, 1, f)
				add(k+"3", "", 1, 1, 1, 0, f)
				add(k+"3", "", 1, 0, 1, 1, f)
			}
		}
		add(k+"1 "+k+"1", "", 1, 1, 1, 0, wrap).always = k == "f" || k == "w"
		add(k+"1 "+k+"1", "", 1, 0, 1, 0, selectively).always = true
		if k != "v" {
			add(k+"1 "+k+"1 "+k+"1", "", 1, 1, 0, 0, nil)
			add(k+"1 "+k+"1 "+k+"1", "", 1, 0, 1, 0, nil)
			add(k+"1 "+k+"1 "+k+"1 "+k+"1", "", 1, 1, 0, 0, nil)
			add(k+"1 "+k+"1 "+k+"1 "+k+"1", "", 1, 0, 1, 0, selectively)
		}
		add(k+"1-", "", 1, 1, 1, 1, nil)
		add(k+"1- "+k+"1", "", 1, 1, 0, 1, nil)
		if takes(k) { // receives that come late
			add(k+"1", "", 1, 1, 0, 1, late).always = k == "s"
			for _, rnr := range []uint8{1, 2} {
				add(k+"1", "", 1, 0, 1, 1, both(late, retries(7, rnr)))
				add(k+"1", "", 1, 1, 0, 0, both(late, retries(1, rnr)))
			}
			add(k+"1", "", 1, 1, 0, 1, both(late, credits)).always = k == "s"
			add(k+"2", "", 1, 1, 0, 1, both(late, credits))
			add(k+"2", "", 1, 1, 0, 1, late)
			add(k+"2", "", 1, 1, 1, 0, both(late, selectively))
		}
		// Both ends at once.
		add(k+"1", k+"1", 1, 0, 0, 0, nil).always = strings.Contains("swrf", k)
		add(k+"1", k+"1", 1, 1, 0, 1, nil)
		add(k+"1", k+"1", 1, 0, 1, 0, selectively)
		// Ends that send and look when they like.
		add(k+"1", "", 1, 0, 0, 0, lazy).always = k == "s" || k == "r"
		add(k+"1", "", 1, 1, 1, 1, lazy)
		add(k+"1 "+k+"1", "", 1, 0, 0, 0, lazy)
		add(k+"1", k+"1", 1, 0, 0, 0, lazy)
		if long(k) {
			add(k+"2", "", 1, 0, 0, 0, lazy).always = k == "w"
			add(k+"2", "", 1, 0, 1, 0, both(lazy, selectively))
		}
		// Made again with the same numbers.
		for _, next := range []string{"s1", "w1", "r1", "f1"} {
			add(k+"1 / "+next, "", 0, 1, 1, 0, nil).always = k+"1" == next
			add(k+"1 / "+next, "", 0, 1, 1, 0, back)
			add(k+"1 / "+next, "/ "+next, 0, 1, 0, 0, nil)
			add(k+"1 / "+next, "", 1, 1, 0, 1, nil)
			add(k+"1 / "+next, "", 0, 1, 0, 0, lazy).always = next == "s1" && k == "s"
		}
		// One end, or both, close.
		add(k+"1", "E", 1, 0, 0, 0, nil).always = k == "s"
		add(k+"1 E", "", 1, 1, 0, 0, nil).always = k == "s"
		add(k+"1 E", k+"1 E", 1, 0, 0, 0, nil)
		add("E "+k+"1", k+"1", 1, 0, 0, 0, nil)
		// Behind and before one that fails, and against one.
		for _, x := range fail {
			add(k+"1 "+x, "", 1, 1, 0, 0, nil).always = k == "w"
			add(x+" "+k+"1", "", 1, 1, 0, 0, nil).always = k == "w"
			add(k+"1", x, 1, 0, 0, 0, nil).always = k == "r" && x == "W1"
			add(k+"1 "+x, "", 1, 0, 1, 1, retries(1, 1))
		}
	}
	add("E", "E", 1, 0, 0, 0, nil).always = true
	for _, x := range fail {
		add(x, "", 1, 1, 0, 0, nil).always = true
		add(x, "", 1, 1, 1, 1, nil)
		add(x, "", 2, 0, 0, 1, retries(1, 7))
		add(x, x, 1, 0, 0, 0, nil)
	}
	// Few retries.
	for _, k := range []string{"s2", "w2", "r2", "f1", "a1", "p1", "w1 f1", "r1 s1", "f1 f1", "c1 r2"} {
		add(k, "", 2, 0, 0, 1, retries(1, 7)).always = k == "f1 f1"
		add(k, "", 3, 1, 0, 0, retries(1, 7))
		add(k, "", 3, 0, 0, 1, retries(2, 7))
		add(k, "", 2, 0, 0, 1, both(selectively, retries(1, 7)))
		add(k, "", 2, 0, 0, 1, silence).always = k == "w2"
	}
	// Windows.
	for _, k := range []string{"v1 m1", "m1 v1", "m2 v1 m1", "v1 v1", "m1-v1", "v2 m2"} {
		add(strings.ReplaceAll(k, "-", "- "), "", 1, 1, 0, 0, nil).always = true
		add(strings.ReplaceAll(k, "-", "- "), "", 1, 1, 1, 1, nil)
	}
	for _, k := range [][2]string{
		{"m1", "l"}, {"m2", "l"}, {"v1", "m1@1"}, {"m1@2", "l b"}, {"m1", "l b"}, {"m1@1", "l"},
		{"m3", "l b w1"}, {"v1", "l"}, {"m1 v1", "b@1"}, {"v1 m1", "s1 l"},
	} {
		add(k[0], k[1], 1, 0, 0, 0, nil).always = true
		add(k[0], k[1], 1, 1, 1, 1, nil)
	}
	for _, k := range [][2]string{{"m1@1", "b"}, {"m1", "b"}, {"m1@1", "b l"}, {"v1@1", "b"}, {"m1@1", "b / b"}} {
		add(k[0], k[1], 1, 1, 0, 0, unbound).always = true
		add(k[0], k[1], 1, 1, 1, 1, unbound)
	}
	for _, k := range remote { // local operations between others
		if k != "m" && k != "v" {
			add(k+"1 l "+k+"1", "", 1, 0, 1, 0, nil).always = k == "w"
			add(k+"1 l b "+k+"1", "", 1, 1, 0, 0, nil).always = k == "w"
			add("l b "+k+"1", "", 1, 1, 0, 0, lazy)
			add("l- b- "+k+"1 l", "", 1, 1, 0, 1, nil)
		}
	}
	// Fences, and requests without completions.
	for _, k := range []string{"r1 s1!", "f1 w1!", "r2 r1!", "w1- s1", "r1- w1", "f1- f1", "s1- s1- s1",
		"a1 r1!", "w1 p1", "w1 p1! s1"} {
		add(k, "", 1, 1, 0, 0, nil).always = true
		add(k, "", 1, 1, 1, 1, nil)
	}
	// Several of several kinds.
	for _, k := range []string{"s1 w1 r1", "r1 w1 s1", "f1 r1 f1", "w1 f1 s1 r1", "r1 f1 c1 a1",
		"s1 s1 w1 f1", "w2 s1 r2", "r2 f1 w2"} {
		for _, f := range []func(*program){nil, selectively, depthOne, wrap} {
			add(k, "", 1, 0, 1, 0, f).always = k == "s1 w1 r1" && f != nil
			add(k, "", 1, 1, 0, 0, f)
			add(k, "", 1, 0, 0, 1, f)
		}
	}
	// Requests that need no answer soon: a probe asks for it, or a later request, or the peer
	// answers in a datagram of its own.
	for _, k := range []string{"s1~", "w1~", "w2~", "w1~ w1~", "s1~ s1", "w1~ r1", "s1~ s2~ s1~", "w1~- s1~"} {
		add(k, "", 1, 1, 0, 0, soon).always = len(k) < 9
		add(k, "", 1, 0, 1, 1, both(soon, selectively)).always = len(k) < 6
		add(k, "", 2, 0, 0, 0, soon).always = true
		add(k, k, 1, 0, 0, 0, soon).always = len(k) < 4
		add(k, "", 1, 0, 0, 0, both(soon, lazy)).always = len(k) < 4
		add(k, "", 1, 1, 1, 1, soon)
	}
	add("w1~", "E", 1, 0, 0, 0, soon).always = true
	add("s1~ s1~", "", 1, 0, 0, 0, both(soon, late)).always = true
	// READs and atomics one at a time, and the wire's faults together.
	for _, k := range []string{"s2", "w2", "r2", "f1", "w1 f1", "r1 s1", "f1 f1", "c1 r2", "r1 r1", "r1 r2",
		"f1 r1", "a1 r1"} {
		add(k, "", 1, 1, 1, 0, depthOne).always = k == "f1 f1"
		add(k, "", 1, 1, 1, 1, depthOne)
		add(k, "", 1, 1, 1, 1, noProbes)
	}
	for _, k := range []string{"s2", "w2", "w2 f1", "r2", "f1 f1", "w1 f1", "r1 s1", "c1 r2", "s1 w1 r1"} {
		add(k, "", 1, 0, 1, 0, selectively).always = true
		add(k, "", 2, 0, 1, 1, selectively)
		add(k, "", 1, 1, 1, 1, selectively)
	}
	for _, k := range []string{"s1 s1", "w1 s1", "s1 f1", "r1 i1", "x1 x1", "s1 r1", "s1 v1", "s2 w1"} {
		add(k, "", 1, 1, 0, 1, late)
		add(k, "", 1, 0, 1, 0, both(late, retries(7, 1)))
		add(k, "", 1, 0, 1, 0, both(late, selectively))
		add(k, "", 1, 1, 0, 1, both(late, credits))
	}
	// Pairs of kinds, at one end and at both.
	for i, a := range remote {
		for j, b := range remote {
			add(a+"1 "+b+"1", "", 1, 1, 0, 0, nil)
			add(a+"1 "+b+"2", "", 1, 0, 1, 0, nil)
			if i <= j {
				add(a+"1", b+"2", 1, 1, 0, 1, nil)
			}
			add(a+"2 "+b+"1", "", 1, 0, 1, 0, selectively)
		}
	}
	for _, a := range remote {
		for _, b := range remote {
			add(a+"2 "+b+"1", "", 1, 1, 1, 1, nil)
		}
	}
	// Packets that take time: round trips are measured, and timers go by them.
	for _, k := range []string{"s1", "w2", "r2", "s1 s1", "r1 f1", "w1 r1 s1", "r3", "w3"} {
		add(k, "", 1, 0, 0, 1, trips).always = len(k) < 6
		add(k, "", 1, 0, 1, 0, both(trips, selectively)).always = true
		add(k, "", 2, 0, 1, 0, both(trips, selectively)).always = len(k) < 6
	}
	add("q1 w1", "", 1, 1, 0, 0, nil).always = true
	// Gaps that show one after the other, what is kept before its turn, and an answer after a
	// silence.
	for _, k := range []string{"w3 w2", "r3 r2", "w1 r3 w1", "s1 r2 f1", "w2 r2"} {
		add(k, "", 2, 0, 0, 0, both(trips, selectively)).always = true
	}
	// A packet that is lost twice behind others that came: four losses, as the first one tells the
	// peer's selective repeat.
	add("w3 w3", "", 4, 0, 0, 0, selectively).always = true
	add("w2", "W1", 1, 0, 0, 0, lazy).always = true // refused with a NAK to send
	// Rights that go while a READ is answered; room, and a window, that are used up.
	for _, k := range []string{"r3", "r2 w1", "r1 r2"} {
		add(k, "N", 1, 0, 0, 0, lazy).always = k == "r3"
		add(k, "N", 1, 1, 1, 1, nil)
	}
	for _, k := range []string{"w3 w3", "r3 w2", "s2 w3"} { // each waits for room at the peer, or here
		add(k, "", 1, 0, 0, 0, room).always = true
		add(k, "", 1, 0, 1, 0, both(room, selectively))
		add(k, k, 1, 0, 0, 0, room)
	}
	add("w3 w3", "", 1, 0, 0, 0, tagged("8 away", func(p *program) { p.tuning.MaxUnackedPackets = 8 })).always = true
	for _, k := range []string{"r1 f1", "w2 w1", "r2"} {
		add(k, "", 2, 0, 0, 1, silence).always = true
		add(k, "", 2, 0, 0, 1, both(silence, selectively)).always = true
	}
	// What needs more than four faults before it makes a difference begins with them.
	// The first packet is lost, and the answer to the next tells of selective repeat.
	const known = "pa sa lb ta sa db sb da ca "
	for _, k := range []struct {
		ops         string
		lost, early uint8
		change      func(*program)
		tag, steps  string
	}{
		// Two losses that two maps show, and nothing is sent between.
		{"w1 w3 w3 w2", 3, 1, wide, "two maps", "pa3 sa8 lb db2 lb db sb da db sb da db2 sb da"},
		// A READ behind a gap, and a packet behind it that asks for no answer.
		{"w1 w1 r2 w2", 2, 1, wide, "a gap and a READ", "pa3 sa4 lb db sb da"},
		// A map that comes after an ACK timeout, and timeouts after it: how long is waited for the
		// peer?
		{"w1 w2", 5, 6, both(silence, noProbes), "a late map",
			"pa sa2 lb db sb ta da sb sa ta sa lb ta sa lb ta sa lb"},
	} {
		add(k.ops, "", k.lost, 0, 0, k.early,
			both(both(both(k.change, lazy), both(trips, selectively)), after(k.tag, known+k.steps))).always = true
	}
	slices.SortStableFunc(all, func(p, q *program) int { return p.size() - q.size() })
	return all
}

// fine reports whether nothing of the program itself makes an end send anything again.
func (p *program) fine() bool {
	for _, life := range p.lives {
		for _, ops := range life {
			for _, o := range ops {
				if o.fails != transport.WCSuccess || !o.requests() || o.patient {
					return false
				}
			}
		}
	}
	return p.recvs == [2]int{-1, -1} && len(p.lives) == 1 && !p.lazy
}

// size grows with the number of states, roughly.
func (p *program) size() int {
	n := 2 * int(p.budget.lose+p.budget.dup+p.budget.overtake+p.budget.early)
	for _, life := range p.lives {
		for i, ops := range life {
			n += 3*i + max(0, p.recvs[i])
			for _, o := range ops {
				n += 1 + 2*o.packets()
			}
		}
	}
	if p.lazy {
		n *= 2
	}
	return n
}
