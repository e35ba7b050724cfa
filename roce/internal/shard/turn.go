package shard

import "context"

// Turn is for the beginning of calls that
// may wait: if the shard is on a simulation in which goroutines take turns (see
// link.Scheduler) it returns when it is the caller's, or when quit is closed, which may be
// nil. The caller holds no mutex: others that want it would not be seen to wait. Elsewhere
// Turn does nothing.
func (s *Shard) Turn(quit <-chan struct{}) {
	if s != nil && s.sched != nil {
		s.sched.Turn(quit)
	}
}

// quitter is a context that can end in a way for which nobody has to wait: that of a call
// that another one, which waits for its end, has broken off. The other one may hold
// a mutex meanwhile.
type quitter interface {
	Quit() <-chan struct{}
}

func quitOf(ctx context.Context) <-chan struct{} {
	if q, ok := ctx.(quitter); ok {
		return q.Quit()
	}
	return nil
}

// waitTurn is Wait for such a shard. What several goroutines do at the same time happens
// in an order of its own, so that what there is to return is looked for after the
// turn was taken, when everybody else waits.
func (s *Shard) waitTurn(ctx context.Context, notify <-chan struct{}) error {
	told := false
	select {
	case <-notify:
		return nil
	default:
	}
	select {
	case <-notify:
		told = true
	case <-ctx.Done():
	case <-s.closed:
	}
	s.sched.Turn(quitOf(ctx))
	if !told {
		select {
		case <-notify:
			told = true
		default:
		}
	}
	switch {
	case told:
		return nil
	case s.Closed():
		return s.ClosedErr()
	}
	return ctx.Err()
}
