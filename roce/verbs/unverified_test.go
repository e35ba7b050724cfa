package verbs

import (
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/stretchr/testify/require"
)

// One end leaves the check of the ICRC to the engine, as its link has no middleware. The other
// damages one packet in sixty that it sends, requests and responses: all arrive, each byte is
// right, and what was damaged is counted.
func TestDamagedUDP(t *testing.T) {
	var faults *fault.Link
	a := newEnd(t, openDevice(t, Config{WrapLink: func(l link.Link) (link.Link, error) {
		faults = fault.New(l, fault.Rule{Action: fault.Corrupt, Every: 60})
		return faults, nil
	}}), 1<<18, QPInitAttr{})
	b := newEnd(t, openDevice(t, Config{}), 1<<18, QPInitAttr{})
	connect(t, a, b, withTimeout(17, 7))
	exercise(t, a, b, []int{0, 1, 4096, 65_536, 1 << 18})
	exercise(t, b, a, []int{0, 1, 4096, 65_536, 1 << 18})
	require.NotZero(t, b.d.Counters().DropICRC)
	require.NotZero(t, faults.Hits(0))
	require.Zero(t, a.d.Counters().DropICRC)
}
