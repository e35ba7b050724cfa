package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Answers wait for each other while many that were woken run, and are sent when the goroutine of
// the shard comes back.
func TestCrowd(t *testing.T) {
	var c crowd
	require.False(t, c.leave(), "nobody was woken")
	for range crowdSize {
		c.woke()
	}
	require.False(t, c.leave(), "the goroutine is still at work")
	c.goes()
	require.True(t, c.leave())
	require.True(t, c.leave())
	require.True(t, c.returns(), "it sends")
	require.False(t, c.returns(), "once")
	require.False(t, c.leave())
	c.goes()
	require.False(t, c.leave(), "nobody was woken since")

	for range crowdSize {
		c.woke()
	}
	c.goes()
	require.False(t, c.returns(), "nobody has left anything")

	for range crowdSize - 1 {
		c.woke()
	}
	c.goes()
	require.False(t, c.leave(), "a few do not wait for each other")
	c.woke()
	c.goes()
	require.False(t, c.leave(), "nor do those of another time")
}
