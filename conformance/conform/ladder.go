package conform

import (
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/ib"
)

// A ladder has the first and the last packets of a long exchange, within these numbers of lines. A
// run keeps those of its first failed rows.
const (
	ladderHead, ladderTail = 20, 40
	mostLadders            = 200
)

// acts are what a rule did to a packet, in words.
var acts = map[string]string{
	"drop": "lost, on purpose", "swallow": "lost, on purpose", "duplicate": "doubled, on purpose",
	"reorder": "held back, on purpose", "release": "no longer held back",
	"corrupt": "damaged, on purpose", "rewrite": "changed, on purpose", "mark-ce": "marked CE, on purpose",
	"inject": "made by the check",
}

// ladder draws the packets of a connection, with the two ends' names above.
func ladder(events []ether.Event, near, far string) string {
	if len(events) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%12s  %-10s        %s\n", "time", near, far)
	for i, e := range events {
		if left := len(events) - ladderHead - ladderTail; i == ladderHead && left > 0 {
			fmt.Fprintf(&b, "%12s  %d packets more\n", "", left)
		}
		if i >= ladderHead && i < len(events)-ladderTail {
			continue
		}
		arrow := "◀──┤"
		if e.From == switchlink.Near || e.From == "" {
			arrow = "├──▶"
		}
		if !e.Delivered() {
			arrow = strings.NewReplacer("▶", "╳", "◀", "╳").Replace(arrow)
		}
		fmt.Fprintf(&b, "%12s  %s %s", (e.At - events[0].At).Round(100*time.Nanosecond), arrow, described(e.Pkt.BTH()))
		if what := acts[e.Fate]; what != "" {
			fmt.Fprintf(&b, " (%s)", what)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// described is a packet in a line.
func described(udp []byte) string {
	var p ib.Packet
	if e := p.Decode(udp); e != ib.DecodeOK {
		return fmt.Sprintf("%d bytes that are no packet (%v)", len(udp), e)
	}
	s := fmt.Sprintf("%v to QP %v, PSN %#06x", p.Opcode, p.DestQP, uint32(p.PSN))
	switch info := p.Opcode.Info(); {
	case p.Opcode.Has(ib.HasAETH):
		s += fmt.Sprintf(", %v, MSN %d", p.AETH.Syndrome, p.AETH.MSN)
	case p.Opcode.Has(ib.HasRETH):
		s += fmt.Sprintf(", %d bytes at %#x, R_Key %#x", p.RETH.Len, p.RETH.VA, uint32(p.RETH.RKey))
	case p.Opcode.Has(ib.HasAtomicETH):
		s += fmt.Sprintf(", at %#x, R_Key %#x", p.Atomic.VA, uint32(p.Atomic.RKey))
	case info.Transport == ib.UD:
		s += fmt.Sprintf(", Q_Key %#x", uint32(p.DETH.QKey))
	}
	if len(p.Payload) > 0 {
		s += fmt.Sprintf(", payload of %d", len(p.Payload))
	}
	if p.AckReq {
		s += ", asks for an ACK"
	}
	return s
}
