package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// What a message is. Only questions are answered.
const (
	hello   = 1 // question: a token, please
	welcome = 2
	ask     = 3 // question: what did you see of this packet?
	answer  = 4
	count   = 5 // question: what did you see of the run?
	tallied = 6
)

// Flags of a question.
const (
	wantShort = 1 << iota // the answer need not be as long as the question
	wantCross             // the answer is to come to port 4791, from another port: as a packet of the peer's own
	wantQuiet             // no answer: count only
)

const (
	magic   = 0x67524470
	version = 1
)

// message is the payload of a packet. The layout is that of the struct, big-endian.
type message struct {
	Magic                     uint32
	Version, Type, Flags, TOS uint8 // TOS: with which the sender sent it
	Token                     [16]byte
	Run, Seq                  uint32
	Stamp                     int64    // the client's clock; comes back
	Src, Dst                  endpoint // as the sender has them: what the ICRC was computed for
	Seen                      seen     // in an answer: of the question
	Tally                     counts   // in an answer to count
}

type endpoint struct {
	Addr [16]byte
	Port uint16
}

// seen is what the receiver of a packet saw.
type seen struct {
	Src, Dst endpoint
	TOS, TTL uint8
	ICRC     Verdict
	Header   uint8 // 1: the IPv4 header was seen, too, and ID and NoDF are known
	NoDF     uint8
	_        uint8 // the length of a message is a multiple of 4
	ID       uint16
}

// counts are those of a run, at its receiver.
type counts struct {
	Received, Reordered, Duplicate, BadICRC, Marked uint32
}

// messageBytes is the length of a message, and packetBytes that of the shortest packet (UDP
// payload).
var (
	messageBytes = binary.Size(message{})
	packetBytes  = overhead + messageBytes
)

// overhead is what a packet has around its payload.
const overhead = ib.BTHBytes + ib.DETHBytes + ib.ICRCBytes

// Numbers that no queue pair has: a device drops the packets.
const (
	probeQPN  ib.QPN  = 0xFFFFFE
	probeQKey ib.QKey = 0x11112222
)

func endpointOf(a netip.AddrPort) endpoint { return endpoint{a.Addr().As16(), a.Port()} }

func (e endpoint) addrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(e.Addr).Unmap(), e.Port)
}

// flow is what the ICRC covers of the headers before the BTH. IPv4 packets of these sockets have
// identification 0 and the flag DF.
func flow(src, dst netip.AddrPort) ib.ICRC {
	return ib.NewICRC(ib.Flow{Src: src.Addr(), Dst: dst.Addr(), SrcPort: src.Port(), DstPort: dst.Port()})
}

// encode makes a packet of size bytes (UDP payload), or as long as it must be. What is behind the
// message is there if the size has room for it.
func (m *message) encode(buf []byte, size int, behind ...byte) []byte {
	m.Magic, m.Version = magic, version
	size = (max(size, packetBytes) + 3) &^ 3 // without padding
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, MigReq: true, PKey: ib.PKeyDefault, DestQP: probeQPN,
		PSN: ib.PSN(m.Seq & ib.PSNMask)}}
	p.DETH.QKey, p.DETH.SrcQP = probeQKey, probeQPN
	b := append(buf[:0], make([]byte, size)...)
	n := p.PutHeaders(b)
	_, _ = binary.Encode(b[n:], binary.BigEndian, m) // there is room
	if rest := b[n+messageBytes : size-ib.ICRCBytes]; len(rest) >= len(behind) {
		copy(rest, behind)
	}
	c := flow(m.Src.addrPort(), m.Dst.addrPort())
	ib.PutICRC(b[size-ib.ICRCBytes:], c.Checksum(0, b[:size-ib.ICRCBytes]))
	return b
}

// decode reads a packet; false if it is none of these.
func (m *message) decode(b []byte) bool {
	if len(b) < packetBytes || ib.Opcode(b[0]) != ib.UDSendOnly {
		return false
	}
	if _, err := binary.Decode(b[ib.BTHBytes+ib.DETHBytes:], binary.BigEndian, m); err != nil {
		return false
	}
	return m.Magic == magic && m.Version == version
}

// behind is what comes after the message in a packet that was decoded.
func behind(b []byte) []byte { return b[packetBytes-ib.ICRCBytes : len(b)-ib.ICRCBytes] }

// Verdict is what the ICRC of a packet says.
type Verdict uint8

// The verdicts.
const (
	Unseen    Verdict = iota
	Good              // right
	Rewritten         // right for the addresses and ports that the sender used, which are not those that came
	Bad               // wrong: the packet was changed
)

// String returns the word of the JSON output.
func (v Verdict) String() string {
	switch v {
	case Good:
		return "good"
	case Rewritten:
		return "rewritten"
	case Bad:
		return "bad"
	}
	return "unseen"
}

// MarshalText is for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// judge says what the ICRC of a packet is, which came from src to dst.
func (m *message) judge(b []byte, src, dst netip.AddrPort) Verdict {
	body, want := b[:len(b)-ib.ICRCBytes], ib.TrailingICRC(b)
	if c := flow(src, dst); c.Checksum(0, body) == want {
		return Good
	}
	s, d := m.Src.addrPort(), m.Dst.addrPort()
	if s.Addr().Is4() == d.Addr().Is4() {
		if c := flow(s, d); c.Checksum(0, body) == want {
			return Rewritten
		}
	}
	return Bad
}

// UnmarshalText is for programs that read the JSON.
func (v *Verdict) UnmarshalText(b []byte) error {
	for w := Unseen; w <= Bad; w++ {
		if w.String() == string(b) {
			*v = w
			return nil
		}
	}
	return fmt.Errorf("probe: verdict %q", b)
}
