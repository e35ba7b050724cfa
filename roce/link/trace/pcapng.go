package trace

import (
	"encoding/binary"
	"io"
)

// The blocks of pcapng in use (draft-ietf-opsawg-pcapng): section header, one interface of raw IP
// packets, enhanced packets.
const (
	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockPacket    = 6

	byteOrderMagic = 0x1A2B3C4D
	linkTypeRaw    = 101 // LINKTYPE_RAW: begins with an IPv4 or IPv6 header

	optionEnd       = 0
	optionTsResol   = 9 // if_tsresol
	optionFlags     = 2 // epb_flags
	resolutionNanos = 9

	flagInbound  = 1
	flagOutbound = 2
)

// Writer writes packets to a pcapng file.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter writes the header of the file.
func NewWriter(w io.Writer) (*Writer, error) {
	p := &Writer{w: w, buf: make([]byte, 0, 8192)}
	p.block(blockSection, func() {
		p.u32(byteOrderMagic)
		p.u16(1) // version 1.0
		p.u16(0)
		p.u32(0xFFFFFFFF) // section length not given
		p.u32(0xFFFFFFFF)
	})
	p.block(blockInterface, func() {
		p.u16(linkTypeRaw)
		p.u16(0)
		p.u32(0) // no limit of packet lengths
		p.u16(optionTsResol)
		p.u16(1)
		p.buf = append(p.buf, resolutionNanos, 0, 0, 0)
		p.u16(optionEnd)
		p.u16(0)
	})
	_, err := w.Write(p.buf)
	return p, err
}

// Packet writes one packet: an IP packet of len(head)+len(body) bytes, at a time in nanoseconds
// since 1970.
func (p *Writer) Packet(unixNs int64, outbound bool, head, body []byte) error {
	p.buf = p.buf[:0]
	n := len(head) + len(body)
	p.block(blockPacket, func() {
		p.u32(0) // interface
		p.u32(uint32(uint64(unixNs) >> 32))
		p.u32(uint32(unixNs))
		p.u32(uint32(n))
		p.u32(uint32(n))
		p.buf = append(append(p.buf, head...), body...)
		p.buf = append(p.buf, 0, 0, 0)[:len(p.buf)+-n&3]
		p.u16(optionFlags)
		p.u16(4)
		if outbound {
			p.u32(flagOutbound)
		} else {
			p.u32(flagInbound)
		}
		p.u16(optionEnd)
		p.u16(0)
	})
	_, err := p.w.Write(p.buf)
	return err
}

func (p *Writer) u16(v uint16) { p.buf = binary.LittleEndian.AppendUint16(p.buf, v) }
func (p *Writer) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }

// block writes a block with its length before and after.
func (p *Writer) block(typ uint32, body func()) {
	start := len(p.buf)
	p.u32(typ)
	p.u32(0)
	body()
	n := uint32(len(p.buf) - start + 4)
	p.u32(n)
	binary.LittleEndian.PutUint32(p.buf[start+4:], n)
}
