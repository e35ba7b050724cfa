package ether

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// rocePort is the UDP destination port of RoCE v2.
const rocePort = 4791

const (
	ethLen   = 14
	ip4Len   = 20
	ip6Len   = 40
	udpLen   = 8
	bthLen   = 12
	icrcLen  = 4
	etherIP4 = 0x0800
	etherIP6 = 0x86dd

	etherVLAN = 0x8100
	etherQinQ = 0x88a8

	protoUDP = 17
)

// Packet is a decoded view of one RoCE v2 frame. It is this package's own decoder, on
// purpose not the one of the code under test.
type Packet struct {
	Frame    []byte // whole Ethernet frame, without anything after the IP packet
	Src, Dst netip.Addr
	SrcPort  uint16
	ECN      uint8 // 2 bits; 3 is CE

	Opcode    uint8
	Solicited bool
	MigReq    bool
	Pad       uint8
	PKey      uint16
	FECN      bool
	BECN      bool
	QPN       uint32 // destination QP
	AckReq    bool
	PSN       uint32

	udp int // offset of the UDP payload, which is the BTH, in Frame
	ip  int // offset of the IP header in Frame
}

// IP returns the packet from the IP header on.
func (p *Packet) IP() []byte { return p.Frame[p.ip:] }

// BTH returns the packet from the BTH to the end of the ICRC.
func (p *Packet) BTH() []byte { return p.Frame[p.udp:] }

// Body returns what follows the BTH, without the ICRC: extension headers, payload, pad.
func (p *Packet) Body() []byte { return p.Frame[p.udp+bthLen : len(p.Frame)-icrcLen] }

// Is4 reports whether the packet came over IPv4.
func (p *Packet) Is4() bool { return p.udp-p.ip == ip4Len+udpLen }

// IPClass returns the traffic class (IPv4: TOS), ECN included, and the hop limit of the IP header.
func (p *Packet) IPClass() (trafficClass, hopLimit uint8) {
	ip := p.Frame[p.ip:]
	if p.Is4() {
		return ip[1], ip[8]
	}
	return ip[0]<<4 | ip[1]>>4, ip[7]
}

// IsAck reports an ACKNOWLEDGE of the RC service; IsNAK one whose syndrome is not
// positive (RNR included).
func (p *Packet) IsAck() bool { return p.Opcode == OpAcknowledge }

// Syndrome returns the AETH's syndrome of an acknowledgement, READ response with AETH
// or atomic acknowledgement.
func (p *Packet) Syndrome() (syndrome uint8, ok bool) {
	switch p.Opcode {
	case OpReadFirst, OpReadLast, OpReadOnly, OpAcknowledge, OpAtomicAck:
		if b := p.Body(); len(b) >= 4 {
			return b[0], true
		}
	}
	return 0, false
}

// Opcodes of the BTH that tests name (RC service; UC is 0x20 more).
const (
	OpSendFirst   = 0x00
	OpSendMiddle  = 0x01
	OpSendLast    = 0x02
	OpSendLastImm = 0x03
	OpSendOnly    = 0x04
	OpSendOnlyImm = 0x05
	OpWriteFirst  = 0x06
	OpWriteMiddle = 0x07
	OpWriteLast   = 0x08
	OpWriteOnly   = 0x0a
	OpReadRequest = 0x0c
	OpReadFirst   = 0x0d
	OpReadMiddle  = 0x0e
	OpReadLast    = 0x0f
	OpReadOnly    = 0x10
	OpAcknowledge = 0x11
	OpAtomicAck   = 0x12
	OpCmpSwap     = 0x13
	OpFetchAdd    = 0x14
	OpFlush       = 0x1c
	OpAtomicWrite = 0x1d
	OpUDSendOnly  = 0x64
	OpCNP         = 0x81
)

// IsResponse reports whether an RC opcode goes from responder to requester.
func IsResponse(op uint8) bool { return op >= OpReadFirst && op <= OpAtomicAck }

// Decode returns the view of an Ethernet frame, and false if it is not a RoCE v2
// packet with a whole BTH and ICRC.
func Decode(frame []byte) (*Packet, bool) {
	if len(frame) < ethLen+ip4Len+udpLen+bthLen+icrcLen {
		return nil, false
	}
	p := &Packet{ip: ethLen}
	typ := binary.BigEndian.Uint16(frame[12:])
	for typ == etherVLAN || typ == etherQinQ {
		if len(frame) < p.ip+4+ip4Len+udpLen+bthLen+icrcLen {
			return nil, false
		}
		typ = binary.BigEndian.Uint16(frame[p.ip+2:])
		p.ip += 4
	}
	var end int
	switch typ {
	case etherIP4:
		h := frame[p.ip:]
		if h[0] != 0x45 || h[9] != protoUDP || binary.BigEndian.Uint16(h[6:])&0x3fff != 0 {
			return nil, false
		}
		end = p.ip + int(binary.BigEndian.Uint16(h[2:]))
		p.ECN = h[1] & 3
		p.Src, p.Dst = netip.AddrFrom4([4]byte(h[12:16])), netip.AddrFrom4([4]byte(h[16:20]))
		p.udp = p.ip + ip4Len + udpLen
	case etherIP6:
		h := frame[p.ip:]
		if len(h) < ip6Len || h[0]>>4 != 6 || h[6] != protoUDP {
			return nil, false
		}
		end = p.ip + ip6Len + int(binary.BigEndian.Uint16(h[4:]))
		p.ECN = h[1] >> 4 & 3
		p.Src, p.Dst = netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
		p.udp = p.ip + ip6Len + udpLen
	default:
		return nil, false
	}
	if end > len(frame) || end < p.udp+bthLen+icrcLen {
		return nil, false
	}
	u := frame[p.udp-udpLen:]
	if binary.BigEndian.Uint16(u[2:]) != rocePort || int(binary.BigEndian.Uint16(u[4:])) != end-p.udp+udpLen {
		return nil, false
	}
	p.SrcPort = binary.BigEndian.Uint16(u)
	p.Frame = frame[:end]
	b := frame[p.udp:]
	p.Opcode = b[0]
	p.Solicited, p.MigReq, p.Pad = b[1]&0x80 != 0, b[1]&0x40 != 0, b[1]>>4&3
	p.PKey = binary.BigEndian.Uint16(b[2:])
	p.FECN, p.BECN = b[4]&0x80 != 0, b[4]&0x40 != 0
	p.QPN = binary.BigEndian.Uint32(b[4:]) & 0xffffff
	p.AckReq = b[8]&0x80 != 0
	p.PSN = binary.BigEndian.Uint32(b[8:]) & 0xffffff
	return p, true
}

// ICRC computes the invariant CRC that the packet should carry (wire order: least
// significant byte first). Masked are TOS or traffic class and flow label, TTL or hop
// limit, the IP header checksum, the UDP checksum and the BTH's fifth byte.
func (p *Packet) ICRC() uint32 {
	h := make([]byte, 0, 8+ip6Len+udpLen+bthLen)
	h = append(h, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	h = append(h, p.Frame[p.ip:p.udp+bthLen]...)
	ip, udp := h[8:], h[8+p.udp-udpLen-p.ip:]
	if p.Is4() {
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff
	} else {
		ip[0] |= 0x0f
		ip[1], ip[2], ip[3], ip[7] = 0xff, 0xff, 0xff, 0xff
	}
	udp[6], udp[7] = 0xff, 0xff
	udp[udpLen+4] = 0xff
	crc := crc32.ChecksumIEEE(h)
	return crc32.Update(crc, crc32.IEEETable, p.Body())
}

// GotICRC returns the ICRC that the packet carries.
func (p *Packet) GotICRC() uint32 { return binary.LittleEndian.Uint32(p.Frame[len(p.Frame)-icrcLen:]) }

// ICRCValid reports whether the packet carries the right ICRC. For a FLUSH that is the
// specification's or rxe's: rxe 6.12 adds the transport headers a second time, unmasked,
// and neither sends nor takes another.
func (p *Packet) ICRCValid() bool {
	want := p.ICRC()
	if p.GotICRC() == want {
		return true
	}
	return p.Opcode == OpFlush &&
		p.GotICRC() == crc32.Update(want, crc32.IEEETable, p.Frame[p.udp:len(p.Frame)-icrcLen])
}

// Seal makes the packet valid again after a rewrite: ICRC, and no UDP checksum over
// IPv4 (over IPv6 the kernel's sockets refuse a missing one, so it is computed).
func (p *Packet) Seal() {
	binary.LittleEndian.PutUint32(p.Frame[len(p.Frame)-icrcLen:], p.ICRC())
	p.fixUDPChecksum()
}

func (p *Packet) fixUDPChecksum() {
	u := p.Frame[p.udp-udpLen:]
	u[6], u[7] = 0, 0
	if p.Is4() {
		return
	}
	var sum uint32
	add := func(b []byte) {
		for ; len(b) >= 2; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(p.Frame[p.ip+8 : p.ip+ip6Len])
	sum += uint32(len(u)) + protoUDP
	add(u)
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	c := ^uint16(sum)
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(u[6:], c)
}

// MarkCE sets the ECN field to Congestion Experienced, as a switch does.
func (p *Packet) MarkCE() {
	ip := p.Frame[p.ip:]
	p.ECN = 3
	if !p.Is4() {
		ip[1] |= 0x30
		return
	}
	ip[1] |= 3
	ip[10], ip[11] = 0, 0
	var sum uint32
	for i := 0; i < ip4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

// String describes the packet for logs.
func (p *Packet) String() string {
	s := fmt.Sprintf("%v>%v op=%#02x qp=%#x psn=%#x", p.Src, p.Dst, p.Opcode, p.QPN, p.PSN)
	if p.AckReq {
		s += " A"
	}
	if syn, ok := p.Syndrome(); ok {
		s += fmt.Sprintf(" syndrome=%#02x", syn)
	}
	if mad := p.describeMAD(); mad != "" {
		s += " " + mad
	}
	return s
}
