//go:build linux

package xdp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What goes wrong with frames is found when it happens.
func TestLedger(t *testing.T) {
	l := newLedger("sent", 3*chunkBytes, 4)
	require.NoError(t, l.move(3*chunkBytes, kernels))
	require.NoError(t, l.move(6*chunkBytes, kernels))
	require.Equal(t, 2, l.away)
	require.ErrorContains(t, l.move(6*chunkBytes, kernels), "the kernel has it", "handed over twice")
	require.NoError(t, l.move(6*chunkBytes, ours))
	require.ErrorContains(t, l.move(6*chunkBytes, ours), "this process has it", "came back twice")
	require.ErrorContains(t, l.move(4*chunkBytes, ours), "this process has it", "was never handed over")
	for _, addr := range []uint64{0, 2 * chunkBytes, 7 * chunkBytes, 1 << 63, ^uint64(0)} {
		require.ErrorContains(t, l.move(addr, kernels), "nobody has it", "%#x", addr)
	}
	require.NoError(t, l.move(3*chunkBytes, ours))
	require.Zero(t, l.away)
}

func TestModesInOrder(t *testing.T) {
	names := func(o Options, fits bool) (s []string) {
		for _, m := range o.modes(fits) {
			s = append(s, m.String())
		}
		return s
	}
	require.Equal(t, []string{
		"native zero-copy multi-buffer", "native zero-copy", "native copy multi-buffer", "native copy",
		"generic copy multi-buffer", "generic copy"}, names(Options{}, true))
	require.Equal(t, []string{
		"native zero-copy multi-buffer", "native copy multi-buffer", "generic copy multi-buffer",
		"native zero-copy", "native copy", "generic copy"}, names(Options{}, false),
		"a larger MTU is worth more than no copy")
	require.Equal(t, []string{"generic copy"}, names(Options{DisableNative: true, DisableMultiBuffer: true}, true))
	require.Equal(t, []string{"native copy", "generic copy"},
		names(Options{DisableZeroCopy: true, DisableMultiBuffer: true}, false))
}
