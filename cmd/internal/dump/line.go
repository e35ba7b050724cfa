package dump

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// line is a packet on one line: when, from whom to whom, what.
func line(p *pcap.Packet) string { return string(appendLine(nil, p)) }

// appendLine appends the line of a packet. It formats nothing by reflection: dump has to keep up
// with a link.
func appendLine(b []byte, p *pcap.Packet) []byte {
	b = appendTime(b, p.AtNs)
	b = append(p.Flow.Src.AppendTo(append(b, ' ')), " > "...)
	b = append(p.Flow.Dst.AppendTo(b), ' ')
	if p.ICMP != nil {
		b = fmt.Appendf(b, "ICMP from %v: %v", p.ICMP.From, p.ICMP.What)
		if p.ICMP.What == pcap.TooBig {
			b = fmt.Appendf(b, ", %d bytes fit", p.ICMP.MTU)
		}
		if p.ICMP.HasBTH {
			b = fmt.Appendf(b, ", about %v qp %v psn %d", p.Opcode, p.DestQP, p.PSN)
		}
		return b
	}
	if p.Problem != "" {
		return fmt.Appendf(b, "%d bytes: %s", p.Bytes, p.Problem)
	}
	num := func(before string, n uint64) { b = strconv.AppendUint(append(b, before...), n, 10) }
	hex := func(before string, n uint64) { b = strconv.AppendUint(append(append(b, before...), "0x"...), n, 16) }
	b = append(append(b, p.Opcode.String()...), " qp "...)
	b = appendQPN(b, p.DestQP)
	num(" psn ", uint64(p.PSN))
	h := p.Opcode.Info().Headers
	if h&ib.HasDETH != 0 {
		b = appendQPN(append(b, " from qp "...), p.DETH.SrcQP)
	}
	if h&ib.HasRETH != 0 {
		hex(" va ", p.RETH.VA)
		hex(" rkey ", uint64(p.RETH.RKey))
		num(" len ", uint64(p.RETH.Len))
	}
	if h&ib.HasAtomicETH != 0 {
		hex(" va ", p.Atomic.VA)
		hex(" rkey ", uint64(p.Atomic.RKey))
		num(" swap/add ", p.Atomic.SwapAdd)
		num(" compare ", p.Atomic.Compare)
	}
	if h&ib.HasAETH != 0 {
		b = append(append(b, ' '), p.AETH.Syndrome.String()...)
		num(" msn ", uint64(p.AETH.MSN))
	}
	if h&ib.HasAtomicAckETH != 0 {
		num(" original ", p.AtomicAck)
	}
	if h&ib.HasImmDt != 0 {
		hex(" imm ", uint64(p.ImmDt))
	}
	if h&ib.HasIETH != 0 {
		hex(" invalidate ", uint64(p.IETH))
	}
	if m, ok := message(p); ok {
		b = append(append(b, " CM "...), m...)
	}
	if p.PayloadBytes > 0 {
		num(" ", uint64(p.PayloadBytes))
		b = append(b, " bytes"...)
	}
	each(p, func(f string) { b = append(append(b, ' '), f...) })
	return b
}

// appendQPN is QPN.String.
func appendQPN(b []byte, q ib.QPN) []byte {
	const digits = "0123456789abcdef"
	b = append(b, "0x"...)
	for shift := 20; shift >= 0; shift -= 4 {
		b = append(b, digits[q>>shift&15])
	}
	return b
}

// appendTime appends the time of the day, to the nanosecond.
func appendTime(b []byte, ns int64) []byte {
	t := time.Unix(0, ns).UTC()
	h, m, s := t.Clock()
	for i, n := range [...]int{h, m, s} {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, '0'+byte(n/10), '0'+byte(n%10))
	}
	b = append(b, '.')
	n := t.Nanosecond()
	for unit := 100_000_000; unit > 0; unit /= 10 {
		b = append(b, '0'+byte(n/unit%10))
	}
	return b
}

// flags are what is remarkable of a packet.
func flags(p *pcap.Packet) (all []string) {
	each(p, func(f string) { all = append(all, f) })
	return all
}

func each(p *pcap.Packet, f func(flag string)) {
	for _, x := range [...]struct {
		on   bool
		name string
	}{
		{p.AckReq, "ackreq"}, {p.Solicited, "solicited"}, {p.FECN, "fecn"}, {p.BECN, "becn"}, {p.CE(), "CE"},
		{p.Cut(), "cut"}, {p.Resv7 == ib.Resv7Selective, "selective"},
		{p.ICRC == pcap.ICRCWrong, "ICRC-WRONG"},
	} {
		if x.on {
			f(x.name)
		}
	}
}

// message is the message of RDMA-CM that a packet carries.
func message(p *pcap.Packet) (string, bool) {
	if p.DestQP != ib.QPNGSI || !p.Opcode.Has(ib.HasDETH) || p.Cut() {
		return "", false
	}
	var h mad.Header
	d, err := mad.Parse(p.Payload, &h)
	if err != mad.OK || h.Class != mad.ClassCM {
		return "", false
	}
	switch h.Attribute {
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(d)
		return fmt.Sprintf("REQ id 0x%x service %v qp %v psn %d mtu %v retries %d rnr %d", uint32(m.LocalCommID),
			m.ServiceID, m.QPN, m.StartingPSN, m.MTU, m.RetryCount, m.RNRRetryCount), true
	case mad.AttrREP:
		var m mad.REP
		m.Decode(d)
		return fmt.Sprintf("REP id 0x%x to 0x%x qp %v psn %d rnr %d", uint32(m.LocalCommID),
			uint32(m.RemoteCommID), m.QPN, m.StartingPSN, m.RNRRetryCount), true
	case mad.AttrREJ:
		var m mad.REJ
		m.Decode(d)
		return fmt.Sprintf("REJ id 0x%x to 0x%x: %v", uint32(m.LocalCommID), uint32(m.RemoteCommID), m.Reason), true
	case mad.AttrDREQ:
		var m mad.DREQ
		m.Decode(d)
		to := m.RemoteQPN.String()
		if m.RemoteQPN == mad.NobodysQPN {
			to = "of nobody, which asks"
		}
		return fmt.Sprintf("DREQ id 0x%x to 0x%x qp %v", uint32(m.LocalCommID), uint32(m.RemoteCommID), to), true
	case mad.AttrSIDRReq:
		var m mad.SIDRReq
		m.Decode(d)
		return fmt.Sprintf("SIDR_REQ id 0x%x service %v", m.RequestID, m.ServiceID), true
	case mad.AttrSIDRRep:
		var m mad.SIDRRep
		m.Decode(d)
		return fmt.Sprintf("SIDR_REP id 0x%x qp %v: %v", m.RequestID, m.QPN, m.Status), true
	}
	return fmt.Sprintf("%v id 0x%x to 0x%x", h.Attribute, be32(d[0:]), be32(d[4:])), true
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// field is a field of a header.
type field struct {
	name  string
	value any
}

// header is a header of a packet, for -v and --json.
type header struct {
	name   string
	fields []field
}

// headers are all headers of a packet, field by field; with every, also what is 0 in all proper
// packets, and the value of the ICRC: bits and bytes as they are on the wire.
func headers(p *pcap.Packet, every bool) (all []header) {
	add := func(name string, kv ...any) {
		h := header{name: name}
		for i := 0; i+1 < len(kv); i += 2 {
			h.fields = append(h.fields, field{kv[i].(string), kv[i+1]})
		}
		all = append(all, h)
	}
	x := func(v uint64) string { return fmt.Sprintf("0x%x", v) }
	if p.Tagged {
		add("vlan", "id", p.VLAN, "priority", p.Priority)
	}
	ip := []any{"src", p.Flow.Src, "dst", p.Flow.Dst, "dscp", p.TrafficClass >> 2, "ecn", p.TrafficClass & 3,
		"hop_limit", p.HopLimit}
	if p.Flow.Src.Is4() {
		ip = append(ip, "identification", p.Ident, "df", !p.NoDF)
	} else {
		ip = append(ip, "flow_label", p.FlowLabel)
	}
	add("ip", ip...)
	add("udp", "src_port", p.Flow.SrcPort, "dst_port", p.Flow.DstPort, "bytes", p.Bytes)
	if p.Problem != "" || p.ICMP != nil {
		if every && len(p.Data) >= ib.BTHBytes {
			add("bth", "opcode", x(uint64(p.Data[0])), "tver", p.Data[1]&0x0F, "resv6", p.Data[4]&0x3F,
				"dest_qp", ib.QPN(be32(p.Data[4:]))&ib.QPNMask, "resv7", p.Data[8]&0x7F, "psn",
				be32(p.Data[8:])&ib.PSNMask)
		}
		return all
	}
	add("bth", "opcode", p.Opcode.String(), "solicited", p.Solicited, "migreq", p.MigReq, "pad", p.Pad,
		"pkey", x(uint64(p.PKey)), "fecn", p.FECN, "becn", p.BECN, "dest_qp", p.DestQP, "ackreq", p.AckReq,
		"psn", uint32(p.PSN), "selective", p.Resv7 == ib.Resv7Selective)
	also := func(kv ...any) {
		for i := 0; every && i+1 < len(kv); i += 2 {
			h := &all[len(all)-1]
			h.fields = append(h.fields, field{kv[i].(string), kv[i+1]})
		}
	}
	also("tver", p.TVer, "resv6", x(uint64(p.Resv6)), "resv7", x(uint64(p.Resv7)))
	h := p.Opcode.Info().Headers
	if h&ib.HasDETH != 0 {
		add("deth", "qkey", x(uint64(p.DETH.QKey)), "src_qp", p.DETH.SrcQP)
		also("resv8", x(uint64(p.Data[ib.BTHBytes+4])))
	}
	if h&ib.HasFETH != 0 {
		add("feth", "placement", uint32(p.FETH&3), "selectivity", uint32(p.FETH>>4&3))
	}
	if h&ib.HasRETH != 0 {
		add("reth", "va", x(p.RETH.VA), "rkey", x(uint64(p.RETH.RKey)), "length", p.RETH.Len)
	}
	if h&ib.HasAtomicETH != 0 {
		add("atomiceth", "va", x(p.Atomic.VA), "rkey", x(uint64(p.Atomic.RKey)), "swap_add", p.Atomic.SwapAdd,
			"compare", p.Atomic.Compare)
	}
	if h&ib.HasAETH != 0 {
		add("aeth", "syndrome", p.AETH.Syndrome.String(), "msn", uint32(p.AETH.MSN))
	}
	if h&ib.HasAtomicAckETH != 0 {
		add("atomicacketh", "original", p.AtomicAck)
	}
	if h&ib.HasImmDt != 0 {
		add("immdt", "immediate", x(uint64(p.ImmDt)))
	}
	if h&ib.HasIETH != 0 {
		add("ieth", "rkey", x(uint64(p.IETH)))
	}
	if m, ok := message(p); ok {
		add("cm", "message", m)
	}
	add("payload", "bytes", p.PayloadBytes)
	add("icrc", "state", p.ICRC.String())
	if n := len(p.Data); every && !p.Cut() && n >= ib.ICRCBytes {
		also("value", fmt.Sprintf("0x%08x", be32(p.Data[n-ib.ICRCBytes:])), "computed",
			fmt.Sprintf("0x%08x", computedICRC(p)))
	}
	return all
}

// computedICRC is what the ICRC of a packet should be, for the IPv4 identification that its frame
// has: its bytes, as they are on the wire.
func computedICRC(p *pcap.Packet) uint32 {
	c := ib.NewICRC(p.Flow)
	if p.NoDF && p.Flow.Src.Is4() {
		c = c.WithoutDF()
	}
	var b [ib.ICRCBytes]byte
	ib.PutICRC(b[:], c.Checksum(p.Ident+uint16(p.Part), p.Data[:len(p.Data)-ib.ICRCBytes]))
	return be32(b[:])
}

// details are the headers, one a line.
func details(p *pcap.Packet, every bool) string {
	var b strings.Builder
	for _, h := range headers(p, every) {
		fmt.Fprintf(&b, "    %-13s", h.name)
		for _, f := range h.fields {
			fmt.Fprintf(&b, " %s=%v", f.name, f.value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// record is what --json prints of a packet.
type record struct {
	Frame   int                       `json:"frame"`
	Part    int                       `json:"part,omitempty"`
	TimeNs  int64                     `json:"time_ns"`
	Dir     string                    `json:"direction,omitempty"`
	Tunnel  string                    `json:"tunnel,omitempty"`
	Src     netip.Addr                `json:"src"`
	Dst     netip.Addr                `json:"dst"`
	Summary string                    `json:"summary"`
	Headers map[string]map[string]any `json:"headers"`
	Flags   []string                  `json:"flags,omitempty"`
	Problem string                    `json:"problem,omitempty"`
}

func recordOf(p *pcap.Packet, every bool) record {
	r := record{
		Frame: p.Frame, Part: p.Part, TimeNs: p.AtNs, Dir: p.Dir.String(), Tunnel: p.Tunnel, Src: p.Flow.Src,
		Dst: p.Flow.Dst, Summary: line(p), Headers: map[string]map[string]any{}, Flags: flags(p), Problem: p.Problem,
	}
	for _, h := range headers(p, every) {
		m := map[string]any{}
		for _, f := range h.fields {
			m[f.name] = f.value
		}
		r.Headers[h.name] = m
	}
	return r
}
