package matrix

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is the time between two looks at something that takes its time.
const pollEvery = 20 * time.Millisecond

// Poll looks until f is content, p (if there is one) has ended, or the time is up.
func Poll(ctx context.Context, p Process, f func() (bool, error)) error {
	var done <-chan struct{}
	if p != nil {
		done = p.Done()
	}
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-done:
			return fmt.Errorf("it has ended (%v)", p.Wait())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
