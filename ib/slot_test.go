package ib_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// Every number belongs to one slot, and a slot makes no others.
func TestSlot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for bits := range uint8(9) {
		for range 1000 {
			x := r.Uint32()
			s := ib.Slot{Index: uint8(uint32(r.Uint32()) & (1<<bits - 1)), Bits: bits}
			n := s.QPN(x)
			require.LessOrEqual(t, n, ib.QPN(ib.QPNMask))
			require.True(t, s.Has(n))
			require.Equal(t, x&(0xFFFFFF>>bits), uint32(n)&(0xFFFFFF>>bits))
			require.True(t, s.HasCommID(s.CommID(x)))
			require.Equal(t, x&(1<<(32-uint64(bits))-1), s.CommID(x)&(1<<(32-uint64(bits))-1))
			if bits > 0 {
				other := ib.Slot{Index: s.Index ^ 1, Bits: bits}
				require.False(t, other.HasCommID(s.CommID(x)))
				require.Equal(t, n <= 1 || n == ib.QPNMulticast, other.Has(n), "%v", n)
			}
		}
	}
	require.Equal(t, ib.QPN(0xFC0001), ib.Slot{Index: 63, Bits: 6}.QPN(1))
	require.Equal(t, ib.QPN(0xFFFFFF), ib.Slot{}.QPN(1<<32-1))
	for _, n := range []ib.QPN{0, ib.QPNGSI, ib.QPNMulticast} {
		require.True(t, ib.Slot{Index: 5, Bits: 6}.Has(n))
	}
}
