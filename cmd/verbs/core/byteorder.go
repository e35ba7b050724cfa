package main

import (
	"encoding/binary"
	"math/bits"
)

// bigEndian reports the byte order of this machine.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// net32 turns a number into network byte order or back, as htonl does.
func net32(v uint32) uint32 {
	if bigEndian {
		return v
	}
	return bits.ReverseBytes32(v)
}
