package matrix

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/transport"
)

// AETH syndromes, upper three bits and NAK codes.
const (
	synNAKSeq = 0x60
	synKind   = 0xe0
	synAck    = 0x00
	psnHalf   = 1 << 23
	badSum    = "corrupt"
)

// psnDiff is a-b in 24-bit arithmetic.
func psnDiff(a, b uint32) int {
	d := int((a - b) & psnMask)
	if d >= psnHalf {
		d -= 1 << 24
	}
	return d
}

// checkTrace holds the packets of an RC connection against rules that any trace must
// satisfy (after Lumina, SIGCOMM 2023):
//
//   - each ICRC is right, except on packets that a rule damaged;
//   - L1: a sequence-error NAK names a PSN that was the first missing one when a later
//     packet arrived, and this module's responder repeats one only after a while; the PSN of
//     positive ACKs never goes back;
//   - L2: the requester sends the next PSN, or goes back to one that has been sent.
func checkTrace(c *conn, tr *wire.Trace) error {
	if n := tr.Lost(); n > 0 {
		return fmt.Errorf("trace: %d packets lost", n)
	}
	toRsp := c.rsp.p.Addr(c.family)
	expected := uint32(firstPSN) // the responder's, from what was delivered
	next := uint32(firstPSN)     // one past the highest PSN that the requester sent
	lastAck := uint32(firstPSN-1) & psnMask
	gaps := map[uint32]*gap{}
	for _, e := range tr.Events() {
		p := e.Pkt
		if e.Fate != badSum && !p.ICRCValid() {
			return fmt.Errorf("ICRC is %#08x, want %#08x: %v", p.GotICRC(), p.ICRC(), p)
		}
		if p.Dst == toRsp {
			span := uint32(1)
			if p.Opcode == wire.OpReadRequest {
				span = readSpan(c, p)
			}
			if e.Fate != "release" && psnDiff(p.PSN, next) > 0 {
				return fmt.Errorf("L2: requester skipped from PSN %#x to %v", next, p)
			}
			if end := (p.PSN + span) & psnMask; psnDiff(end, next) > 0 {
				next = end
			}
			if !e.Delivered() || e.Fate == badSum {
				continue
			}
			switch d := psnDiff(p.PSN, expected); {
			case d == 0:
				expected = (expected + span) & psnMask
			case d > 0:
				if gaps[expected] == nil {
					gaps[expected] = &gap{opened: e.At}
				}
			}
			continue
		}
		syn, ok := p.Syndrome()
		if !ok || e.Fate == badSum || e.Fate == "release" || e.Fate == "duplicate" {
			continue
		}
		switch {
		case syn == synNAKSeq:
			g := gaps[p.PSN]
			if g == nil {
				return fmt.Errorf("L1: NAK for PSN %#x, which was not the first missing one: %v", p.PSN, p)
			}
			if isGoroce(c.rsp.p) && !g.mayNAK(e.At) {
				return fmt.Errorf("L1: NAK number %d of a gap after %v: %v", g.naks, e.At-g.opened, p)
			}
		case syn&synKind == synAck && p.IsAck():
			if psnDiff(p.PSN, lastAck) < 0 {
				return fmt.Errorf("L1: ACK went back from PSN %#x to %v", lastAck, p)
			}
			if psnDiff(p.PSN, next) >= 0 {
				return fmt.Errorf("L1: ACK of a PSN that was not sent: %v", p)
			}
			lastAck = p.PSN
		}
	}
	return nil
}

// gap is a PSN that is missing.
type gap struct {
	opened time.Duration // when the wire delivered the first packet behind it
	naks   int
}

// mayNAK counts a NAK, and reports whether it was time for it. However late the responder and
// the wire come to run, a NAK is not seen before it is sent. The responder's clock is read
// once for many packets: half the time is enough.
func (g *gap) mayNAK(at time.Duration) bool {
	g.naks++
	return at-g.opened >= time.Duration(g.naks-1)*transport.DefaultSeqNAKRearmNs/2
}

// readSpan is how many PSNs a READ request takes.
func readSpan(c *conn, p *wire.Packet) uint32 {
	b := p.Body()
	if len(b) < 16 {
		return 1
	}
	n := int(b[12])<<24 | int(b[13])<<16 | int(b[14])<<8 | int(b[15])
	return uint32(c.packets(n))
}
