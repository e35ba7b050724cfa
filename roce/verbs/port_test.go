package verbs

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// A port that goes down is counted each time, and told once.
func TestLinkDownedIsCounted(t *testing.T) {
	d := openDevice(t, Config{})
	for _, up := range []bool{true, false, false, true, true, false} {
		d.s.ChangePort(link.PortState{Up: up, MTU: ib.MTU4096})
	}
	require.EqualValues(t, 2, d.Counters().LinkDowned)
	var got []EventType
	for ev, ok := d.async.pop(); ok; ev, ok = d.async.pop() {
		got = append(got, ev.Type)
	}
	require.Equal(t, []EventType{EventPortError, EventPortActive, EventPortError}, got)
}
