package cm

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// A connection that is given up tells its peer as often as a REP could have been sent, and is
// remembered to the end of its time.
func TestFarewells(t *testing.T) {
	r := newRig(t)
	r.reach(RepSent)
	r.out()
	r.c.retryNs = r.c.timewaitNs / 10
	r.c.giveUp(r.now)
	end, rejects, want := r.c.endNs, 0, 1+r.c.farewells
	require.Greater(t, want, 1)
	for !r.c.gone {
		var p Packet
		for r.n.PollTransmit(&p) {
			if attribute(&p) == mad.AttrREJ {
				rejects++
			}
		}
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		require.LessOrEqual(t, at, end)
		r.now = at
		r.n.HandleTimeout(at)
	}
	require.Equal(t, want, rejects)
	require.Equal(t, end, r.now)
}
