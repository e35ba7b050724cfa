//go:build linux

package slots

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// Packets for slots that nobody has are counted by every device, and those of devices by none.
func TestUnheld(t *testing.T) {
	a := address()
	flood := func(slot uint8) {
		for range 50 {
			send(t, a, packet(ib.Slot{Index: slot, Bits: Bits}.QPN(5)))
		}
	}
	l := lease(t, a)
	require.Zero(t, l.Unheld())
	flood(40)
	n := l.Unheld()
	require.GreaterOrEqual(t, n, uint64(40), "all but the few that the socket keeps")
	require.LessOrEqual(t, n, uint64(50))
	m := lease(t, a)
	require.Zero(t, m.Unheld(), "since it began")
	flood(40)
	require.Equal(t, n+50, l.Unheld())
	require.EqualValues(t, 50, m.Unheld())

	flood(uint8(m.slot)) // it does not hear yet
	require.Equal(t, n+50, l.Unheld(), "not while a device has it")
	m.Close()
	require.EqualValues(t, 50, m.Unheld(), "and no more when it is closed")
	require.Equal(t, n+50, l.Unheld())
	flood(1)
	require.Equal(t, n+100, l.Unheld(), "the slot of one that has gone")
}
