package mad

import (
	"encoding/binary"
	"fmt"
)

// FieldError is a value that does not fit its field of a message.
type FieldError struct {
	Message Attribute
	Field   string
	Value   uint64 // the value, or the length in bytes of private data
	Max     uint64
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("mad: %v: %s is %d, at most %d fits", e.Message, e.Field, e.Value, e.Max)
}

// checker keeps the first value that does not fit.
type checker struct {
	message Attribute
	err     *FieldError
}

// bits checks that v fits n bits.
func (c *checker) bits(field string, v uint64, n uint) {
	if v>>n != 0 && c.err == nil {
		c.err = &FieldError{c.message, field, v, 1<<n - 1}
	}
}

// length checks that b fits n bytes.
func (c *checker) length(field string, b []byte, n int) {
	if len(b) > n && c.err == nil {
		c.err = &FieldError{c.message, field, uint64(len(b)), uint64(n)}
	}
}

// result turns the finding into an error that is nil if there is none.
func (c *checker) result() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func get24(b []byte) uint32 { return binary.BigEndian.Uint32(b) >> 8 }

// put24 writes the 24 bits of v and leaves the byte after them alone.
func put24(b []byte, v uint32) {
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

// putFill copies src to the start of dst and zeroes the rest.
func putFill(dst, src []byte) { clear(dst[copy(dst, src):]) }

// flag returns bit if b is set.
func flag(b bool, bit uint8) uint8 {
	if b {
		return bit
	}
	return 0
}
