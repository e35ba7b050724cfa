package shard

import "context"

// Wait lets a goroutine that waits for something do its part: block until
// notify, receive packets, or let simulated time pass. It returns when it is worth looking
// again, or with the error of the context or kind.Closed. tries counts the calls
// of one wait.
//
// On an event-driven shard the caller receives for itself if it is the one that all that comes is for: see solo.
func (s *Shard) Wait(ctx context.Context, notify *Signal, tries int) error {
	if s.mode == EventDriven && s.solo.is(notify) {
		if led, err := s.lead(ctx, notify); led {
			return err
		}
	}
	return s.wait(ctx, notify, notify.set, tries)
}

// wait is Wait for a caller that does not receive for itself; notify is nil for one that waits for a channel only.
func (s *Shard) wait(ctx context.Context, notify *Signal, set <-chan struct{}, tries int) error {
	switch {
	case s.mode == Polling:
		return s.waitPolling(ctx, set, tries)
	case s.sched != nil:
		return s.waitTurn(ctx, set)
	case s.mode == Driven:
		return s.waitDriven(ctx, set)
	}
	s.attendFor(notify)
	select {
	case <-set:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return s.ClosedErr()
	}
}

// WaitAny is Wait for something that may come by any of several shards of a device.
func WaitAny(shards []*Shard, ctx context.Context, notify *Signal, tries int) error {
	Attend(shards[1:])
	return shards[0].Wait(ctx, notify, tries)
}

// WaitAnyFor is WaitAny for a channel.
func WaitAnyFor(shards []*Shard, ctx context.Context, set <-chan struct{}, tries int) error {
	Attend(shards[1:])
	return shards[0].wait(ctx, nil, set, tries)
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
		s.attendFor(nil)
	}
}

// attendFor is attend, on an event-driven shard, for a caller that waits for a signal of its own, which may be nil.
func (s *Shard) attendFor(notify *Signal) {
	if !s.Background() && !s.leading.Load() && !s.solo.is(notify) {
		s.takeOver()
	}
	if s.keeper.eager.Load() != 0 {
		s.keeper.eager.Store(0)
	}
}

// Unattended has the goroutine of the shard receive, for a caller that goes away to wait by means of its own.
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
