package shard

import (
	"context"
)

// Wait lets a goroutine that waits for something do its part: block until
// notify, receive packets, or let simulated time pass. It returns when it is worth looking
// again, or with the error of the context or ErrClosed. tries counts the calls
// of one wait.
func (s *Shard) Wait(ctx context.Context, notify <-chan struct{}, tries int) error {
	switch {
	case s.mode == Polling:
		return s.waitPolling(ctx, notify, tries)
	case s.sched != nil:
		return s.waitTurn(ctx, notify)
	case s.mode == Driven:
		return s.waitDriven(ctx, notify)
	}
	s.attend()
	select {
	case <-notify:
		return nil
	default:
	}
	var err error
	select {
	case <-notify:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.closed:
		err = s.ClosedErr()
	}
	s.machine.Resumed()
	return err
}

// WaitFor is Wait for a signal that is only set by what this shard receives. If what comes is for
// the caller alone it receives meanwhile: see lease.
func (s *Shard) WaitFor(ctx context.Context, sig *Signal, tries int) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	if s.Lent() {
		if done, err := s.sit(ctx, sig); done {
			return err
		}
	}
	return s.Wait(ctx, sig.C(), tries)
}

// WaitAny is Wait for something that may come by any of several shards of a device.
func WaitAny(shards []*Shard, ctx context.Context, notify <-chan struct{}, tries int) error {
	Attend(shards[1:])
	return shards[0].Wait(ctx, notify, tries)
}

// Attend does for shards what Wait does, without a wait: for who waits for them with another one.
func Attend(shards []*Shard) {
	for _, s := range shards {
		s.attend()
	}
}

// attend does what Wait does for a shard, without a wait. In a simulation there is nothing to do:
// time passes for all.
func (s *Shard) attend() {
	switch s.mode {
	case Polling:
		s.Poll(Never)
	case EventDriven:
		if !s.Lent() { // its timer looks after that
			s.Unattended()
		}
	}
}

// Unattended has the goroutine of the shard receive, for a caller that goes away to wait by means
// of its own.
func (s *Shard) Unattended() {
	if s.mode == Driven {
		return
	}
	if !s.Background() {
		s.takeOver()
	}
	if s.keeper.eager.Load() != 0 {
		s.keeper.eager.Store(0)
	}
}

func (s *Shard) waitPolling(ctx context.Context, notify <-chan struct{}, tries int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return s.ClosedErr()
	case <-notify:
	default:
		s.Poll(Never)
		if tries > 0 {
			s.GiveWay()
		}
	}
	return nil
}

func (s *Shard) waitDriven(ctx context.Context, notify <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return s.ClosedErr()
	case <-notify:
		return nil
	default:
	}
	changed := s.driven.Changed()
	if s.driven.Step() {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return s.ClosedErr()
	case <-notify:
	case <-changed:
	}
	return nil
}
