package ib_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// What DecodeNext leaves out is the same in both packets: it gives what Decode does.
func TestDecodeNext(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range oneOfEach(t) {
		var p, want ib.Packet
		require.Equal(t, ib.DecodeOK, p.Decode(x.udp))
		for range 10 {
			next := append([]byte(nil), x.udp...)
			for i := 8; i < len(next); i++ {
				next[i] = byte(rng.Uint32())
			}
			require.Equal(t, ib.DecodeOK, want.Decode(next))
			p.DecodeNext(next)
			require.True(t, equalPacket(want, p), "%v: want %+v, got %+v", p.Opcode, want, p)
			require.Equal(t, want.Payload, p.Payload)
			require.Equal(t, len(p.Payload), cap(p.Payload))
		}
	}
}
