package drill

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Messages of RDMA-CM, as 256 bytes with fields at places (IBTA 12.6, 13.4.3). This is the
// drill's own view of them, on purpose not the one of the code under test (ib/mad).

const (
	madBytes  = 256
	madHeader = 24
	cmQPN     = 1
)

// cmField is a field of a message: bits of it at a bit of a byte, the most significant first.
type cmField struct {
	name   string
	byteAt int // in the datagram
	bitAt  int
	bits   int
}

// madFields are in every message.
var madFields = []cmField{
	{name: "base", byteAt: 0, bits: 8}, {name: "class", byteAt: 1, bits: 8},
	{name: "cver", byteAt: 2, bits: 8}, {name: "method", byteAt: 3, bits: 8},
	{name: "status", byteAt: 4, bits: 16}, {name: "tid", byteAt: 8, bits: 64}, {name: "attr", byteAt: 16, bits: 16},
}

// cm makes a field of a message; offsets count from the end of the header, as in the specification.
func cm(name string, at, bitAt, bits int) cmField {
	return cmField{name: name, byteAt: madHeader + at, bitAt: bitAt, bits: bits}
}

type cmMessage struct {
	attr   uint16
	fields []cmField
}

var idPair = []cmField{cm("local", 0, 0, 32), cm("remote", 4, 0, 32)}

// cmMessages are the messages that scripts can send and expect.
var cmMessages = map[string]cmMessage{
	"REQ": {0x10, []cmField{
		cm("local", 0, 0, 32), cm("service", 8, 0, 64), cm("guid", 16, 0, 64), cm("qkey", 28, 0, 32),
		cm("qpn", 32, 0, 24), cm("resources", 35, 0, 8), cm("depth", 39, 0, 8), cm("rtimeout", 43, 0, 5),
		cm("transport", 43, 5, 2), cm("flow", 43, 7, 1), cm("psn", 44, 0, 24), cm("ltimeout", 47, 0, 5),
		cm("retry", 47, 5, 3), cm("pkey", 48, 0, 16), cm("mtu", 50, 0, 4), cm("rnr", 50, 5, 3),
		cm("tries", 51, 0, 4), cm("srq", 51, 4, 1), cm("llid", 52, 0, 16), cm("rlid", 54, 0, 16),
		cm("lgid_hi", 56, 0, 64), cm("lgid_lo", 64, 0, 64), cm("rgid_hi", 72, 0, 64),
		cm("rgid_lo", 80, 0, 64), cm("hops", 93, 0, 8), cm("ack", 95, 0, 5),
		cm("cma", 140, 0, 8), cm("ipver", 141, 0, 4), cm("sport", 142, 0, 16),
		cm("src_hi", 144, 0, 64), cm("src_lo", 152, 0, 64), cm("dst_hi", 160, 0, 64), cm("dst_lo", 168, 0, 64),
	}},
	"MRA": {0x11, append(slices.Clone(idPair), cm("about", 8, 0, 2), cm("timeout", 9, 0, 5))},
	"REJ": {0x12, append(slices.Clone(idPair), cm("about", 8, 0, 2), cm("reason", 10, 0, 16))},
	"REP": {0x13, append(slices.Clone(idPair), cm("qkey", 8, 0, 32), cm("qpn", 12, 0, 24),
		cm("psn", 20, 0, 24), cm("resources", 24, 0, 8), cm("depth", 25, 0, 8),
		cm("flow", 26, 7, 1), cm("rnr", 27, 0, 3), cm("srq", 27, 3, 1), cm("guid", 28, 0, 64))},
	"RTU":  {0x14, idPair},
	"DREQ": {0x15, append(slices.Clone(idPair), cm("qpn", 8, 0, 24))},
	"DREP": {0x16, idPair},
	"SIDR_REQ": {0x17, []cmField{cm("request", 0, 0, 32), cm("pkey", 4, 0, 16), cm("service", 8, 0, 64),
		cm("cma", 16, 0, 8), cm("ipver", 17, 0, 4), cm("sport", 18, 0, 16), cm("src_hi", 20, 0, 64),
		cm("src_lo", 28, 0, 64), cm("dst_hi", 36, 0, 64), cm("dst_lo", 44, 0, 64)}},
	"SIDR_REP": {0x18, []cmField{cm("request", 0, 0, 32), cm("sstatus", 4, 0, 8), cm("qpn", 8, 0, 24),
		cm("service", 12, 0, 64), cm("qkey", 20, 0, 32)}},
}

// cmFieldOf returns the field of a name in a message, or nil.
func cmFieldOf(msg, name string) *cmField {
	for _, list := range [][]cmField{madFields, cmMessages[msg].fields} {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func cmFieldNames(msg string) (names []string) {
	for _, list := range [][]cmField{madFields, cmMessages[msg].fields} {
		for _, f := range list {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}

// cmNames are the messages in the order of their names.
func cmNames() (names []string) {
	for n := range cmMessages {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// cmNameOf names a datagram.
func cmNameOf(b []byte) string {
	attr := binary.BigEndian.Uint16(b[16:])
	for n, m := range cmMessages {
		if m.attr == attr {
			return n
		}
	}
	return fmt.Sprintf("attribute %#x", attr)
}

// get reads a field of at most 64 bits.
func (f *cmField) get(b []byte) (v uint64) {
	for i := range f.bits {
		at := f.byteAt*8 + f.bitAt + i
		v = v<<1 | uint64(b[at/8]>>(7-at%8)&1)
	}
	return v
}

func (f *cmField) set(b []byte, v uint64) {
	for i := range f.bits {
		at := f.byteAt*8 + f.bitAt + i
		mask := byte(1) << (7 - at%8)
		b[at/8] &^= mask
		if v>>(f.bits-1-i)&1 != 0 {
			b[at/8] |= mask
		}
	}
}
