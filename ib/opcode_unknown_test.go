package ib_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// Whatever its length, a packet with an opcode that is not in the table is none.
func TestDecodeUnknownOpcode(t *testing.T) {
	b := make([]byte, 256)
	unknown := 0
	for op := range 256 {
		b[0] = byte(op)
		var p ib.Packet
		err := p.Decode(b)
		if ib.Opcode(op).Info().HeaderLen == 0 {
			unknown++
			require.Equal(t, ib.ErrUnknownOpcode, err, "%#x", op)
			require.Equal(t, ib.ErrUnknownOpcode, p.Decode(b[:ib.BTHBytes]), "%#x", op)
		} else {
			require.NotEqual(t, ib.ErrUnknownOpcode, err, "%#x", op)
		}
	}
	require.Greater(t, unknown, 128)
}
