package cm

import (
	"fmt"
	"io"
)

type logger = io.Writer

// program is what the applications of two ends do, and what may go wrong meanwhile.
type program struct {
	name     string
	ends     [2]script
	faults   mishaps
	tries    int   // of each message
	lookNs   int64 // Config.LookNs
	listenNs int64 // Request.ListenNs
	holdNs   int64 // Config.ReqHoldNs
	lookup   bool  // instead of connections
	data     bool  // what arrives on the queue pair may stand for the RTU
	always   bool  // in every run of the tests
}

// script is what one application does.
type script struct {
	asks     int    // connections, or lookups, that it asks for
	serial   serial // when it asks for the next
	listens  listens
	takes    bool   // it takes requests when it likes
	request  string // what it may do with a request, a letter of choices each
	reply    string // with a reply
	up       string // with a connection that is up: "" is to keep it
	sameQPN  bool   // it uses one queue pair number
	ids      uint32 // how many communication IDs it has; 0: always new ones
	sameGUID bool   // after its death

	// What it may do at any time, and how often.
	destroys, dies int
	unlistens      bool
}

type serial uint8

const (
	atAnyTime serial = iota
	whenOver         // when it knows that the one before is over
	whenGone         // after TIMEWAIT
)

type listens uint8

const (
	never listens = iota
	atOnce
	later
)

func (f mishaps) String() string {
	return fmt.Sprintf("%d,%d,%d,%d,%d", f.lose, f.dup, f.overtake, f.early, f.slow)
}

// programs are those that are played.
func programs() []*program {
	var all []*program
	// Budgets: lost, duplicated, overtaken, early, slow.
	none, least := mishaps{}, mishaps{1, 0, 0, 0, 0}
	small, one, two, three := mishaps{1, 0, 0, 1, 0}, mishaps{1, 0, 0, 1, 1}, mishaps{2, 1, 1, 1, 1},
		mishaps{3, 1, 1, 2, 1}
	add := func(name string, a, b script, change func(*program), fs ...mishaps) {
		for i, f := range fs {
			p := &program{name: fmt.Sprintf("%s %v", name, f), ends: [2]script{a, b}, faults: f, tries: 2}
			if change != nil {
				change(p)
			}
			p.always = i == 0 && f != none
			all = append(all, p)
		}
	}
	client := func(reply, up string) script { return script{asks: 1, reply: reply, up: up} }
	server := func(request, up string) script { return script{listens: atOnce, request: request, up: up} }

	add("connect", client("y", ""), server("a", ""), nil, small, two, three)
	add("connect, data before RTU", client("y", ""), server("a", ""), func(p *program) { p.data = true },
		small, two, three)
	add("refuse", client("y", ""), server("r", ""), nil, one, two, three)
	add("connect, a closes", client("y", "c"), server("a", ""), nil, small, two, three)
	add("connect, b closes", client("y", ""), server("a", "c"), nil, small, two, three)
	add("connect, both close", client("y", "c"), server("a", "c"), nil, least, small, one, two)
	add("whatever they choose", client("yrd", "cd"), server("ard", "cd"), nil, least, one, two)

	// Patience.
	add("slow applications", client("y", "c"), server("a", ""), func(p *program) { p.holdNs = 4e9 },
		mishaps{0, 0, 0, 0, 3}, mishaps{1, 0, 0, 1, 4}, mishaps{1, 1, 1, 1, 6})
	add("slow, and refuse", client("r", ""), server("ar", ""), func(p *program) { p.holdNs = 4e9 },
		mishaps{0, 0, 0, 0, 3}, mishaps{1, 0, 0, 1, 4}, mishaps{1, 1, 1, 1, 6})

	// Nobody listens, or not yet, or no more.
	add("nobody listens", client("y", ""), script{}, nil, one, two)
	late := script{listens: later, request: "a"}
	add("listens late", client("y", "c"), late, nil, least, small, two)
	add("listens late, and is waited for", client("y", "c"), late, func(p *program) { p.listenNs = 50e6 },
		mishaps{0, 0, 0, 1, 1}, mishaps{1, 1, 1, 1, 3})
	queue := script{listens: atOnce, takes: true, request: "ar"}
	add("takes requests when it likes", client("y", "c"), queue, nil, least, small, two)
	queue.unlistens = true
	add("stops to listen", client("y", "c"), queue, nil, least, small, two)
	stops := server("ar", "")
	stops.unlistens = true
	add("stops to listen, takes at once", client("y", "c"), stops, nil, least, small, two)

	// Both at once.
	both := script{asks: 1, listens: atOnce, request: "a", reply: "y", up: "c"}
	add("each connects to the other", both, both, nil, none, least, mishaps{1, 1, 0, 0, 0})

	// An owner that goes at any time.
	goes := func(s script) script { s.destroys = 1; return s }
	add("a destroys at any time", goes(client("y", "")), server("a", ""), nil, small, two)
	add("b destroys at any time", client("y", ""), goes(server("a", "")), nil, small, two)
	add("both destroy at any time", goes(client("y", "")), goes(server("a", "")), nil, least, one, two)

	// Again, with the numbers of before.
	for _, s := range []struct {
		name string
		when serial
		ids  uint32
	}{{"when it is over", whenOver, 0}, {"after TIMEWAIT", whenGone, 0},
		{"when it is over, few IDs", whenOver, 2}, {"after TIMEWAIT, few IDs", whenGone, 2}} {
		again := script{asks: 2, reply: "y", up: "c", sameQPN: true, serial: s.when, ids: s.ids}
		add("a connects again "+s.name, again, server("a", ""), nil, mishaps{1, 0, 0, 0, 1},
			mishaps{1, 0, 0, 1, 1}, mishaps{1, 1, 1, 1, 1})
	}
	add("a connects again, b closes", script{asks: 2, reply: "y", sameQPN: true, serial: whenOver},
		server("a", "c"), nil, mishaps{1, 0, 0, 0, 1}, mishaps{1, 0, 0, 1, 1}, mishaps{1, 1, 1, 1, 1})
	add("a connects twice", script{asks: 2, reply: "y", up: "c"}, server("a", ""), nil, none, mishaps{1, 0, 0, 1, 0})

	// A peer that forgot.
	look := func(p *program) { p.lookNs = 5e9 }
	dies := func(s script) script { s.dies = 1; return s }
	add("b dies", client("y", ""), dies(server("a", "")), nil, small, two)
	add("b dies, and is looked after", client("y", ""), dies(server("a", "")), look, small, two)
	add("a dies", dies(client("y", "")), server("a", ""), nil, small, two)
	add("a dies, and is looked after", dies(client("y", "")), server("a", ""), look, small, two)

	for _, same := range []bool{false, true} {
		forgets := dies(script{asks: 2, reply: "y", sameQPN: true, ids: 2, sameGUID: same, serial: whenOver})
		name := map[bool]string{false: "a dies and connects again", true: "a dies and connects again, one GUID"}[same]
		add(name, forgets, server("a", ""), nil, none, mishaps{1, 0, 0, 1, 0}, mishaps{1, 1, 0, 1, 1})
		add(name+", and is looked after", forgets, server("a", ""), look, none, mishaps{1, 0, 0, 1, 0},
			mishaps{1, 1, 0, 1, 1})
	}

	// Lookups.
	lookup := func(p *program) { p.lookup = true }
	add("lookup", client("", ""), server("a", ""), lookup, one, two, three)
	add("lookup, whatever it chooses", client("", ""), server("ard", ""), lookup, one, two, three)
	add("lookup, nobody listens", client("", ""), script{}, lookup, one, two)
	add("lookup, and is waited for", client("", ""), late, func(p *program) { p.lookup, p.listenNs = true, 50e6 },
		mishaps{0, 0, 0, 1, 1}, mishaps{1, 1, 1, 1, 3})
	add("lookup, stops to listen", client("", ""), queue, lookup, one, two)
	add("lookup, destroyed at any time", goes(client("", "")), goes(server("a", "")), lookup, one, two)
	add("two lookups with one ID", script{asks: 2, serial: whenOver, ids: 1}, server("a", ""), lookup, none, one, two)
	add("lookup by one that dies", dies(script{asks: 2, ids: 1, serial: whenOver}), server("a", ""), lookup, none, one)
	return all
}
