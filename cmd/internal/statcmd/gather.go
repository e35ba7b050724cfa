package statcmd

import (
	"context"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/stat"
)

// answerTime is how long a process may take to answer: it only needs its locks for a moment.
const answerTime = time.Second

// atOnce is how many processes of a user are asked at a time.
const atOnce = 64

// Silent is a process that did not answer.
type Silent struct {
	PID   int    `json:"pid"`
	User  int    `json:"uid"`
	Error string `json:"error"`
}

// sample is what all processes said at one time.
type sample struct {
	At        time.Time       `json:"time"`
	Processes []*stat.Process `json:"processes"`
	Silent    []Silent        `json:"silent"`
}

// asker is an endpoint, or in tests something else.
type asker struct {
	pid, user int
	ask       func(context.Context) (*stat.Process, error)
}

// findAll returns whom to ask.
func findAll() ([]asker, error) {
	all, err := stat.Find()
	if err != nil {
		return nil, err
	}
	var out []asker
	for _, e := range all {
		out = append(out, asker{e.PID, e.User, e.Ask})
	}
	return out, nil
}

// gather asks all at the same time; the slowest takes as long as answerTime, so one that hangs
// keeps nobody waiting for longer, and many that hang no other user. What several sockets of one
// process tell becomes one process.
func gather(ctx context.Context, all []asker, pid int) *sample {
	s := &sample{At: time.Now(), Processes: []*stat.Process{}, Silent: []Silent{}}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	type result struct {
		p   *stat.Process
		err error
	}
	results := make([]result, len(all))
	turns := map[int]chan struct{}{} // by user
	var wg sync.WaitGroup
	for i := range all {
		if pid != 0 && all[i].pid != pid {
			continue
		}
		turn := turns[all[i].user]
		if turn == nil {
			turn = make(chan struct{}, atOnce)
			turns[all[i].user] = turn
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			turn <- struct{}{}
			defer func() { <-turn }()
			results[i].p, results[i].err = all[i].ask(ctx)
		}()
	}
	wg.Wait()
	byPID := map[int]*stat.Process{}
	for i, r := range results {
		switch {
		case r.err != nil:
			s.Silent = append(s.Silent, Silent{all[i].pid, all[i].user, r.err.Error()})
		case r.p == nil:
		case byPID[r.p.PID] != nil && r.p.PID != 0:
			p := byPID[r.p.PID]
			p.Devices = append(p.Devices, r.p.Devices...)
		default:
			byPID[r.p.PID] = r.p
			s.Processes = append(s.Processes, r.p)
		}
	}
	return s
}
