package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Asynchronous events that nobody takes are counted when there are too many.
func TestLostAsyncEventsAreCounted(t *testing.T) {
	d := openDevice(t, Config{})
	for range maxAsyncEvents {
		d.async.push(Event{Type: EventPortActive})
	}
	require.Zero(t, d.Counters().LostAsyncEvents)
	for range 3 {
		d.async.push(Event{Type: EventPortError})
	}
	require.EqualValues(t, 3, d.Counters().LostAsyncEvents)
	for range maxAsyncEvents {
		ev, err := d.AsyncEvent(testContext(t))
		require.NoError(t, err)
		require.Equal(t, EventPortActive, ev.Type)
	}
	_, ok := d.async.pop()
	require.False(t, ok)
}
