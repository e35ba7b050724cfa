package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestYielder(t *testing.T) {
	var y yielder
	y.gaveWay(1000, 1500)
	require.False(t, y.crowded.Load(), "nobody else was there")
	y.gaveWay(1000, 1000+8_000)
	require.True(t, y.crowded.Load(), "a peer")
	require.Zero(t, y.backoffUntil.Load())
	y.gaveWay(20_000, 20_500)
	require.False(t, y.crowded.Load(), "it has gone")

	y.gaveWay(30_000, 30_000+8_000)
	y.gaveWay(40_000, 40_000+4_000_000)
	require.False(t, y.crowded.Load(), "somebody who used a time slice")
	require.EqualValues(t, 4_040_000+hogPauseNs, y.backoffUntil.Load())
}
