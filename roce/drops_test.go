package roce

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link/sim"
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

// Datagrams for the communication manager that find no receive buffer are counted by it.
func TestCMDatagramsWithoutBufferAreCounted(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := simDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{})
	c := peerOn(t, ds[0])
	require.NoError(t, ds[1].do(func(now int64) error {
		qp := ds[1].cm.qp
		if err := qp.Modify(now, QPAttr{State: StateReset}, AttrState); err != nil { // takes the buffers away
			return err
		}
		for _, s := range gsiStates {
			if err := qp.Modify(now, s.a, s.mask); err != nil {
				return err
			}
		}
		return nil
	}))
	clients(t, c, 5, l.Addr())
	f.RunFor(1e6)
	st := ds[1].CMCounters()
	requests, _ := st.Message(mad.AttrREQ)
	require.Zero(t, requests)
	require.EqualValues(t, 5, st.DropRecv)
	require.EqualValues(t, 5, ds[1].Counters().DropNoRecv)
}
