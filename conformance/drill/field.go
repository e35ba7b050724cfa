package drill

import (
	"slices"

	"github.com/goroce/goroce/ib"
)

// field is a field of a packet that a script can set and compare.
type field struct {
	name string
	// in are the extended headers that hold it; 0 is every packet.
	in  ib.Headers
	key bool // names stand for keys
	get func(p *ib.Packet) uint64
	set func(p *ib.Packet, v uint64)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// fields are in the order in which a ladder shows them. PSNs are absolute here; the runner makes
// them relative.
var fields = []field{
	{"psn", 0, false, func(p *ib.Packet) uint64 { return uint64(p.PSN) },
		func(p *ib.Packet, v uint64) { p.PSN = ib.PSN(v) & ib.PSNMask }},
	{"ackreq", 0, false, func(p *ib.Packet) uint64 { return bit(p.AckReq) },
		func(p *ib.Packet, v uint64) { p.AckReq = v != 0 }},
	{"se", 0, false, func(p *ib.Packet) uint64 { return bit(p.Solicited) },
		func(p *ib.Packet, v uint64) { p.Solicited = v != 0 }},
	{"mig", 0, false, func(p *ib.Packet) uint64 { return bit(p.MigReq) },
		func(p *ib.Packet, v uint64) { p.MigReq = v != 0 }},
	{"pad", 0, false, func(p *ib.Packet) uint64 { return uint64(p.Pad) },
		func(p *ib.Packet, v uint64) { p.Pad = uint8(v) & 3 }},
	{"tver", 0, false, func(p *ib.Packet) uint64 { return uint64(p.TVer) },
		func(p *ib.Packet, v uint64) { p.TVer = uint8(v) & 15 }},
	{"pkey", 0, false, func(p *ib.Packet) uint64 { return uint64(p.PKey) },
		func(p *ib.Packet, v uint64) { p.PKey = ib.PKey(v) }},
	{"fecn", 0, false, func(p *ib.Packet) uint64 { return bit(p.FECN) },
		func(p *ib.Packet, v uint64) { p.FECN = v != 0 }},
	{"becn", 0, false, func(p *ib.Packet) uint64 { return bit(p.BECN) },
		func(p *ib.Packet, v uint64) { p.BECN = v != 0 }},
	{"resv6", 0, false, func(p *ib.Packet) uint64 { return uint64(p.Resv6) },
		func(p *ib.Packet, v uint64) { p.Resv6 = uint8(v) & 63 }},
	{"resv7", 0, false, func(p *ib.Packet) uint64 { return uint64(p.Resv7) },
		func(p *ib.Packet, v uint64) { p.Resv7 = uint8(v) & 127 }},
	{"qpn", 0, false, func(p *ib.Packet) uint64 { return uint64(p.DestQP) },
		func(p *ib.Packet, v uint64) { p.DestQP = ib.QPN(v) & ib.QPNMask }},
	{"qkey", ib.HasDETH, false, func(p *ib.Packet) uint64 { return uint64(p.DETH.QKey) },
		func(p *ib.Packet, v uint64) { p.DETH.QKey = ib.QKey(v) }},
	{"srcqp", ib.HasDETH, false, func(p *ib.Packet) uint64 { return uint64(p.DETH.SrcQP) },
		func(p *ib.Packet, v uint64) { p.DETH.SrcQP = ib.QPN(v) & ib.QPNMask }},
	{"feth", ib.HasFETH, false, func(p *ib.Packet) uint64 { return uint64(p.FETH) },
		func(p *ib.Packet, v uint64) { p.FETH = ib.FETH(v) }},
	{"va", ib.HasRETH, false, func(p *ib.Packet) uint64 { return p.RETH.VA },
		func(p *ib.Packet, v uint64) { p.RETH.VA = v }},
	{"va", ib.HasAtomicETH, false, func(p *ib.Packet) uint64 { return p.Atomic.VA },
		func(p *ib.Packet, v uint64) { p.Atomic.VA = v }},
	{"key", ib.HasRETH, true, func(p *ib.Packet) uint64 { return uint64(p.RETH.RKey) },
		func(p *ib.Packet, v uint64) { p.RETH.RKey = ib.RKey(v) }},
	{"key", ib.HasAtomicETH, true, func(p *ib.Packet) uint64 { return uint64(p.Atomic.RKey) },
		func(p *ib.Packet, v uint64) { p.Atomic.RKey = ib.RKey(v) }},
	{"dlen", ib.HasRETH, false, func(p *ib.Packet) uint64 { return uint64(p.RETH.Len) },
		func(p *ib.Packet, v uint64) { p.RETH.Len = uint32(v) }},
	{"swap", ib.HasAtomicETH, false, func(p *ib.Packet) uint64 { return p.Atomic.SwapAdd },
		func(p *ib.Packet, v uint64) { p.Atomic.SwapAdd = v }},
	{"add", ib.HasAtomicETH, false, func(p *ib.Packet) uint64 { return p.Atomic.SwapAdd },
		func(p *ib.Packet, v uint64) { p.Atomic.SwapAdd = v }},
	{"cmp", ib.HasAtomicETH, false, func(p *ib.Packet) uint64 { return p.Atomic.Compare },
		func(p *ib.Packet, v uint64) { p.Atomic.Compare = v }},
	{"syndrome", ib.HasAETH, false, func(p *ib.Packet) uint64 { return uint64(p.AETH.Syndrome) },
		func(p *ib.Packet, v uint64) { p.AETH.Syndrome = ib.Syndrome(v) }},
	{"timer", ib.HasAETH, false, func(p *ib.Packet) uint64 { return uint64(p.AETH.Syndrome) & 31 },
		func(p *ib.Packet, v uint64) { p.AETH.Syndrome = p.AETH.Syndrome&^31 | ib.Syndrome(v)&31 }},
	{"msn", ib.HasAETH, false, func(p *ib.Packet) uint64 { return uint64(p.AETH.MSN) },
		func(p *ib.Packet, v uint64) { p.AETH.MSN = ib.MSN(v) & ib.PSNMask }},
	{"value", ib.HasAtomicAckETH, false, func(p *ib.Packet) uint64 { return p.AtomicAck },
		func(p *ib.Packet, v uint64) { p.AtomicAck = v }},
	{"imm", ib.HasImmDt, false, func(p *ib.Packet) uint64 { return uint64(p.ImmDt) },
		func(p *ib.Packet, v uint64) { p.ImmDt = uint32(v) }},
	{"inv", ib.HasIETH, true, func(p *ib.Packet) uint64 { return uint64(p.IETH) },
		func(p *ib.Packet, v uint64) { p.IETH = ib.RKey(v) }},
}

// fieldOf returns the field of a name in packets of an opcode, or nil.
func fieldOf(name string, op ib.Opcode) *field {
	for i := range fields {
		if f := &fields[i]; f.name == name && (f.in == 0 || op.Has(f.in)) {
			return f
		}
	}
	return nil
}

// fieldNames are those that packets of an opcode have.
func fieldNames(op ib.Opcode) (names []string) {
	for _, f := range fields {
		if f.in == 0 || op.Has(f.in) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}
