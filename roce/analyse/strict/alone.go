package strict

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// Rules about what a packet says by itself.

// maxMTU is the largest path MTU, least the smallest.
const (
	maxMTU    = 4096
	leastMTU  = 256
	maxLength = 1 << 31 // of a message
)

// damage is what excuses bits that nobody may send, where no checksum says that they were sent so.
func damage(p *pcap.Packet) []Excuse {
	if p.ICRC == pcap.ICRCRight || p.ICRC == pcap.ICRCRightRxe || p.Dir == pcap.Out {
		return nil
	}
	return []Excuse{ExcuseWay}
}

// unreadable judges a packet that makes no sense.
func (c *Checker) unreadable(p *pcap.Packet) {
	if p.Cut() || len(p.Data) < ib.BTHBytes {
		return // that is the capture's fault, or nobody's RoCE
	}
	op := ib.Opcode(p.Data[0])
	w := binary.BigEndian.Uint32(p.Data[8:])
	p.DestQP, p.PSN = ib.QPN(binary.BigEndian.Uint32(p.Data[4:]))&ib.QPNMask, ib.PSN(w&ib.PSNMask)
	excuses := []Excuse{ExcuseWay}
	if p.Dir == pcap.Out {
		excuses = nil
	}
	known := op.Known()
	switch class := op >> 5; {
	case known && p.Data[1]&0x0F != 0:
		c.broke(RuleReserved, p, p.Flow.Src, excuses, "version 0 of the transport headers",
			fmt.Sprintf("version %d, %v", p.Data[1]&0x0F, op))
	case known:
		c.broke(RuleLength, p, p.Flow.Src, excuses, fmt.Sprintf("at least %d bytes for %v, its padding and the ICRC",
			int(op.Info().HeaderLen)+ib.ICRCBytes, op), fmt.Sprintf("%d bytes", p.Bytes))
	case class == 0 || class == 1 || class == 3:
		c.broke(RuleOpcode, p, p.Flow.Src, excuses, "an opcode of the table",
			fmt.Sprintf("opcode %#02x, PSN %d", uint8(op), p.PSN))
		if f := c.flow(p); f != nil && class == 0 {
			f.strange(p)
		}
	}
}

// alone judges a packet by itself.
func (c *Checker) alone(f *flow, p *pcap.Packet) {
	info := p.Opcode.Info()
	switch p.ICRC {
	case pcap.ICRCWrong:
		// What is captured on the sender may be from before the card puts the checksum in.
		if p.Dir != pcap.Out && !c.opt.Lossless {
			return // that is damage
		}
		c.broke(RuleICRC, p, p.Flow.Src, []Excuse{ExcuseCapture}, "the CRC of what the packet says",
			fmt.Sprintf("another one: %v, PSN %d", p.Opcode, p.PSN))
		return
	case pcap.ICRCRightRxe:
		c.always(RuleICRC, p, nil, "the CRC of the headers, once", "one over the transport headers twice: "+describe(p))
	}
	bad := damage(p)
	open := bad // of the byte that the ICRC does not cover
	if p.Dir != pcap.Out {
		open = []Excuse{ExcuseWay}
	}
	if p.Resv6 != 0 {
		c.broke(RuleReserved, p, p.Flow.Src, open, "zeros in the reserved bits",
			fmt.Sprintf("%#02x, %v, PSN %d", p.Resv6, p.Opcode, p.PSN))
	}
	selective := info.Transport == ib.RC && p.Resv7 == ib.Resv7Selective
	if selective {
		c.rep.Selective++
	}
	if p.Resv7 != 0 && !selective || info.Headers&ib.HasDETH != 0 && p.DETH.Resv8 != 0 {
		c.broke(RuleReserved, p, p.Flow.Src, bad, "zeros in the reserved bits",
			fmt.Sprintf("%#02x, %v, PSN %d", p.Resv7, p.Opcode, p.PSN))
	}
	if p.NoDF && p.Flow.Src.Is4() {
		c.always(RuleDF, p, bad, "Don't Fragment", "an IPv4 packet that may be fragmented: "+describe(p))
	}
	c.padding(p, bad)
	if p.PKey&0x7FFF == 0 {
		c.broke(RulePKey, p, p.Flow.Src, bad, "a partition",
			fmt.Sprintf("P_Key %#04x, the invalid one", uint16(p.PKey)))
	}
	if p.AckReq && (info.Response || info.Transport != ib.RC) && info.Transport != ib.TransportCNP {
		c.always(RuleAckReq, p, bad, "no request for an ACK: nobody answers this", describe(p))
	}
	if p.Solicited &&
		!(info.Op == ib.OpSend && info.Pos&ib.Last != 0 || info.Op == ib.OpWrite && info.Headers&ib.HasImmDt != 0) {
		c.broke(RuleSolicited, p, p.Flow.Src, bad, "no solicited event", describe(p))
	}
	switch info.Transport {
	case ib.RC, ib.UC:
		if !p.MigReq {
			e := bad
			if f == nil || !f.onlyPath() {
				e = append(e, ExcuseUnseen)
			}
			c.always(RuleMigReq, p, e, "MigReq 1, as no alternate path is loaded", "MigReq 0: "+describe(p))
		}
	case ib.UD:
		c.datagram(p, bad)
	case ib.TransportCNP:
		if !p.BECN || p.FECN || p.AckReq || p.Solicited || p.PSN != 0 || p.PayloadBytes != 0 ||
			p.CNPReserved != [ib.CNPReservedBytes]byte{} {
			c.broke(RuleCNP, p, p.Flow.Src, open, "BECN, and zeros",
				fmt.Sprintf("BECN %t, FECN %t, AckReq %t, PSN %d, %x and %d bytes", p.BECN, p.FECN, p.AckReq,
					p.PSN, p.CNPReserved, p.PayloadBytes))
		}
	}
	if info.Headers&ib.HasAETH != 0 {
		c.syndrome(p, bad)
	}
	why := wrongAlone(p, info)
	if selective && p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome == ib.NAKSequence {
		why = wrongMap(p.PayloadBytes)
	}
	if why != "" {
		r := RuleLength
		if info.Headers&ib.HasAtomicETH != 0 && p.PayloadBytes == 0 ||
			info.Op == ib.OpAtomicWrite && p.PayloadBytes == 8 && p.RETH.Len == 8 {
			r = RuleAtomic
		}
		c.broke(r, p, p.Flow.Src, bad, why, describe(p))
	}
}

func (c *Checker) padding(p *pcap.Packet, bad []Excuse) {
	if p.Bytes%4 != 0 {
		c.broke(RulePad, p, p.Flow.Src, bad, "a multiple of 4 bytes",
			fmt.Sprintf("%d bytes with a pad count of %d: %s", p.Bytes, p.Pad, describe(p)))
		return
	}
	if p.Cut() || p.Pad == 0 {
		return
	}
	end := len(p.Data) - ib.ICRCBytes
	for _, b := range p.Data[end-int(p.Pad) : end] {
		if b != 0 {
			c.broke(RulePad, p, p.Flow.Src, bad, "zeros behind the payload",
				fmt.Sprintf("%x: %s", p.Data[end-int(p.Pad):end], describe(p)))
			return
		}
	}
}

func (c *Checker) datagram(p *pcap.Packet, bad []Excuse) {
	if p.DestQP == ib.QPNGSI {
		if p.DETH.QKey != ib.QKeyGSI || p.Opcode != ib.UDSendOnly || p.PayloadBytes != mad.Bytes {
			c.broke(RuleGSI, p, p.Flow.Src, bad,
				fmt.Sprintf("%v of %d bytes, Q_Key %#x", ib.UDSendOnly, mad.Bytes, uint32(ib.QKeyGSI)),
				fmt.Sprintf("%v of %d bytes, Q_Key %#x", p.Opcode, p.PayloadBytes, uint32(p.DETH.QKey)))
		}
		return
	}
	if p.DETH.QKey&ib.QKeyControlled != 0 && p.DETH.SrcQP > 1 {
		c.always(RuleQKey, p, append(bad, ExcuseUnseen),
			"the Q_Key of the queue pair, which only the system may give one with the top bit set",
			fmt.Sprintf("Q_Key %#x from queue pair %v", uint32(p.DETH.QKey), p.DETH.SrcQP))
	}
}

func (c *Checker) syndrome(p *pcap.Packet, bad []Excuse) {
	s := p.AETH.Syndrome
	kind := s.Kind()
	switch {
	case kind == ib.SyndromeReserved || s&0x80 != 0 || kind == ib.SyndromeNAK && s > ib.NAKInvalidRDRequest:
		c.broke(RuleSyndrome, p, p.Flow.Src, bad, "a syndrome of the table",
			fmt.Sprintf("%#02x: %v, PSN %d", uint8(s), p.Opcode, p.PSN))
	case p.Opcode != ib.RCAcknowledge && kind != ib.SyndromeACK:
		c.broke(RuleSyndrome, p, p.Flow.Src, bad, "an ACK, in a packet that carries what was asked for", describe(p))
	}
}

// wrongMap says what is allowed where a sequence NAK, of a responder that repeats selectively, does
// not tell in whole words which packets it has.
func wrongMap(n int) string {
	if n%4 != 0 || n > maxMTU {
		return "a multiple of 4 bytes of payload, or none"
	}
	return ""
}

// wrongAlone says what is allowed where a request or response is wrong at any path MTU; "" if it is
// not.
func wrongAlone(p *pcap.Packet, info *ib.OpcodeInfo) string {
	n := p.PayloadBytes
	switch info.Payload {
	case ib.PayloadNone:
		if n != 0 {
			return "no payload"
		}
	case ib.PayloadFull:
		if n < leastMTU || n > maxMTU || n&(n-1) != 0 {
			return "a path MTU of payload"
		}
	case ib.PayloadOneToMTU:
		if n == 0 || n > maxMTU {
			return "1 byte to the path MTU"
		}
	case ib.PayloadUpToMTU:
		if n > maxMTU {
			return "up to the path MTU"
		}
	case ib.PayloadEight:
		if n != 8 || p.RETH.Len != 8 {
			return "8 bytes"
		}
	}
	switch {
	case info.Headers&ib.HasRETH != 0 && p.RETH.Len > maxLength:
		return "a length of 2 GiB at most"
	case info.Op == ib.OpWrite && info.Pos == ib.Only && int64(p.RETH.Len) != int64(n):
		return fmt.Sprintf("%d bytes, as the RETH says", p.RETH.Len)
	case info.Op == ib.OpWrite && info.Pos == ib.First && int64(p.RETH.Len) <= int64(n):
		return "a message of more than one packet"
	case info.Headers&ib.HasAtomicETH != 0 && p.Atomic.VA%8 != 0, info.Op == ib.OpAtomicWrite && p.RETH.VA%8 != 0:
		return "an address that is a multiple of 8"
	}
	return ""
}
