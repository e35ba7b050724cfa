package matrix

import (
	"context"
	"errors"
	"sync"
)

// faultLanes is how many rows of faults and errors are on their way at a time, each with
// sessions, memory and queue pairs of its own. They mostly wait for retransmission timers; with
// more lanes than this the guest's only CPU is what they wait for.
const faultLanes = 6

// job makes one or more rows with the sessions of a pair.
type job func(p *pair) []Row

// inLanes runs jobs with the subject in a role, at most n at a time, each lane with a pair
// of its own. The rows are reported in the order of the jobs, whichever ends first.
func (e *Env) inLanes(ctx context.Context, r role, n int, jobs []job) error {
	var (
		mu       sync.Mutex
		next     int // job to start
		reported int // jobs whose rows are in the report
		rows     = make([][]Row, len(jobs))
	)
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if next == len(jobs) || ctx.Err() != nil {
			return -1
		}
		next++
		return next - 1
	}
	done := func(i int, made []Row) {
		mu.Lock()
		defer mu.Unlock()
		rows[i] = append([]Row{}, made...) // not nil, which is a job that still runs
		for ; reported < len(rows) && rows[reported] != nil; reported++ {
			for _, row := range rows[reported] {
				e.Report.Add(row)
			}
		}
	}
	errs := make([]error, min(n, len(jobs)))
	var wg sync.WaitGroup
	for lane := range errs {
		wg.Go(func() {
			p, err := e.open(ctx, r)
			if err != nil {
				errs[lane] = err
				return
			}
			defer p.close()
			for i := take(); i >= 0; i = take() {
				var made []Row
				e.share(false, func() { made = jobs[i](p) })
				done(i, made)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}
