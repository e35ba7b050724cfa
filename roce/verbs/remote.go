package verbs

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goroce/goroce/ib"
)

// RemoteMemory names memory of the peer: what an application must know of a region to use it. How
// it gets there is up to the application; as a message of 16 bytes, for example.
type RemoteMemory struct {
	Addr uint64  // of the first byte in the peer's memory, for SendWR.RemoteAddr
	RKey ib.RKey // its key, for SendWR.RKey
	Len  uint32  // bytes
}

// RemoteMemoryBytes is the length of an encoded RemoteMemory.
const RemoteMemoryBytes = 16

// AppendBinary appends address, key and length, big-endian. (rping sends its buffers in this form.)
func (r RemoteMemory) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(r.RKey))
	return binary.BigEndian.AppendUint32(b, r.Len), nil
}

// MarshalBinary returns the 16 bytes of AppendBinary.
func (r RemoteMemory) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary reads the form of MarshalBinary; further bytes are ignored.
func (r *RemoteMemory) UnmarshalBinary(b []byte) error {
	if len(b) < RemoteMemoryBytes {
		return argError("unmarshal remote memory", "b",
			fmt.Sprintf("%d bytes, and a RemoteMemory has %d", len(b), RemoteMemoryBytes))
	}
	r.Addr = binary.BigEndian.Uint64(b)
	r.RKey = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	r.Len = binary.BigEndian.Uint32(b[12:])
	return nil
}

// Slice returns the n bytes from offset off. Like slicing, it panics if they are not within the
// memory.
func (r RemoteMemory) Slice(off, n int) RemoteMemory {
	if off < 0 || n < 0 || uint64(off)+uint64(n) > uint64(r.Len) {
		panic(fmt.Sprintf("roce: slice of %d bytes at %d of RemoteMemory of %d", n, off, r.Len))
	}
	return RemoteMemory{Addr: r.Addr + uint64(off), RKey: r.RKey, Len: uint32(n)}
}

// RemoteAt returns what a peer needs to use the n bytes from offset off.
func (mr *MR) RemoteAt(off int, n uint32) (RemoteMemory, error) {
	i := mr.get()
	if size := uint64(len(i.bytes)); off < 0 || uint64(off) > size || uint64(n) > size-uint64(off) {
		return RemoteMemory{},
			argError("remote memory", "off", fmt.Sprintf("%d bytes at %d, of a region of %d", n, off, size))
	}
	return RemoteMemory{Addr: i.addr + uint64(off), RKey: i.rkey, Len: n}, nil
}

// Remote returns what a peer needs to use the region. If the region has 4 GiB or more, it covers
// the first 4 GiB - 1 bytes, the most that Len can hold; RemoteAt names other parts.
func (mr *MR) Remote() RemoteMemory {
	i := mr.get()
	return RemoteMemory{Addr: i.addr, RKey: i.rkey, Len: uint32(min(uint64(len(i.bytes)), math.MaxUint32))}
}
