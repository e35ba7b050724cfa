package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
)

// event is a line of a ladder.
type event struct {
	at   time.Duration
	dir  byte // '>' to the peer, '<' from it, '.' neither
	text string
	line int // of the script; 0 if none
}

// maxEvents bounds the ladder: windows have thousands of packets.
const maxEvents = 4096

func (p *player) add(e event) {
	if len(p.log) < maxEvents {
		p.log = append(p.log, e)
	}
}

// note logs what is no packet.
func (p *player) note(s *step, format string, args ...any) {
	p.add(event{p.b.Now(), '.', fmt.Sprintf(format, args...), s.at.line})
}

func (p *player) sent(s *step, d Datagram) {
	p.all = append(p.all, d)
	p.add(event{d.At, '>', p.describe(d), s.at.line})
}

func (p *player) received(d Datagram) {
	p.all = append(p.all, d)
	p.add(event{d.At, '<', p.describe(d), 0})
}

// matched notes the step that expected the packet received last.
func (p *player) matched(s *step) {
	for i := len(p.log) - 1; i >= 0; i-- {
		if e := &p.log[i]; e.dir == '<' && e.line == 0 {
			e.line = s.at.line
			return
		}
	}
}

// describe shows a packet in the words of scripts. Fields at their usual values are left out.
func (p *player) describe(d Datagram) string {
	var pk ib.Packet
	if e := pk.Decode(d.Payload); e != ib.DecodeOK {
		return fmt.Sprintf("%d bytes that are no packet (%v)", len(d.Payload), e)
	}
	if b := mad(d); b != nil && pk.DestQP == cmQPN {
		return describeCM(b)
	}
	toPeer := d.Dst.IsValid() && (d.Dst == p.b.Peer("ipv4") || d.Dst == p.b.Peer("ipv6"))
	var t strings.Builder
	t.WriteString(opText(&pk))
	q := p.endOf(&pk, toPeer)
	if q != nil && len(p.order) > 1 {
		fmt.Fprintf(&t, " qp=%s", q.name)
	}
	for i := range fields {
		f := &fields[i]
		if f.in != 0 && !pk.Opcode.Has(f.in) || f.name == "add" {
			continue
		}
		v := f.get(&pk)
		switch f.name {
		case "psn":
			if q != nil {
				fmt.Fprintf(&t, " psn=%d", ib.PSN(v).Diff(p.base(q, pk.Opcode, toPeer)))
				continue
			}
			fmt.Fprintf(&t, " psn=%#x", v)
		case "qpn", "mig", "pad", "srcqp", "syndrome", "key", "qkey":
			if f.name == "key" {
				fmt.Fprintf(&t, " key=%s", p.keyText(v))
			}
		case "va":
			fmt.Fprintf(&t, " va=%s", p.addressText(v))
		case "timer":
			if pk.AETH.Syndrome>>5 == 1 {
				fmt.Fprintf(&t, " timer=%d", v)
			}
		case "pkey":
			if pk.PKey != ib.PKeyDefault {
				fmt.Fprintf(&t, " pkey=%#x", v)
			}
		case "ackreq":
			if v != 0 {
				t.WriteString(" ack")
			}
		case "dlen", "msn":
			fmt.Fprintf(&t, " %s=%d", f.name, v)
		default:
			if v != 0 || f.in != 0 {
				fmt.Fprintf(&t, " %s=%#x", f.name, v)
			}
		}
	}
	if len(pk.Payload) > 0 {
		fmt.Fprintf(&t, " len=%d", len(pk.Payload))
	}
	if d.BadICRC {
		t.WriteString(" (wrong ICRC)")
	}
	return t.String()
}

// addressText shows an address as a script would write it.
func (p *player) addressText(v uint64) string {
	for _, name := range slices.Sorted(maps.Keys(p.regions)) {
		if m := p.regions[name]; v >= m.Addr() && v-m.Addr() < max(uint64(m.Len()), 1) {
			return fmt.Sprintf("%s+%d", name, v-m.Addr())
		}
	}
	return fmt.Sprintf("%#x", v)
}

func (p *player) keyText(v uint64) string {
	for _, name := range slices.Sorted(maps.Keys(p.regions)) {
		if uint64(p.regions[name].RKey()) == v && v != 0 {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.windows)) {
		if uint64(p.windows[name]) == v {
			return name
		}
	}
	return fmt.Sprintf("%#x", v)
}

// endOf is the drill's end of the queue pair that a packet is for or from.
func (p *player) endOf(pk *ib.Packet, toPeer bool) *end {
	for _, q := range p.order {
		if toPeer && pk.DestQP == ib.QPN(q.qp.QPN()) || !toPeer && pk.DestQP == q.qpn {
			return q
		}
	}
	return nil
}

func describeCM(b []byte) string {
	name := cmNameOf(b)
	t := "CM " + name
	for _, key := range []string{"local", "remote", "request", "reason", "sstatus", "qpn", "psn"} {
		if f := cmFieldOf(name, key); f != nil {
			t += fmt.Sprintf(" %s=%#x", key, f.get(b))
		}
	}
	return t
}

// ladder draws what happened, with the first difference at its end.
func (p *player) ladder(diff *difference) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s: %s\n", p.d.Name, p.d.Title)
	fmt.Fprintf(&t, "expected as %s; lines of %s\n\n", p.profile, p.d.File)
	fmt.Fprintf(&t, "%6s %12s  %-8s%32s%8s\n", "line", "time", "drill", "", "peer")
	for _, e := range p.log {
		line := ""
		if e.line > 0 {
			line = fmt.Sprint(e.line)
		}
		arrow := map[byte]string{'>': "├──▶", '<': "◀──┤", '.': "    "}[e.dir]
		fmt.Fprintf(&t, "%6s %12s  %s %s\n", line, e.at.Round(100*time.Nanosecond), arrow, e.text)
	}
	if len(p.log) == maxEvents {
		fmt.Fprintf(&t, "%6s %12s  and more\n", "", "")
	}
	if diff != nil {
		fmt.Fprintf(&t, "%6d %12s  ╳ %s\n", diff.at.line, "", diff.text)
		if s := find(p.d.steps, diff.at.line); s != nil {
			fmt.Fprintf(&t, "%6s %12s    expected here: %s\n", "", "", s.text)
		}
	}
	return t.String()
}

// find returns the step of a line.
func find(steps []step, line int) *step {
	for i := range steps {
		s := &steps[i]
		if s.at.line == line && s.verb != "repeat" {
			return s
		}
		if x := find(s.body, line); x != nil {
			return x
		}
	}
	return nil
}
