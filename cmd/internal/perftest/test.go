package perftest

import "fmt"

// Verb is what a test measures.
type Verb uint8

// The verbs.
const (
	Send Verb = iota
	Write
	Read
	Atomic
)

var verbTitles = [...]string{"Send", "RDMA_Write", "RDMA_Read", "Atomic"}

func (v Verb) String() string { return verbTitles[v] }

// Test is one of the eight tests: a verb, measured for bandwidth or latency.
type Test struct {
	Verb    Verb
	Latency bool
}

// Tests returns the eight tests.
func Tests() []Test {
	var all []Test
	for v := Send; v <= Atomic; v++ {
		all = append(all, Test{Verb: v}, Test{Verb: v, Latency: true})
	}
	return all
}

// Name returns the name of the subcommand; with "ib_" in front it is the name of the original.
func (t Test) Name() string {
	verb := [...]string{"send", "write", "read", "atomic"}[t.Verb]
	if t.Latency {
		return verb + "_lat"
	}
	return verb + "_bw"
}

// Summary describes the test in a line.
func (t Test) Summary() string {
	what := "bandwidth"
	if t.Latency {
		what = "latency"
	}
	return fmt.Sprintf("%s of %s, as ib_%s", what, t.Verb, t.Name())
}

// AtomicType is the operation of the atomic tests.
type AtomicType string

// The atomic operations, as -A names them.
const (
	CompareAndSwap AtomicType = "CMP_AND_SWAP"
	FetchAndAdd    AtomicType = "FETCH_AND_ADD"
)
