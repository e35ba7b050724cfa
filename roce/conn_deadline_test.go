package roce

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// requireTimeout holds that an error is what package net makes of a deadline.
func requireTimeout(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout())
	var op *OpError
	require.ErrorAs(t, err, &op)
}

// A deadline that has passed ends calls of its kind alone, those that could go on at once, too;
// a later one lets them go on.
func TestDeadlinePassed(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		buf := make([]byte, 16)
		past := time.Unix(1, 0)
		require.NoError(t, c.Send(ctx, []byte("one")))

		require.NoError(t, s.SetReadDeadline(past))
		_, err := s.Recv(ctx, buf)
		requireTimeout(t, err)
		_, err = s.RecvMsg(ctx)
		requireTimeout(t, err)
		_, err = s.Shared(ctx)
		requireTimeout(t, err)
		requireTimeout(t, s.Wait(ctx))
		require.NoError(t, s.Send(ctx, []byte("two")), "the other kind")

		require.NoError(t, s.SetWriteDeadline(past))
		for _, err := range []error{
			s.Send(ctx, buf), s.Write(ctx, nil, RemoteMemory{}), s.Read(ctx, nil, RemoteMemory{}),
			second(s.FetchAdd(ctx, RemoteMemory{Len: 8}, 1)), second(s.StartSend(ctx)),
			second(s.Share(ctx, buf, RemoteRead)), second(s.Completion(ctx)),
		} {
			requireTimeout(t, err)
			require.NotErrorIs(t, err, ErrMaybeDone, "nothing was sent")
		}

		require.NoError(t, s.SetDeadline(time.Time{}))
		n, err := s.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "one", string(buf[:n]), "it was not lost")
		require.NoError(t, s.Send(ctx, []byte("three")))
		require.NoError(t, c.Close())
		_, err = s.Recv(ctx, buf)
		require.Equal(t, io.EOF, err)
	})
}

func second[T any](_ T, err error) error { return err }

// A deadline ends calls in progress: the one that sleeps on the completion queue and those that
// wait for it.
func TestDeadlineEndsWaiting(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	const calls = 3
	errs := make(chan error, calls)
	for range calls {
		go func() { errs <- second(s.RecvMsg(ctx)) }()
	}
	for waiting := 0; waiting < calls; {
		s.mu.Lock()
		waiting = len(s.followers)
		if s.leading {
			waiting++
		}
		s.mu.Unlock()
	}
	require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Millisecond)))
	for range calls {
		requireTimeout(t, <-errs)
	}
	// An operation that was under way may have been carried out.
	p, err := c.StartSend(ctx)
	require.NoError(t, err)
	require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
	if err := p.Wait(ctx); err != nil { // or it is complete
		requireTimeout(t, err)
		require.ErrorIs(t, err, ErrMaybeDone)
	}
}

// A deadline that is moved does not go off at its first time, whatever the timer does meanwhile.
func TestDeadlineMoved(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	for range 100 {
		require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Microsecond)))
		require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Hour)))
	}
	require.NoError(t, c.Send(ctx, []byte("x")))
	_, err := s.RecvMsg(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	err = s.SetDeadline(time.Time{})
	require.ErrorIs(t, err, net.ErrClosed)
	require.Nil(t, s.deadlines[forMessage].timer, "Close leaves no timer")
	require.True(t, errors.Is(second(s.RecvMsg(ctx)), net.ErrClosed))
	short, cancel := context.WithTimeout(ctx, time.Hour)
	cancel()
	require.ErrorIs(t, second(s.RecvMsg(short)), context.Canceled)
}
