package ether

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// Match selects packets. Zero fields don't care; AnyPSN must be set to leave the PSN
// out, because 0 is one.
type Match struct {
	From     string     // name of the port where the packet entered
	Src, Dst netip.Addr // IP addresses
	QPN      uint32     // destination QP
	PSN      uint32     // 24 bits
	AnyPSN   bool
	Opcodes  []uint8              // any of these
	Func     func(p *Packet) bool // last; runs under the switch's lock
}

func (m *Match) matches(from string, p *Packet) bool {
	if m.From != "" && m.From != from ||
		m.Src.IsValid() && m.Src != p.Src ||
		m.Dst.IsValid() && m.Dst != p.Dst ||
		m.QPN != 0 && m.QPN != p.QPN ||
		!m.AnyPSN && m.PSN != p.PSN {
		return false
	}
	if len(m.Opcodes) > 0 {
		ok := false
		for _, o := range m.Opcodes {
			ok = ok || o == p.Opcode
		}
		if !ok {
			return false
		}
	}
	return m.Func == nil || m.Func(p)
}

// Kind is what a rule does.
type Kind uint8

// The kinds of faults.
const (
	Drop      Kind = iota + 1 // the packet is gone
	Duplicate                 // it goes out Copies+1 times
	Hold                      // it goes out after Behind later packets with the same addresses, or after HoldMax
	Corrupt                   // XorMask is applied to byte Offset of the RoCE packet; the ICRC stays
	Rewrite                   // Edit changes it; ICRC and checksums are made right again
	MarkCE                    // the ECN field becomes Congestion Experienced
	Observe                   // nothing: Hits counts
	// It reaches the other port, where captures see it, and no further: the host there loses it.
	Swallow
	Delay // it goes out MaxHold later, in the order in which the rule saw them
)

var kindNames = [...]string{"", "drop", "duplicate", "reorder", "corrupt", "rewrite", "mark-ce", "observe",
	"swallow", "delay"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// HoldMax bounds how long a packet is held back when nothing follows it: it must be shorter than
// the shortest retransmission timer of a test that wants reordering rather than loss.
const HoldMax = 20 * time.Millisecond

// Rule acts on chosen packets. Don't change it after Add.
type Rule struct {
	Match Match
	Nth   int // the match that it acts on first, from 1; 0 means 1
	Times int // how many matches it acts on; 0 means 1, negative means all that follow
	Kind  Kind

	Copies  int             // Duplicate: extra copies; 0 means 1
	Behind  int             // Hold: later packets to let pass; 0 means 1
	MaxHold time.Duration   // Hold: the longest; 0 means HoldMax. Delay: how long
	Offset  int             // Corrupt: byte from the BTH's start; negative from the end of the ICRC
	XorMask byte            // Corrupt: 0 means 0x01
	Edit    func(p *Packet) // Rewrite: may change bytes of Frame in place, not its length

	seen int // under the switch's lock
	hits atomic.Int64

	late []*heldFrame // Delay: under the switch's lock, the oldest first
}

// Hits returns how often the rule acted.
func (r *Rule) Hits() int { return int(r.hits.Load()) }

// wants reports whether the rule acts on p, and counts.
func (r *Rule) wants(from string, p *Packet) bool {
	if !r.Match.matches(from, p) {
		return false
	}
	r.seen++
	n, t := max(r.Nth, 1), r.Times
	if t == 0 {
		t = 1
	}
	if r.seen < n || t > 0 && r.seen >= n+t {
		return false
	}
	r.hits.Add(1)
	return true
}

func (r *Rule) corrupt(p *Packet) {
	b := p.BTH()
	o := r.Offset
	if o < 0 {
		o += len(b)
	}
	if o < 0 || o >= len(b) {
		o = len(b) - 1
	}
	m := r.XorMask
	if m == 0 {
		m = 1
	}
	b[o] ^= m
	// A UDP checksum would let the receiver's kernel find the damage first.
	p.fixUDPChecksum()
}
