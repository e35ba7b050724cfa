package rdmacm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Peers that are gone do not answer. Only who listens right after they were told waits for them.
func TestToldIsAwaitedOnce(t *testing.T) {
	a := &agent{toldAt: 1e9}
	require.Equal(t, toldTime, a.toldLeft(1e9))
	require.Equal(t, toldTime-5*time.Millisecond, a.toldLeft(1e9+5e6))
	require.LessOrEqual(t, a.toldLeft(1e9+toldTime.Nanoseconds()), time.Duration(0))
}
