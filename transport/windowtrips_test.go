package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One short round trip with the whole window in flight shows room; long ones, and those of packets
// that left before the window grew, show nothing. Those behind the window's answers are dropped.
func TestWindowTrips(t *testing.T) {
	var f windowTrips
	f.sent(windowTrip{psn: 10, flight: 800, at: 0})
	f.sent(windowTrip{psn: 20, flight: 1000, at: 5})
	f.sent(windowTrip{psn: 30, flight: 1000, at: 10})
	require.Zero(t, f.answered(100, 10, 110), "it is not acknowledged")
	require.Equal(t, 800, f.answered(100, 11, 110))
	require.Zero(t, f.answered(200, 21, 110), "it was late")
	require.Equal(t, 1000, f.answered(120, 40, 110))
	for i := range maxWindowTrips + 5 {
		f.sent(windowTrip{psn: 50, flight: i, at: 200})
	}
	require.Equal(t, maxWindowTrips-1, f.answered(210, 51, 10), "there is no room for more")
	f.sent(windowTrip{psn: 60, flight: 1000, at: 220})
	f.forget()
	require.Zero(t, f.answered(230, 61, 110))
	(*windowTrips)(nil).forget()
}

// Packets that were timed before a timeout made the window small do not count later, when their
// PSNs have come round, or keep others from being timed.
func TestWindowTripsEndWithLargeWindow(t *testing.T) {
	sq := &requester{rtt: rttEstimate{least: 8}, trips: &windowTrips{}, win: window{size: 2000, near: 1000}}
	for range maxWindowTrips {
		sq.trips.sent(windowTrip{psn: 5, flight: 2000})
	}
	sq.win.onTimeout()
	sq.una = 10
	sq.noteRoom(1)
	sq.una, sq.win.size = 1<<23+5, 2000
	sq.trips.sent(windowTrip{psn: sq.una, flight: 2000})
	sq.noteRoom(2)
	require.False(t, sq.win.idle)
	sq.una = sq.una.Next()
	sq.noteRoom(2)
	require.True(t, sq.win.idle, "nothing was in the way of the new one")
}
