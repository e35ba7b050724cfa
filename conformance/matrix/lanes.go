package matrix

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/goroce/goroce/conformance/peer"
)

// faultLanes is how many rows of faults and errors are on their way at a time, each with
// sessions, memory and queue pairs of its own. They mostly wait for retransmission timers; with
// more lanes than this a guest's only CPU is what they wait for.
const faultLanes = 6

// job makes one or more rows with the sessions of a pair.
type job struct {
	// rows are those that it makes, without their results.
	rows []Row
	run  func(p *pair) []Row
	// blind is set if the rows need nothing of the wire: see Env.Blind.
	blind bool
}

// oneRow is a job for a single row. What run leaves in the row beside the result is kept.
func oneRow(row Row, run func(p *pair, row *Row) error) job {
	return job{rows: []Row{row}, run: func(p *pair) []Row {
		made := row
		err := run(p, &made)
		if made.Result == Skip {
			return []Row{made}
		}
		return []Row{made.ended(err)}
	}}
}

// chosen are the jobs with rows that were asked for.
func (e *Env) chosen(jobs []job) []job {
	if e.Choose == nil {
		return jobs
	}
	var out []job
	for _, j := range jobs {
		var rows []Row
		for _, row := range j.rows {
			if e.Choose(row) {
				rows = append(rows, row)
			}
		}
		if len(rows) > 0 {
			j.rows = rows
			out = append(out, j)
		}
	}
	return out
}

// unfit says why a row cannot be run with these peers; "" if it can.
func unfit(row Row, peers ...peer.Peer) string {
	for _, p := range peers {
		if f := peer.Family(row.Family); f != "" && !p.Addr(f).IsValid() {
			return p.Name() + " has no " + string(f) + " address"
		}
		if most := p.Caps().MaxMTU; most > 0 && row.MTU > most {
			return "the path MTU is more than the port of " + p.Name() + " carries"
		}
	}
	return ""
}

// inLanes runs jobs with the subject in a role, at most n at a time, each lane with a pair
// of its own. The rows are reported in the order of the jobs, whichever ends first.
func (e *Env) inLanes(ctx context.Context, r role, n int, jobs []job) error {
	jobs = e.chosen(jobs)
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
			l := &laneRun{env: e, role: r}
			defer l.close()
			for i := take(); i >= 0; i = take() {
				made, err := l.do(ctx, jobs[i])
				if err != nil {
					errs[lane] = err
					return
				}
				done(i, made)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// laneRun is a lane at work.
type laneRun struct {
	env  *Env
	role role
	p    *pair // nil before the first job, and after one that has cost the sessions
}

func (l *laneRun) close() {
	if l.p != nil {
		l.p.close()
		l.p = nil
	}
}

// do runs a job. An error ends the run: sessions cannot be had, and Env.Tolerant does not say
// that this fails the rows instead.
func (l *laneRun) do(ctx context.Context, j job) (made []Row, err error) {
	e := l.env
	a, b := e.sides(l.role)
	why := unfit(j.rows[0], a, b) // the others differ in their size alone
	if e.Blind && !j.blind {
		why = "the packets between the two do not come by here"
	}
	if why != "" {
		for _, row := range j.rows {
			made = append(made, row.skipped(why))
		}
		return made, nil
	}
	if err := e.Tolerant.Given(); err != nil {
		return failed(j.rows, err), nil
	}
	if made, err = l.attempts(ctx, j); err != nil {
		if e.Tolerant == nil {
			return nil, err
		}
		e.Tolerant.Lost(err)
		return failed(j.rows, err), nil
	}
	if e.Explain != nil {
		for i := range made {
			if made[i].Result == Fail {
				made[i] = e.Explain(made[i], l.p.packets())
			}
		}
	}
	if e.Tolerant != nil {
		if err := l.p.broken(); err != nil {
			e.Tolerant.Lost(err)
			l.close()
		} else {
			e.Tolerant.Found()
		}
	}
	return made, nil
}

// attempts runs a job, and again if rows failed while the guest stood still, which then say so.
// Those that passed stay as they are.
func (l *laneRun) attempts(ctx context.Context, j job) (made []Row, err error) {
	e := l.env
	for try := 1; ; try++ {
		from := e.now()
		if l.p == nil {
			if l.p, err = e.open(ctx, l.role); err != nil {
				if _, ok := e.stoodStill(from); !ok || try == starvedTries || !e.Report.Again(e.now()-from) {
					return nil, err
				}
				e.starvation()
				continue
			}
		}
		var rows []Row
		e.share(false, func() { rows = j.run(l.p) })
		what, explains := e.stoodStill(from)
		last := try >= starvedTries || !explains || ctx.Err() != nil ||
			!slices.ContainsFunc(rows, excusable) || !e.Report.Again(e.now()-from)
		made = merge(made, rows, explains, attempted(try, starvedTries, what), last)
		if explains && slices.ContainsFunc(rows, excusable) {
			e.starvation()
		}
		if e.Tolerant == nil && l.p.broken() != nil {
			l.close() // the next one has new sessions
		}
		if last {
			return made, nil
		}
	}
}

// excusable reports whether a standstill of the guest may be why a row failed.
func excusable(row Row) bool { return row.Result == Fail && !row.wrong }

// merge returns the rows of a job after one more attempt: those of this one where the attempts
// before it failed. Rows that failed while the guest stood still have a line on that, if there is
// another attempt, and are inconclusive, if there is none.
func merge(before, now []Row, stoodStill bool, line string, last bool) []Row {
	for i := range now {
		again := len(before) == len(now)
		if again && !excusable(before[i]) {
			now[i] = before[i]
			continue
		}
		if again {
			now[i].Retried = lines(before[i].Retried, now[i].Retried)
			now[i].Starved += before[i].Starved
		}
		if !stoodStill || !excusable(now[i]) {
			continue
		}
		now[i].Starved++
		if last {
			now[i].Result, now[i].Detail = Inconclusive, line+"\n"+now[i].Detail
			continue
		}
		first, _, _ := strings.Cut(now[i].Detail, "\n")
		now[i].Retried = lines(now[i].Retried, line+": "+first)
	}
	return now
}

// lines are two parts of Row.Retried.
func lines(a, b string) string { return strings.Trim(a+"; "+b, "; ") }

// failed are rows that all failed for the same reason.
func failed(rows []Row, err error) (out []Row) {
	for _, row := range rows {
		out = append(out, row.ended(err))
	}
	return out
}
