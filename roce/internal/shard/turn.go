package shard

import "context"

// Turn begins calls that may wait. On a simulation in which goroutines take turns (see
// link.Scheduler) it returns when it is the caller's turn, or when quit is closed, which may be
// nil. The caller holds no mutex, since the simulation would not see others wait for it. Elsewhere
// Turn does nothing.
func (s *Shard) Turn(quit <-chan struct{}) {
	if s != nil && s.sched != nil {
		s.sched.Turn(quit)
	}
}

// quitter is a context that can end without anybody waiting for it: the context of a call that
// another call has broken off. That other call waits for the end, and may hold a mutex meanwhile.
type quitter interface {
	Quit() <-chan struct{}
}

func quitOf(ctx context.Context) <-chan struct{} {
	if q, ok := ctx.(quitter); ok {
		return q.Quit()
	}
	return nil
}

// waitTurn is Wait for a shard whose goroutines take turns. The simulation orders what several of
// them do at the same time, so waitTurn looks for results after it has taken the turn, when all
// others wait.
func (s *Shard) waitTurn(ctx context.Context, notify <-chan struct{}) error {
	select {
	case <-notify:
		return nil
	default:
	}
	select {
	case <-notify:
		s.sched.Turn(quitOf(ctx))
		return nil
	case <-ctx.Done():
	case <-s.closed:
	}
	s.sched.Turn(quitOf(ctx))
	select {
	case <-notify:
		return nil
	default:
	}
	if s.Closed() {
		return s.ClosedErr()
	}
	return ctx.Err()
}
