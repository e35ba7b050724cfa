package raftroce

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxInflight is how many requests of a pipeline are under way at a time, as in raft's own
// transport. Entries that come meanwhile go together in the next one. With 128 every entry had a
// request of its own: of 16 clients' commits there were a third as many, at four times the CPU
// time.
const maxInflight = 2

// pipeline is a connection on which requests follow each other without waiting for answers.
type pipeline struct {
	t        *Transport
	s        *session
	ctx      context.Context // ends with the pipeline
	end      context.CancelFunc
	inflight chan *future // in the order of requests, which is that of answers; see AppendEntries
	done     chan raft.AppendFuture
	closing  sync.Once
	running  sync.WaitGroup
}

// future is a request of a pipeline.
type future struct {
	start    time.Time
	args     *raft.AppendEntriesRequest
	resp     *raft.AppendEntriesResponse
	err      error
	answered chan struct{}
}

func (f *future) Error() error                          { <-f.answered; return f.err }
func (f *future) Start() time.Time                      { return f.start }
func (f *future) Request() *raft.AppendEntriesRequest   { return f.args }
func (f *future) Response() *raft.AppendEntriesResponse { return f.resp }

// AppendEntriesPipeline makes a connection for requests that follow each other.
func (t *Transport) AppendEntriesPipeline(_ raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Timeout)
	defer cancel()
	s, err := t.session(ctx, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{t: t, s: s, inflight: make(chan *future), done: make(chan raft.AppendFuture, maxInflight)}
	p.ctx, p.end = context.WithCancel(t.ctx)
	p.running.Go(p.answers)
	return p, nil
}

// AppendEntries sends a request, and waits until it is the next that will be answered.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &future{start: time.Now(), args: args, resp: resp, answered: make(chan struct{})}
	ctx, cancel := context.WithTimeout(p.ctx, p.t.cfg.Timeout)
	defer cancel()
	if err := p.s.post(ctx, kindAppend, args); err != nil {
		if p.ctx.Err() != nil {
			return nil, raft.ErrPipelineShutdown
		}
		return nil, err
	}
	select {
	case p.inflight <- f:
		return f, nil
	case <-ctx.Done(): // nobody takes answers any more, or the peer gives none
		return nil, raft.ErrPipelineShutdown
	}
}

// answers takes answers as they come. After an error the connection is of no use, and raft makes
// another pipeline.
func (p *pipeline) answers() {
	for {
		var f *future
		select {
		case f = <-p.inflight:
		case <-p.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.t.cfg.Timeout)
		f.err = p.s.answer(ctx, f.resp, nil)
		cancel()
		close(f.answered)
		select {
		case p.done <- f:
		case <-p.ctx.Done():
			return
		}
	}
}

// Consumer returns where answered requests come.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close ends the pipeline, and what is under way.
func (p *pipeline) Close() error {
	p.closing.Do(func() {
		p.end()
		p.running.Wait()
		p.s.c.Close()
	})
	return nil
}
