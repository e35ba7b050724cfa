package ib_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
)

// opcodeListing is written from the opcode tables of the specification (IBTA
// table 38, annexes A17 and A19), not from the package: code, name, headers
// after the BTH, payload, length of all headers.
const opcodeListing = `
00 RC SEND FIRST | - | =MTU | 12
01 RC SEND MIDDLE | - | =MTU | 12
02 RC SEND LAST | - | 1..MTU | 12
03 RC SEND LAST IMM | ImmDt | 1..MTU | 16
04 RC SEND ONLY | - | 0..MTU | 12
05 RC SEND ONLY IMM | ImmDt | 0..MTU | 16
06 RC WRITE FIRST | RETH | =MTU | 28
07 RC WRITE MIDDLE | - | =MTU | 12
08 RC WRITE LAST | - | 1..MTU | 12
09 RC WRITE LAST IMM | ImmDt | 1..MTU | 16
0a RC WRITE ONLY | RETH | 0..MTU | 28
0b RC WRITE ONLY IMM | RETH ImmDt | 0..MTU | 32
0c RC READ REQUEST | RETH | 0 | 28
0d RC READ RESPONSE FIRST | AETH | =MTU | 16
0e RC READ RESPONSE MIDDLE | - | =MTU | 12
0f RC READ RESPONSE LAST | AETH | 1..MTU | 16
10 RC READ RESPONSE ONLY | AETH | 0..MTU | 16
11 RC ACKNOWLEDGE | AETH | 0 | 16
12 RC ATOMIC ACKNOWLEDGE | AETH AtomicAckETH | 0 | 24
13 RC COMPARE SWAP | AtomicETH | 0 | 40
14 RC FETCH ADD | AtomicETH | 0 | 40
16 RC SEND LAST INV | IETH | 1..MTU | 16
17 RC SEND ONLY INV | IETH | 0..MTU | 16
1c RC FLUSH | FETH RETH | 0 | 32
1d RC ATOMIC WRITE | RETH | 8 | 28
20 UC SEND FIRST | - | =MTU | 12
21 UC SEND MIDDLE | - | =MTU | 12
22 UC SEND LAST | - | 1..MTU | 12
23 UC SEND LAST IMM | ImmDt | 1..MTU | 16
24 UC SEND ONLY | - | 0..MTU | 12
25 UC SEND ONLY IMM | ImmDt | 0..MTU | 16
26 UC WRITE FIRST | RETH | =MTU | 28
27 UC WRITE MIDDLE | - | =MTU | 12
28 UC WRITE LAST | - | 1..MTU | 12
29 UC WRITE LAST IMM | ImmDt | 1..MTU | 16
2a UC WRITE ONLY | RETH | 0..MTU | 28
2b UC WRITE ONLY IMM | RETH ImmDt | 0..MTU | 32
64 UD SEND ONLY | DETH | 0..MTU | 20
65 UD SEND ONLY IMM | DETH ImmDt | 0..MTU | 24
81 CNP | reserved | 0 | 28
`

func TestOpcodeTable(t *testing.T) {
	headers := map[string]ib.Headers{
		"-": 0, "DETH": ib.HasDETH, "FETH": ib.HasFETH, "RETH": ib.HasRETH, "AtomicETH": ib.HasAtomicETH,
		"AETH": ib.HasAETH, "AtomicAckETH": ib.HasAtomicAckETH, "ImmDt": ib.HasImmDt, "IETH": ib.HasIETH,
		"reserved": ib.HasCNPReserved,
	}
	// Sizes that tell the payload rules apart, at an MTU of 1024.
	const mtu = 1024
	admits := map[string]map[int]bool{
		"=MTU":   {0: false, 1: false, 8: false, 1023: false, 1024: true, 1025: false},
		"1..MTU": {0: false, 1: true, 8: true, 1023: true, 1024: true, 1025: false},
		"0..MTU": {0: true, 1: true, 8: true, 1023: true, 1024: true, 1025: false},
		"0":      {0: true, 1: false, 8: false, 1023: false, 1024: false, 1025: false},
		"8":      {0: false, 1: false, 7: false, 8: true, 9: false, 1024: false},
	}
	var listed [256]bool
	for line := range strings.SplitSeq(strings.TrimSpace(opcodeListing), "\n") {
		col := strings.Split(line, " | ")
		code, err := strconv.ParseUint(col[0][:2], 16, 8)
		if err != nil || len(col) != 4 {
			t.Fatal(line)
		}
		o, name := ib.Opcode(code), col[0][3:]
		listed[o] = true
		info := o.Info()
		if !o.Known() || o.String() != name {
			t.Errorf("%02x is %q, want %q", code, o, name)
		}
		var want ib.Headers
		for h := range strings.FieldsSeq(col[1]) {
			want |= headers[h]
		}
		if info.Headers != want || !o.Has(want) {
			t.Errorf("%v has headers %b, want %b", o, info.Headers, want)
		}
		if strconv.Itoa(int(info.HeaderLen)) != col[3] {
			t.Errorf("%v has %d bytes of headers, want %s", o, info.HeaderLen, col[3])
		}
		for n, ok := range admits[col[2]] {
			if info.Payload.Admits(n, mtu) != ok {
				t.Errorf("%v admits %d bytes: %v, want %v", o, n, !ok, ok)
			}
		}
		if _, ok := admits[col[2]]; !ok {
			t.Fatal(line)
		}
		if got := info.Transport.String(); !strings.HasPrefix(name, got) {
			t.Errorf("%v belongs to %s", o, got)
		}
		first := !strings.Contains(name, "MIDDLE") && !strings.Contains(name, "LAST")
		last := !strings.Contains(name, "MIDDLE") && !strings.Contains(name, "FIRST")
		if info.Pos&ib.First != 0 != first || info.Pos&ib.Last != 0 != last {
			t.Errorf("%v has position %b", o, info.Pos)
		}
		if response := strings.Contains(name, "RESPONSE") ||
			strings.Contains(name, "ACKNOWLEDGE"); info.Response != response {
			t.Errorf("%v is a response: %v", o, info.Response)
		}
		if op := wantOperation(name); info.Op != op {
			t.Errorf("%v is operation %d, want %d", o, info.Op, op)
		}
	}
	for o := range 256 {
		if ib.Opcode(o).Known() != listed[o] {
			t.Errorf("opcode %02x known: %v, want %v", o, !listed[o], listed[o])
		}
	}
	if s := ib.Opcode(0x15).String(); s != "opcode 0x15" {
		t.Errorf("an unknown opcode prints as %q", s)
	}
}

func wantOperation(name string) ib.Operation {
	for _, x := range []struct {
		part string
		op   ib.Operation
	}{
		{"READ RESPONSE", ib.OpReadResponse}, {"READ REQUEST", ib.OpRead}, {"ATOMIC ACK", ib.OpAtomicAck},
		{"ACK", ib.OpAcknowledge}, {"ATOMIC WRITE", ib.OpAtomicWrite}, {"WRITE", ib.OpWrite},
		{"SEND", ib.OpSend}, {"COMPARE", ib.OpCompareSwap}, {"FETCH", ib.OpFetchAdd}, {"FLUSH", ib.OpFlush},
		{"CNP", ib.OpCNP},
	} {
		if strings.Contains(name, x.part) {
			return x.op
		}
	}
	return ib.OpInvalid
}

// A rule that there is not admits nothing.
func TestNoPayloadRule(t *testing.T) {
	for _, n := range []int{0, 1, 8, 256} {
		if ib.PayloadRule(200).Admits(n, 256) {
			t.Errorf("%d bytes", n)
		}
	}
}
