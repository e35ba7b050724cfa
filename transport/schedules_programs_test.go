package transport_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// program is what each end posts, and what may go wrong meanwhile.
type program struct {
	name     string
	lives    [][2][]operation // of the queue pairs, one after the other, under the same numbers
	recvs    [2]int           // receives that are posted at any time; -1: those that are needed are there from the start
	budget   budget
	retry    uint8
	rnrRetry uint8
	rdAtomic uint8
	psn      [2]ib.PSN // the first one, in each life
	tuning   transport.Tuning
	windows  bool // each end has a window
	bound    bool // which is bound from the start
	lazy     bool // sending, a packet at a time, and looking for completions are actions of their own
	mirrored bool // both ends have the same program
	always   bool // in every run of the tests
}

// operation is one request, of so many bytes.
type operation struct {
	letter    byte
	op        transport.WROpcode
	n         int
	after     int  // posted when so many of the peer's are complete
	fence     bool // it waits for READs and atomics
	silent    bool // it asks for no completion
	fails     transport.WCStatus
	recvFails transport.WCStatus // status of the receive that the peer takes for it
}

// letters name operations in the names of programs, with their number of packets.
var letters = map[byte]operation{
	's': {op: transport.WRSend}, 'i': {op: transport.WRSendImm}, 'w': {op: transport.WRWrite}, 'x': {op: transport.WRWriteImm},
	'r': {op: transport.WRRead}, 'f': {op: transport.WRFetchAdd}, 'c': {op: transport.WRCompareSwap}, 'a': {op: transport.WRAtomicWrite},
	'p': {op: transport.WRFlush},
	// The peer's window: SEND that invalidates it, WRITE through it. One's own: LOCAL_INV, BIND_MW.
	'v': {op: transport.WRSendInv, recvFails: transport.WCLocalAccessErr}, 'm': {op: transport.WRWrite}, 'l': {op: transport.WRLocalInv}, 'b': {op: transport.WRBindMW},
	// What must fail: without a key, longer than the receive, not aligned, from memory of nobody.
	'W': {op: transport.WRWrite, fails: transport.WCRemoteAccessErr}, 'R': {op: transport.WRRead, fails: transport.WCRemoteAccessErr},
	'F': {op: transport.WRFetchAdd, fails: transport.WCRemoteAccessErr},
	'L': {op: transport.WRSend, fails: transport.WCRemoteInvReqErr, recvFails: transport.WCLocalLenErr},
	'K': {op: transport.WRFetchAdd, fails: transport.WCRemoteInvReqErr},
	'G': {op: transport.WRSend, fails: transport.WCLocalProtErr},
	'E': {}, // no request: the program ends the queue pair
}

func (o operation) takesReceive() bool {
	switch o.op {
	case transport.WRSend, transport.WRSendImm, transport.WRSendInv, transport.WRWriteImm:
		return o.letter != 'E' && o.letter != 'G'
	}
	return false
}

// adds reports whether the operation adds one to the word.
func (o operation) adds() bool {
	return (o.op == transport.WRFetchAdd || o.op == transport.WRCompareSwap) && o.fails == transport.WCSuccess
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
	case o.letter == 'E' || o.op == transport.WRLocalInv || o.op == transport.WRBindMW || o.fails == transport.WCLocalProtErr:
		return 0
	case o.op == transport.WRFlush || o.adds():
		return 1
	}
	return max(1, (o.n+worldMTU.Bytes()-1)/worldMTU.Bytes())
}

// ops reads the operations of lives as "s2 w1 r3 / s1". A sign behind one says more: ! is a fence, - asks for no
// completion, @2 waits until two of the peer's are complete.
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
		recvs: [2]int{-1, -1}, budget: budget{lost, dup, over, early}, retry: 7, rnrRetry: 7, rdAtomic: 2,
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
	if *faultsFlag != "" {
		if _, err := fmt.Sscanf(*faultsFlag, "%d,%d,%d,%d", &p.budget.lose, &p.budget.dup, &p.budget.overtake, &p.budget.early); err != nil {
			panic(err)
		}
	}
	p.name += fmt.Sprintf(" %d,%d,%d,%d", p.budget.lose, p.budget.dup, p.budget.overtake, p.budget.early)
	p.mirrored = p.recvs[0] == p.recvs[1]
	for _, life := range p.lives {
		p.mirrored = p.mirrored && slices.Equal(life[0], life[1])
	}
}

// schedulePrograms are the programs that are played.
func schedulePrograms() []*program {
	var all []*program
	add := func(a, b string, lost, dup, over, early uint8, change func(*program)) *program {
		p := newProgram(a, b, lost, dup, over, early)
		if change != nil {
			change(p)
		}
		p.finish()
		all = append(all, p)
		return p
	}
	kinds := "siwxrfca"
	for i := range kinds { // each kind, of one packet, and of three
		k := kinds[i : i+1]
		add(k+"1", "", 1, 1, 1, 1, nil).always = true
		add(k+"1", "", 2, 2, 2, 2, nil)
		if i < 5 {
			add(k+"3", "", 1, 1, 1, 1, nil)
			add(k+"2", "", 1, 1, 0, 0, nil).always = true
		}
	}
	for i := range kinds { // pairs of kinds
		for j := range kinds {
			a, b := kinds[i:i+1], kinds[j:j+1]
			add(a+"2 "+b+"1", "", 1, 1, 1, 1, nil)
			if i <= j {
				add(a+"1", b+"2", 1, 1, 0, 1, nil)
			}
		}
	}
	few := func(n, rnr uint8) func(*program) { return func(p *program) { p.retry, p.rnrRetry = n, rnr } }
	for _, k := range []string{"s2", "w2", "r2", "f1", "w1 f1", "r1 s1", "f1 f1", "c1 r2"} { // errors
		name := func(tag string, f func(*program)) func(*program) {
			return func(p *program) { f(p); p.name += tag }
		}
		add(k, "", 2, 0, 0, 1, name(" retry 1", few(1, 7))).always = k == "f1 f1"
		add(k, "", 3, 1, 0, 0, name(" retry 1", few(1, 7)))
		add(k, "", 1, 1, 1, 1, name(" depth 1", func(p *program) { p.rdAtomic = 1 }))
		add(k, "", 1, 1, 1, 1, name(" no probes", func(p *program) { p.tuning.LossProbe = -1 }))
	}
	for _, k := range []string{"s2", "w2", "w2 f1", "r2", "f1 f1", "w1 f1", "r1 s1", "c1 r2", "s1 w1 r1"} { // selective repeat
		add(k, "", 1, 1, 1, 1, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" })
		add(k, "", 1, 0, 1, 0, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" }).always = true
		add(k, "", 2, 0, 1, 1, func(p *program) { p.tuning.SelectiveRepeat = true; p.name += " selective" })
	}
	late := func(tag string, a, b int, n uint8) func(*program) {
		return func(p *program) { p.recvs, p.rnrRetry = [2]int{a, b}, n; p.name += tag }
	}
	for _, k := range []string{"s1", "x2", "s1 s1", "w1 s1", "s1 f1", "r1 i1"} { // receives that come late
		n := strings.Count(k, "s") + strings.Count(k, "x") + strings.Count(k, "i")
		add(k, "", 1, 1, 0, 1, late(" late", 0, n, 7)).always = k == "s1"
		add(k, "", 1, 0, 1, 0, late(" late, rnr 1", 0, n, 1))
		add(k, "", 1, 1, 0, 1, func(p *program) {
			late(" late, credits", 0, n, 7)(p)
			p.tuning.EndToEndCredits = true
		})
	}
	wrap := func(p *program) { p.psn[0] = ib.PSNMask; p.name += " wrap" }
	for _, k := range []string{"s2", "w2", "r2", "f1 f1", "w1 r2"} {
		add(k, "", 1, 1, 1, 0, wrap).always = true
	}
	lazy := func(p *program) { p.lazy = true; p.name += " lazy" }
	for _, k := range []string{"s1", "w2", "r1"} {
		add(k, "", 1, 0, 0, 0, lazy).always = true
	}
	for _, k := range []string{"s1", "w1", "r1", "f1"} { // both at once
		add(k, k, 1, 0, 0, 0, nil).always = true
	}
	for _, k := range []string{"W1", "R1", "F1", "L4", "K1", "G1", "w1 W1", "W1 w1", "r1 L4", "s1 E", "E s1", "w1- s1", "r1 s1!", "s0", "w0", "r0", "p1", "w1 p1"} {
		add(k, "", 1, 1, 0, 0, nil).always = true
	}
	add("W1", "w1", 1, 0, 0, 0, nil).always = true
	add("s1", "E", 1, 0, 0, 0, nil).always = true
	add("E", "E", 1, 0, 0, 0, nil).always = true
	for _, k := range []string{"m1", "v1", "m1 v1", "v1 m1", "m2", "v1 v1"} {
		add(k, "", 1, 1, 0, 0, nil).always = true
	}
	for _, k := range [][2]string{{"m1", "l"}, {"v1", "m1@1"}, {"m1@2", "l b"}, {"m1", "l b"}} {
		add(k[0], k[1], 1, 0, 0, 0, nil).always = true
	}
	for _, k := range []string{"s1 / s1", "w1 / w1", "r1 / r1", "f1 / f1"} { // made again with the same numbers
		add(k, "", 0, 1, 1, 0, nil).always = true
	}
	return all
}
