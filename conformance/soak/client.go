package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Of each client, peer and kind; the first keeps one connection for as long as it lives.
	connWorkers   = 2
	pauseTime     = 80 * time.Millisecond // at most, between two exchanges
	redialTime    = 300 * time.Millisecond
	opTime        = 100 * time.Second // what takes longer hangs: a peer that is silent counts as gone long before
	dialTime      = 100 * time.Second
	mostExchanges = 60 // of a connection that is not meant to last
)

// The kinds of connections.
const (
	connKind   = "conn"
	streamKind = "stream"
)

// dialing is what an error of a connection that was not made begins with, after its kind.
const dialing = "dial"

// session is a connection of one kind.
type session interface {
	// exchange sends something, and checks what comes back.
	exchange(ctx context.Context, r *rand.Rand) error
	// end closes it in one of several ways.
	end(r *rand.Rand)
}

// client keeps connections to the servers.
type client struct {
	c       *child
	workers []*clientWorker
	all     sync.WaitGroup
	resting atomic.Pointer[restPoint] // nil: no rest
}

// restPoint is a rest. Workers arrive, and go on when it is over.
type restPoint struct {
	arrived sync.WaitGroup
	over    chan struct{}
}

// clientWorker keeps one connection after the other to a server.
type clientWorker struct {
	cl         *client
	peer, kind string
	lasting    bool // one connection, for as long as it lives
	rand       *rand.Rand
	dial       func(ctx context.Context) (session, error)
	count      *atomic.Int64 // connections of the kind that the process has
	rested     *restPoint    // the last rest that it was at

	done, open atomic.Int64 // exchanges, connections
}

func (c *child) client(ctx context.Context) *client {
	cl := &client{c: c}
	for peer, to := range c.Servers {
		for i := range 2 * connWorkers {
			w := &clientWorker{
				cl: cl, peer: peer, kind: connKind, lasting: i < 2, count: &c.open.conns,
				rand: rand.New(rand.NewPCG(c.Seed, uint64(len(cl.workers)))),
				dial: func(ctx context.Context) (session, error) { return c.dialConn(ctx, to.Conn) },
			}
			if i%2 == 1 {
				w.kind, w.count = streamKind, &c.open.streams
				w.dial = func(ctx context.Context) (session, error) { return c.dialStream(ctx, to.Stream) }
			}
			cl.workers = append(cl.workers, w)
		}
	}
	for _, w := range cl.workers {
		cl.all.Go(func() { w.run(ctx) })
	}
	return cl
}

// rest returns when every worker rests: those that last with a connection that works, the others
// without.
func (cl *client) rest() said {
	r := &restPoint{over: make(chan struct{})}
	r.arrived.Add(len(cl.workers))
	cl.resting.Store(r)
	r.arrived.Wait()
	return cl.counts("resting")
}

func (cl *client) counts(what string) said {
	s := said{What: what, Done: map[string]int64{}, Open: map[string]int64{}}
	for _, w := range cl.workers {
		s.Done[w.peer+" "+w.kind] += w.done.Load()
		s.Open[w.peer+" "+w.kind] += w.open.Load()
	}
	return s
}

func (cl *client) resume() {
	if r := cl.resting.Swap(nil); r != nil {
		close(r.over)
	}
}

func (cl *client) end() { cl.all.Wait() }

// restDue returns the rest to go to; nil if there is none.
func (w *clientWorker) restDue() *restPoint {
	if r := w.cl.resting.Load(); r != w.rested {
		return r
	}
	return nil
}

func (w *clientWorker) arrive(ctx context.Context, r *restPoint) {
	w.rested = r
	r.arrived.Done()
	select {
	case <-r.over:
	case <-ctx.Done():
	}
}

// pause lets a random time pass: the load is meant to be light.
func (w *clientWorker) pause(ctx context.Context, most time.Duration) {
	t := time.NewTimer(time.Duration(w.rand.Int64N(int64(most))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// run keeps one connection after the other.
func (w *clientWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if r := w.restDue(); r != nil && !w.lasting {
			w.arrive(ctx, r)
		}
		w.pause(ctx, redialTime)
		dial, cancel := context.WithTimeout(ctx, dialTime)
		s, err := w.dial(dial)
		cancel()
		if err != nil {
			w.failed(ctx, dialing, err)
			continue
		}
		w.count.Add(1)
		w.open.Add(1)
		if err := w.use(ctx, s); err != nil {
			w.failed(ctx, "exchange", err)
		}
		s.end(w.rand)
		w.open.Add(-1)
		w.count.Add(-1)
	}
}

// use exchanges over a connection until it has been enough.
func (w *clientWorker) use(ctx context.Context, s session) error {
	n := 1 + w.rand.IntN(mostExchanges)
	for i := 0; ctx.Err() == nil && (w.lasting || i < n); i++ {
		rest := w.restDue()
		if rest != nil && !w.lasting {
			return nil
		}
		w.pause(ctx, pauseTime)
		exchange, cancel := context.WithTimeout(ctx, opTime)
		began := time.Now()
		err := s.exchange(exchange, w.rand)
		cancel()
		if err != nil {
			return err
		}
		w.done.Add(1)
		if w.peer == theServer {
			w.cl.c.took.add(time.Since(began))
		}
		if rest != nil {
			w.arrive(ctx, rest)
		}
	}
	return nil
}

func (w *clientWorker) failed(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil {
		w.cl.c.failed(w.peer, w.kind+" "+doing, err)
	}
}
