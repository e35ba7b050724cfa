package shard

import "context"

// Wait does the part of a goroutine that waits: it blocks until notify, receives packets, or lets
// simulated time pass. It returns when another look is worthwhile, or with the error of the context
// or ErrClosed. tries counts the calls of one wait.
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

// WaitFor is Wait for a signal that only packets of this shard set. If what comes is for the caller
// alone, the caller receives meanwhile: see lease.
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

// WaitAny is Wait for an event that any of several shards of a device may bring.
func WaitAny(shards []*Shard, ctx context.Context, notify <-chan struct{}, tries int) error {
	Attend(shards[1:])
	return shards[0].Wait(ctx, notify, tries)
}

// Attend does for shards what Wait does, but does not wait: the caller waits by means of another
// shard.
func Attend(shards []*Shard) {
	for _, s := range shards {
		s.attend()
	}
}

// attend does what Wait does for a shard, but does not wait. In a simulation it does nothing, since
// time passes for all shards.
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

// Unattended has the goroutine of the shard receive while the caller waits by other means.
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
			s.GiveWay(1)
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
