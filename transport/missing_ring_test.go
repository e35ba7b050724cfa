package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// What is known of packets stays known when there are more of them on their way than the ring has
// room for, also where PSNs wrap. With too many nothing is watched.
func TestMissingRing(t *testing.T) {
	for _, from := range []ib.PSN{100, ib.PSNMask - 40} {
		sq := &requester{una: from, end: from.Add(minKeptSlots)}
		require.True(t, sq.watchMissing())
		x := sq.miss
		require.Len(t, x.ring, minKeptSlots)
		for i := range minKeptSlots {
			x.at(from.Add(i)).order = uint32(i) + 1
		}
		sq.una, sq.end = from.Add(30), from.Add(30+3*minKeptSlots)
		require.True(t, sq.watchMissing())
		require.Len(t, x.ring, 4*minKeptSlots)
		for i := 30; i < minKeptSlots; i++ {
			require.EqualValues(t, i+1, x.at(from.Add(i)).order, "packet %d", i)
		}
		sq.una = from
		sq.end = from.Add(maxMissing)
		require.True(t, sq.watchMissing())
		require.Len(t, x.ring, maxMissing)
		sq.end = sq.end.Next()
		require.False(t, sq.watchMissing())
	}
}
