package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What rxe does when it forgets to go on, and what is somebody else's fault.
func TestStopped(t *testing.T) {
	const first, packets = psnMask - 3, 128
	requests := func(from, to int) (all []sighting) {
		for i := from; i < to; i++ {
			all = append(all, sighting{psn: uint32(first+i) & psnMask, request: true})
		}
		return all
	}
	ack := func(i int, ok bool) sighting { return sighting{psn: uint32(first+i) & psnMask, confirms: ok} }
	for name, c := range map[string]struct {
		all  []sighting
		rc   bool
		want bool
	}{
		"UC":                       {requests(0, 68), false, true},
		"UC, all sent":             {requests(0, packets), false, false},
		"UC, few":                  {requests(0, 64), false, false},
		"RC, acknowledged":         {append(requests(0, 68), ack(67, true)), true, true},
		"RC, in two steps":         {append(append(requests(0, 66), ack(65, true)), append(requests(66, 68), ack(67, true))...), true, true},
		"RC, not acknowledged":     {requests(0, 68), true, false},
		"RC, the last one was not": {append(requests(0, 68), ack(66, true)), true, false},
		"RC, refused":              {append(requests(0, 68), ack(67, false)), true, false},
		"RC, a gap":                {append(requests(0, 60), append(requests(61, 69), ack(68, true))...), true, false},
		"RC, sent again":           {append(requests(0, 68), append(requests(0, 1), ack(67, true))...), true, false},
		"RC, all sent":             {append(requests(0, packets), ack(packets-1, true)), true, false},
	} {
		require.Equal(t, c.want, stopped(c.all, first, packets, c.rc), name)
	}
}
