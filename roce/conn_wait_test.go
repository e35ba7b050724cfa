package roce

import (
	"errors"
	"testing"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// lookCounter counts the looks of a connection before it waits, and the polls before them.
type lookCounter struct {
	access.Waiter[verbs.WC]
	looks, polls int
}

func (w *lookCounter) Look(wcs []verbs.WC) (int, error) {
	w.looks++
	w.polls += w.Shard().EagerPolls()
	return w.Waiter.Look(wcs)
}

// A connection that waits does not poll: a poll sends at once what was posted, which else shares
// datagrams with acknowledgements and with the messages of other connections.
func TestWaitDoesNotPoll(t *testing.T) {
	ds := openDevices(t, 2, verbs.Config{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	ctx := rocetest.Context(t)
	w := &lookCounter{Waiter: c.cqWait}
	c.cqWait = w
	done := make(chan error)
	go func() {
		for range 20 {
			m, err := s.RecvMsg(ctx)
			if err == nil {
				err = errors.Join(s.Send(ctx, []byte("pong")), m.Release())
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		require.NoError(t, c.Send(ctx, []byte("ping")))
		m, err := c.RecvMsg(ctx)
		require.NoError(t, err)
		require.NoError(t, m.Release())
	}
	require.NoError(t, <-done)
	require.NotZero(t, w.looks)
	require.Zero(t, w.polls)
}
