package rsocket

import (
	"encoding/binary"
	"fmt"
)

// op is the operation of an immediate.
type op uint32

// The operations. 1, 2, 3 and 5 are reserved.
const (
	opData  op = 0
	opSGL   op = 4
	opIOMap op = 6
	opCtrl  op = 7
)

// Data of opCtrl.
const (
	ctrlDisconnect = 0 // both directions are over
	ctrlKeepAlive  = 1 // never seen: librdmacm sends an empty WRITE without immediate
	ctrlShutdown   = 2 // nothing more to read
)

const (
	opShift     = 29
	immDataMask = 1<<opShift - 1
)

// immediate composes the immediate of a message.
func immediate(o op, data uint32) uint32 { return uint32(o)<<opShift | data&immDataMask }

// splitImmediate is the inverse of immediate.
func splitImmediate(imm uint32) (op, uint32) { return op(imm >> opShift), imm & immDataMask }

// sge describes remote memory.
type sge struct {
	addr   uint64
	key    uint32
	length uint32
}

func (s sge) put(b []byte, o binary.ByteOrder) {
	_ = b[sgeBytes-1]
	o.PutUint64(b, s.addr)
	o.PutUint32(b[8:], s.key)
	o.PutUint32(b[12:], s.length)
}

func getSGE(b []byte, o binary.ByteOrder) sge {
	_ = b[sgeBytes-1]
	return sge{o.Uint64(b), o.Uint32(b[8:]), o.Uint32(b[12:])}
}

// iomap is a mapping: bytes offset to offset+length of the peer's name space are the memory of the
// sge.
type iomap struct {
	offset uint64
	sge    sge
}

func (m iomap) put(b []byte, o binary.ByteOrder) {
	o.PutUint64(b, m.offset)
	m.sge.put(b[8:], o)
}

func getIOMap(b []byte, o binary.ByteOrder) iomap {
	return iomap{o.Uint64(b), getSGE(b[8:], o)}
}

// find returns the place of byte off, and how many bytes follow from there.
func (m *iomap) find(off uint64) (addr uint64, n uint32, ok bool) {
	d := off - m.offset
	if off < m.offset || d >= uint64(m.sge.length) {
		return 0, 0, false
	}
	return m.sge.addr + d, m.sge.length - uint32(d), true
}

// connData is what the two sides tell each other in the private data of REQ and REP. It is
// big-endian.
type connData struct {
	// bigEndian is the byte order of the peer's writes to our list (flag NET).
	bigEndian bool
	iomap     bool   // the sender knows iomap, as all peers do
	credits   uint16 // messages that may be sent at first
	iomaps    int    // entries for mappings behind the list of grants
	list      sge    // the list of grants; its length is in entries
	data      sge    // the first grant
}

const (
	flagNet   = 1 << 0
	flagIOMap = 1 << 1
)

func (d *connData) order() binary.ByteOrder {
	if d.bigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// put encodes d.
func (d *connData) put(b *[connDataBytes]byte) {
	*b = [connDataBytes]byte{0: protocolVersion}
	if d.bigEndian {
		b[1] |= flagNet
	}
	if d.iomap {
		b[1] |= flagIOMap
	}
	binary.BigEndian.PutUint16(b[2:], d.credits)
	b[7] = scale(d.iomaps)
	d.list.put(b[8:], binary.BigEndian)
	d.data.put(b[24:], binary.BigEndian)
}

// parseConnData decodes private data of the peer, which may be followed by anything.
func parseConnData(b []byte) (connData, error) {
	if len(b) < connDataBytes {
		return connData{}, &ProtocolError{fmt.Sprintf("%d bytes of connection data, not %d", len(b), connDataBytes)}
	}
	if b[0] != protocolVersion {
		return connData{}, &ProtocolError{fmt.Sprintf("version %d of the protocol, or none at all", b[0])}
	}
	d := connData{
		bigEndian: b[1]&flagNet != 0, iomap: b[1]&flagIOMap != 0,
		credits: binary.BigEndian.Uint16(b[2:]), iomaps: unscale(b[7]),
		list: getSGE(b[8:], binary.BigEndian), data: getSGE(b[24:], binary.BigEndian),
	}
	if !d.iomap {
		d.iomaps = 0
	}
	switch {
	case d.credits == 0:
		return d, &ProtocolError{"the peer takes no messages"}
	case d.list.length == 0:
		return d, &ProtocolError{"the peer has no list of grants"}
	}
	return d, nil
}

// scale packs a count into 8 bits: up to 128 unchanged, above in units of 256.
func scale(n int) uint8 {
	if n <= 0x80 {
		return uint8(n)
	}
	return 0x80 | uint8(n>>8)
}

func unscale(v uint8) int {
	if v <= 0x80 {
		return int(v)
	}
	return int(v&0x7f) << 8
}
