//go:build linux

package slots

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// What a parent has had is had by its child, until that disowns it.
func TestDisown(t *testing.T) {
	const service = mad.ServiceID(77)
	a := address()
	p := start(t, a, 0)
	require.Equal(t, "0", p.say("open"))
	require.Equal(t, "ok", p.say("announce 77"))
	require.Equal(t, "ok", p.say("orphan"))
	if getfdRefused(p.cmd.Process.Pid) {
		t.Skip("pidfd_getfd is not permitted here, or not known: the child keeps others out")
	}
	l := lease(t, a)
	require.NotEqual(t, 0, l.slot)
	require.ErrorIs(t, l.Announce(0, service), ErrInUse)
	require.Equal(t, "ok", p.say("disown"))
	require.NoError(t, l.Announce(0, service))
	require.False(t, l.Held(0, 0))
	// It can begin anew.
	require.NotEqual(t, "0", p.say("open"), "the slot rests")
}
