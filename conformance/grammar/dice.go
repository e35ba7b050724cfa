package grammar

import (
	"encoding/binary"
	"math/rand/v2"
)

// Dice are choices: the bytes of a fuzzer, which end, or those of a seed, which do not.
type Dice struct {
	in   []byte
	rng  *rand.PCG
	pool uint64
	left int // bytes in pool
}

// FromBytes returns the choices of a fuzzer. Behind their end all are 0.
func FromBytes(in []byte) *Dice { return &Dice{in: in} }

// FromSeed returns choices without an end.
func FromSeed(seed uint64) *Dice { return &Dice{rng: rand.NewPCG(seed, 0x676f726f6365)} }

// Done reports whether no choices are left.
func (d *Dice) Done() bool { return d.rng == nil && len(d.in) == 0 }

// Byte is any byte.
func (d *Dice) Byte() byte {
	if d.rng != nil {
		if d.left == 0 {
			d.pool, d.left = d.rng.Uint64(), 8
		}
		b := byte(d.pool)
		d.pool >>= 8
		d.left--
		return b
	}
	if len(d.in) == 0 {
		return 0
	}
	b := d.in[0]
	d.in = d.in[1:]
	return b
}

// U16, U32 and U64 are any number.
func (d *Dice) U16() uint16 { return uint16(d.Byte())<<8 | uint16(d.Byte()) }

// U32 is any number.
func (d *Dice) U32() uint32 { return uint32(d.U16())<<16 | uint32(d.U16()) }

// U64 is any number.
func (d *Dice) U64() uint64 { return uint64(d.U32())<<32 | uint64(d.U32()) }

// N is one of 0 to n-1.
func (d *Dice) N(n int) int {
	switch {
	case n <= 1:
		return 0
	case n <= 256:
		return int(d.Byte()) % n
	case n <= 1<<16:
		return int(d.U16()) % n
	}
	return int(d.U32() % uint32(n))
}

// OneIn is true once in n times.
func (d *Dice) OneIn(n int) bool { return d.N(n) == n-1 }

// fill makes the bytes of a payload, which are not choices.
func fill(b []byte, seed uint64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], seed+uint64(i)*0x9e3779b97f4a7c15)
	}
}
