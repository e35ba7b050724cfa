package drill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A machine that stops while a drill waits for the peer stops the peer, too: what is left is for
// what the peer does when both go on.
func TestPatienceOutlastsStall(t *testing.T) {
	p := patience(DefaultWithin)
	require.Equal(t, turnMost, p.turn())
	p.took(time.Minute)
	require.False(t, p.over(), "a stall is one turn")
	for range int(DefaultWithin/turnMost) - 1 {
		require.False(t, p.over())
		p.took(p.turn())
	}
	require.True(t, p.over(), "all turns were waited for")

	p = patience(60 * time.Millisecond)
	require.Equal(t, 60*time.Millisecond, p.turn())
	p.took(20 * time.Millisecond)
	require.Equal(t, 40*time.Millisecond, p.turn(), "what done has waited for counts")
	p.took(time.Second)
	require.True(t, p.over())
	require.Zero(t, p.turn())
}
