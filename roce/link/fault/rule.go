package fault

import (
	"math/rand/v2"

	"github.com/goroce/goroce/ib"
)

// Direction is the side of the link that a rule watches.
type Direction uint8

// The directions.
const (
	Send Direction = iota
	Receive
)

// Action is what a rule does to a chosen packet.
type Action uint8

// The actions.
const (
	Drop      Action = iota
	Duplicate        // passes twice
	Delay            // passes after Rule.Hold other packets of its direction
	Corrupt          // sent with a wrong ICRC; received: dropped
	MarkCE           // received: congestion experienced
	Mutate           // received: Rule.Mutate changes the bytes
)

// Rule chooses packets and says what happens to them. A zero field does not restrict the choice.
type Rule struct {
	Dir Direction
	// QP is the local QP: the sender of a sent packet, the destination of a received one.
	QP ib.QPN
	// PSN restricts the choice if HasPSN.
	PSN    ib.PSN
	HasPSN bool
	// Opcode restricts the choice if HasOpcode.
	Opcode    ib.Opcode
	HasOpcode bool
	// Iteration selects the n-th appearance of the same (QP, PSN), from 1.
	Iteration int
	// Every selects every n-th of the packets that the fields above admit.
	Every int
	// Probability selects at random among those, from Seed; 0 means all.
	Probability float64
	Seed        uint64
	// Times is how many packets the rule acts on before it ends.
	Times int

	Action Action
	// Hold is for Delay: how many packets pass first; 0 is 1.
	Hold int
	// Mutate changes a packet from the BTH through the last byte before the ICRC.
	Mutate func(p *ib.Packet, body []byte)
}

// rule is a Rule in use.
type rule struct {
	Rule
	seen     map[packetID]int
	admitted int
	hits     int
	rng      *rand.Rand
}

type packetID struct {
	qp  ib.QPN
	psn ib.PSN
}

// packetInfo is what rules examine.
type packetInfo struct {
	packetID
	opcode ib.Opcode
}

func newRule(r Rule) *rule {
	return &rule{Rule: r, seen: make(map[packetID]int), rng: rand.New(rand.NewPCG(r.Seed, 1))}
}

// choose decides whether the rule acts on a packet, and counts it.
func (r *rule) choose(p packetInfo) bool {
	switch {
	case r.QP != 0 && r.QP != p.qp,
		r.HasPSN && r.PSN != p.psn,
		r.HasOpcode && r.Opcode != p.opcode:
		return false
	}
	if r.Iteration > 0 {
		r.seen[p.packetID]++
		if r.seen[p.packetID] != r.Iteration {
			return false
		}
	}
	r.admitted++
	switch {
	case r.Every > 0 && r.admitted%r.Every != 0,
		r.Probability > 0 && r.rng.Float64() >= r.Probability,
		r.Times > 0 && r.hits >= r.Times:
		return false
	}
	r.hits++
	return true
}
