package transport_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// lines returns the last n packets as text.
func (p *pair) lines(n int) []string {
	var all []string
	for _, f := range p.log[max(0, len(p.log)-n):] {
		all = append(all, f.String())
	}
	return all
}

// history returns the last n packets of the connection that f belongs to, with
// the times in microseconds at which they were sent and would arrive.
func (p *pair) history(f *flight, n int) string {
	key := connKey{1 - f.from.i, f.pkt.DestQP}
	other := connKey{f.from.i, p.conns[key].peer}
	var all []string
	for _, l := range p.log {
		if k := (connKey{1 - l.from.i, l.pkt.DestQP}); k == key || k == other {
			all = append(all, fmt.Sprintf("%10.1f..%-10.1f %v", float64(l.sent)/us, float64(l.at)/us, l))
		}
	}
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// wantWire compares the packets sent since the last look, one a line, lost
// ones included, and forgets them. Blank lines and indentation do not matter.
func (p *pair) wantWire(want string) {
	p.t.Helper()
	got := strings.Join(p.lines(len(p.log)), "\n")
	p.log = p.log[:0]
	var lines []string
	for _, l := range strings.Split(want, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	require.Equal(p.t, strings.Join(lines, "\n"), got)
}

// String prints the packet with its PSN relative to the start of its direction, as "a> SEND LAST 1
// 100B imm=0x5 A S", or as "b> ACKNOWLEDGE 1 ACK msn=1".
func (f *flight) String() string {
	var s strings.Builder
	k := &f.pkt
	info := k.Opcode.Info()
	name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(info.Name, "RC "), "UC "), "UD ")
	fmt.Fprintf(&s, "%s> %s %d", f.from.name, name, f.rel)
	if info.Payload != ib.PayloadNone {
		fmt.Fprintf(&s, " %dB", len(k.Payload))
	}
	has := k.Opcode.Has
	va := func(va uint64, rest string) {
		fmt.Fprintf(&s, " +%#x%s", va-f.from.peer().base, rest)
	}
	if has(ib.HasRETH) {
		va(k.RETH.VA, fmt.Sprintf("/%d", k.RETH.Len))
	}
	if has(ib.HasAtomicETH) {
		va(k.Atomic.VA, fmt.Sprintf(" %#x,%#x", k.Atomic.Compare, k.Atomic.SwapAdd))
	}
	if has(ib.HasFETH) {
		fmt.Fprintf(&s, " feth=%#x", uint32(k.FETH))
	}
	if has(ib.HasDETH) {
		fmt.Fprintf(&s, " qkey=%#x", uint32(k.DETH.QKey))
	}
	if has(ib.HasAETH) {
		fmt.Fprintf(&s, " %v msn=%d", k.AETH.Syndrome, k.AETH.MSN)
	}
	if has(ib.HasAtomicAckETH) {
		fmt.Fprintf(&s, " was %#x", k.AtomicAck)
	}
	if has(ib.HasImmDt) {
		fmt.Fprintf(&s, " imm=%#x", k.ImmDt)
	}
	if has(ib.HasIETH) {
		s.WriteString(" inv")
	}
	if k.AckReq {
		s.WriteString(" A")
	}
	if k.Solicited {
		s.WriteString(" S")
	}
	if f.lost {
		s.WriteString(" (lost)")
	}
	return s.String()
}

// is matches the nth sending of a packet of an end.
func (f *flight) is(from *end, op ib.Opcode, rel, nth int) bool {
	return f.from == from && f.pkt.Opcode == op && f.rel == rel && f.nth == nth
}

// lose drops the packets for which match holds.
func (p *pair) lose(match func(f *flight) bool) {
	p.onSend = func(f *flight) { f.lost = match(f) }
}

// wcString is an aid for messages.
func wcString(wcs []transport.WC) string {
	var s []string
	for _, wc := range wcs {
		s = append(s, fmt.Sprintf("%d %v op=%d len=%d", wc.ID, wc.Status, wc.Opcode, wc.ByteLen))
	}
	return strings.Join(s, "; ")
}
