package explain

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// row is a packet on the page.
type row struct {
	src, dst                              netip.Addr
	frame, connection, operation, payload int // payload in bytes
	atNs                                  int64
	more                                  string // what else there is to say
	psn                                   ib.PSN
	msn                                   ib.MSN
	qpn                                   ib.QPN
	opcode                                ib.Opcode
	syndrome                              ib.Syndrome
	answers                               bool // it has a syndrome
	end                                   uint8
	role                                  analyse.Role
	cause                                 analyse.Cause
	flags                                 uint16
	fate                                  fate
	// Of a capture that is held against another one: what is the same there, 0 without it, and
	// where it is there.
	same, head uint64
	dir        pcap.Direction
	frame2     int
	atNs2      int64 // by the clock of the first file
}

const (
	flagAckReq    = 1
	flagSolicited = 2
	flagLate      = 4
	flagCE        = 8
	flagBadICRC   = 16
	flagTwice     = 32
	flagResponse  = 64
	flagFrom2     = 128 // sent at the end where the second file was taken
	flagChanged   = 256 // on the way
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
		more = fmt.Sprintf("0x%x, rkey 0x%x, swap or add %d, compare %d", p.Atomic.VA, uint32(p.Atomic.RKey),
			p.Atomic.SwapAdd, p.Atomic.Compare)
	case h&ib.HasAtomicAckETH != 0:
		more = fmt.Sprintf("original value %d", p.AtomicAck)
	}
	if h := p.Opcode.Info().Headers; p.Problem == "" && h&ib.HasImmDt != 0 {
		more = strings.TrimPrefix(more+fmt.Sprintf(", immediate 0x%x", p.ImmDt), ", ")
	}
	return row{src: p.Flow.Src, dst: p.Flow.Dst, frame: p.Frame, atNs: p.AtNs, connection: n.Connection,
		operation: n.Operation, payload: p.PayloadBytes, more: more, psn: p.PSN, msn: p.AETH.MSN,
		qpn: p.DestQP, opcode: p.Opcode, syndrome: p.AETH.Syndrome, answers: p.Opcode.Has(ib.HasAETH),
		end: uint8(n.End), role: n.Role, cause: n.Cause, flags: uint16(flags), dir: p.Dir}
}

// settle gives the row the connection that the report has for it, and the end that sent it. Which
// of the ends that is the analyser may not know yet when it sees the packet: a CNP before the first
// answer is from an end of whose packets none was an answer.
func (r *row) settle(rep *analyse.Report) {
	r.connection = rep.Connection(r.connection)
	if r.connection == 0 {
		return
	}
	switch ends := &rep.Connections[r.connection-1].Ends; {
	case ends[0].Addr != ends[1].Addr:
		for i := range ends {
			if r.src == ends[i].Addr {
				r.end = uint8(i)
			}
		}
	case ends[0].Known && ends[1].Known && ends[0].QPN != ends[1].QPN:
		for i := range ends {
			if r.qpn == ends[1-i].QPN {
				r.end = uint8(i)
			}
		}
	}
}

// append writes the row as the page's script reads it: an array, since there are many. Zeros at its
// end are left out.
//
//	0 frame, 0 if it is in none, 1 time (ns), 2 connection, 3 end that sent it, 4 role, 5 opcode, 6 PSN, 7 payload (bytes), 8 flags,
//	9 cause of being sent again, 10 operation, 11 syndrome or -1, 12 MSN, 13 destination QP, 14 what else there is to say, 15 fate, 16 frame of the
//	second file, 17 its time
func (r *row) append(b []byte, startNs int64) []byte {
	syndrome := int64(-1)
	if r.answers {
		syndrome = int64(r.syndrome)
	}
	for i, n := range [...]int64{int64(r.frame), r.atNs - startNs, int64(r.connection), int64(r.end),
		int64(r.role), int64(r.opcode),
		int64(r.psn), int64(r.payload), int64(r.flags), int64(r.cause), int64(r.operation), syndrome,
		int64(r.msn), int64(r.qpn)} {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendInt(b, n, 10)
	}
	more, _ := json.Marshal(r.more) // a string always can be; escapes <, > and &
	b = append(append(b, ','), more...)
	if r.fate != fateUnknown || r.frame2 != 0 {
		b = strconv.AppendInt(append(b, ','), int64(r.fate), 10)
	}
	if r.frame2 != 0 {
		b = strconv.AppendInt(append(b, ','), int64(r.frame2), 10)
		b = strconv.AppendInt(append(b, ','), r.atNs2-startNs, 10)
	}
	return append(b, ']')
}
