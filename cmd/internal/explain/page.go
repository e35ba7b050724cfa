package explain

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// page is the page but for its data.
//
//go:embed page.html
var page string

// row is a packet on the page: an array, since there are many.
//
//	0 frame, 1 time (ns), 2 connection, 3 end that sent it, 4 role, 5 opcode, 6 PSN, 7 payload (bytes), 8 flags,
//	9 cause of being sent again, 10 operation, 11 syndrome or -1, 12 MSN, 13 destination QP, 14 what else there is to say
type row [15]any

const (
	flagAckReq    = 1
	flagSolicited = 2
	flagLate      = 4
	flagCE        = 8
	flagBadICRC   = 16
	flagTwice     = 32
	flagResponse  = 64
)

// rowOf makes the row of a packet.
func rowOf(p *pcap.Packet, n analyse.Note) row {
	flags := 0
	set := func(on bool, f int) {
		if on {
			flags |= f
		}
	}
	set(p.AckReq, flagAckReq)
	set(p.Solicited, flagSolicited)
	set(n.Late, flagLate)
	set(p.CE(), flagCE)
	set(p.ICRC == pcap.ICRCWrong, flagBadICRC)
	set(n.Twice, flagTwice)
	set(p.Opcode.Info().Response, flagResponse)
	syndrome := -1
	if p.Opcode.Has(ib.HasAETH) {
		syndrome = int(p.AETH.Syndrome)
	}
	more := ""
	switch h := p.Opcode.Info().Headers; {
	case p.ICMP != nil:
		more = fmt.Sprintf("ICMP from %v: %v", p.ICMP.From, p.ICMP.What)
	case p.Problem != "":
		more = p.Problem
	case n.CM != 0:
		more = "CM " + n.CM.String()
	case h&ib.HasRETH != 0:
		more = fmt.Sprintf("%d bytes at 0x%x, rkey 0x%x", p.RETH.Len, p.RETH.VA, uint32(p.RETH.RKey))
	case h&ib.HasAtomicETH != 0:
		more = fmt.Sprintf("0x%x, rkey 0x%x, swap or add %d, compare %d", p.Atomic.VA, uint32(p.Atomic.RKey), p.Atomic.SwapAdd, p.Atomic.Compare)
	case h&ib.HasAtomicAckETH != 0:
		more = fmt.Sprintf("original value %d", p.AtomicAck)
	}
	if h := p.Opcode.Info().Headers; p.Problem == "" && h&ib.HasImmDt != 0 {
		more = strings.TrimPrefix(more+fmt.Sprintf(", immediate 0x%x", p.ImmDt), ", ")
	}
	return row{p.Frame, p.AtNs, n.Connection, n.End, int(n.Role), int(p.Opcode), uint32(p.PSN), p.PayloadBytes, flags,
		int(n.Cause), n.Operation, syndrome, uint32(p.AETH.MSN), uint32(p.DestQP), more}
}

// pageData is what the page's script reads.
type pageData struct {
	*explanation
	Rows      []row          `json:"rows"`
	Opcodes   map[int]string `json:"opcodes"`
	Syndromes map[int]string `json:"syndromes"`
	Causes    []string       `json:"causes"`
	Roles     []string       `json:"roles"`
}

// writePage writes the page.
func (e *explanation) writePage(w io.Writer) error {
	d := pageData{explanation: e, Rows: e.rows, Opcodes: map[int]string{}, Syndromes: map[int]string{}}
	for i := range e.rows {
		r := &e.rows[i]
		r[1] = r[1].(int64) - e.StartNs
		r[2] = e.Report.Connection(r[2].(int))
		d.Opcodes[r[5].(int)] = ib.Opcode(r[5].(int)).String()
		if s := r[11].(int); s >= 0 {
			d.Syndromes[s] = ib.Syndrome(s).String()
		}
	}
	for c := analyse.CauseNone; c <= analyse.CauseUnknown; c++ {
		d.Causes = append(d.Causes, c.String())
	}
	for r := analyse.RoleOther; r <= analyse.RoleICMP; r++ {
		d.Roles = append(d.Roles, r.String())
	}
	data, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return err
	}
	before, after, ok := strings.Cut(page, "/*DATA*/null")
	if !ok {
		return fmt.Errorf("the page has no place for its data")
	}
	before = strings.ReplaceAll(before, "{{TITLE}}", html.EscapeString(e.Name))
	for _, s := range []string{before, string(data), after} {
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return nil
}
