package reduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/goroce/goroce/bench/apps/mesh"
)

// Shared says how parameters are kept. It is the same in all members.
type Shared struct {
	Servers int // ranks 0 to Servers-1 keep a part of the parameters each; the other ranks are workers
	Length  int // how many parameters there are
	// Staleness is how many steps a worker may be ahead of the slowest one. With 0 a step returns
	// when all workers have pushed theirs, and all see the same parameters; with [Unbounded] nobody
	// waits for anybody.
	Staleness int
}

// Unbounded is the [Shared.Staleness] of workers that never wait for each other.
const Unbounded = math.MaxInt32

// leaving is the tag of a worker that has done its last step, and of the server's answer.
const leaving = math.MaxUint32

// maxPieces is in how many pieces a part is sent, at most.
const maxPieces = 16

// pieces calls do for each piece of from to to, with its place among them.
func pieces(from, to int, do func(from, to int) error) error {
	step := max(minPiece/4, ceil(to-from, maxPieces))
	for {
		end := min(from+step, to)
		if err := do(from, end); err != nil || end == to {
			return err
		}
		from = end
	}
}

// check refuses what cannot be, and says how many workers there are.
func (o Shared) check(members int) (workers int, err error) {
	workers = members - o.Servers
	if o.Servers < 1 || workers < 1 || o.Length < o.Servers || o.Staleness < 0 {
		return 0, fmt.Errorf("reduce: %d members, %d of them servers, %d parameters, staleness %d", members,
			o.Servers, o.Length, o.Staleness)
	}
	return workers, nil
}

// part returns the borders of what a server keeps.
func (o Shared) part(server int) (from, to int) {
	return o.Length * server / o.Servers, o.Length * (server + 1) / o.Servers
}

// most is the length of the largest part.
func (o Shared) most() int { return (o.Length + o.Servers - 1) / o.Servers }

// arena makes the memory of a member, which has to be as large in all of them. Memory that nobody
// touches costs nothing.
func (o Shared) arena(workers int) []float32 {
	return make([]float32, max(2*o.Length, o.most()*(1+3*workers)))
}

// ranks are those from a rank on, up to another: workers have links to servers, and these to
// workers. One between two workers would carry nothing, and a worker that has done all steps would
// end it before the other one has joined.
func ranks(from, to int) (all []int) {
	for rank := from; rank < to; rank++ {
		all = append(all, rank)
	}
	return all
}

// stepTag says of a piece which one it is, and of which step.
func stepTag(step, piece int) uint32 { return uint32(step)<<8&(leaving>>1) | uint32(piece) }

// expect waits for the piece with a tag.
func expect(ctx context.Context, l mesh.Link, want uint32) error {
	got, err := l.Next(ctx)
	if err == nil && got != want {
		err = fmt.Errorf("a piece with tag %#x, expected is %#x", got, want)
	}
	return err
}

// Worker is a process that learns: it pushes gradients, and gets parameters.
type Worker struct {
	Gradient []float32 // what Step pushes; between calls it is the program's
	Params   []float32 // the newest that the servers have sent

	o      Shared
	g      *mesh.Group
	step   int
	failed error
}

// JoinWorker makes a worker of a group. addrs are where the members listen, by rank; the servers
// come first.
func JoinWorker(ctx context.Context, network mesh.Network, addrs []string, rank int, o Shared) (*Worker, error) {
	workers, err := o.check(len(addrs))
	if err != nil {
		return nil, err
	}
	arena := o.arena(workers)
	w := &Worker{o: o, Gradient: arena[:o.Length:o.Length], Params: arena[o.Length : 2*o.Length : 2*o.Length]}
	w.g, err = mesh.Join(ctx, network,
		mesh.Config{Addrs: addrs, Rank: rank, Arena: bytesOf(arena), Peers: ranks(0, o.Servers)})
	return w, err
}

// Step pushes Gradient to the servers and waits for Params, which have this gradient in them, and
// at least those of the other workers that [Shared.Staleness] asks for. After an error the worker
// is useless, and closed, so that the others have an error, too.
func (w *Worker) Step(ctx context.Context) error {
	if w.failed != nil {
		return w.failed
	}
	w.step++
	if err := w.push(ctx); err != nil {
		w.failed = fmt.Errorf("reduce: step %d of rank %d: %w", w.step, w.g.Rank, err)
		return errors.Join(w.failed, w.g.Close())
	}
	return nil
}

func (w *Worker) push(ctx context.Context) error {
	slot := w.o.most() * (1 + w.g.Rank - w.o.Servers)
	for server := range w.o.Servers {
		begin, end := w.o.part(server)
		piece := 0
		err := pieces(begin, end, func(from, to int) error {
			tag := stepTag(w.step, piece)
			piece++
			return w.g.Link(server).Put(ctx, 4*(slot+from-begin), 4*from, 4*(to-from), tag)
		})
		if err != nil {
			return fmt.Errorf("server %d: %w", server, err)
		}
	}
	for server := range w.o.Servers {
		begin, end := w.o.part(server)
		piece := 0
		err := pieces(begin, end, func(int, int) error {
			tag := stepTag(w.step, piece)
			piece++
			return expect(ctx, w.g.Link(server), tag)
		})
		if err != nil {
			return fmt.Errorf("server %d: %w", server, err)
		}
	}
	return w.g.Flush(ctx) // the program may change the gradient now
}

// Leave tells the servers that no further step comes, and ends the membership. The other workers go
// on.
func (w *Worker) Leave(ctx context.Context) error {
	err := w.failed
	for server := range w.o.Servers {
		if err == nil {
			err = w.g.Link(server).Put(ctx, 0, 0, 0, leaving)
		}
	}
	for server := range w.o.Servers {
		if err == nil {
			err = expect(ctx, w.g.Link(server), leaving)
		}
	}
	if e := w.Close(); err != nil {
		err = errors.Join(err, e)
	} // else all have answered, and an acknowledgement that is missing is no error
	return err
}

// Close ends the membership at once. That is an error for all other members.
func (w *Worker) Close() error { return w.g.Close() }

// Server keeps a part of the parameters.
type Server struct {
	// Params is the part. The program may fill it before Serve, and read it afterwards.
	Params []float32

	o       Shared
	g       *mesh.Group
	workers int
	floats  []float32 // the arena: Params, a gradient of each worker, two answers to each
	parts   []piece
	out     []chan answer // by worker: what it is to get
}

// piece is a part of Params that has its own lock, so that pieces are worked on beside each other.
type piece struct {
	mu       sync.Mutex
	from, to int
	pushed   []int  // by worker: the newest step whose gradient is in the parameters
	waiting  []bool // by worker: that step has not been answered
}

// answer is a piece that a worker gets back.
type answer struct{ piece, step int }

// JoinServer makes a server of a group, as [JoinWorker] makes a worker.
func JoinServer(ctx context.Context, network mesh.Network, addrs []string, rank int, o Shared) (*Server, error) {
	workers, err := o.check(len(addrs))
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, workers: workers, floats: o.arena(workers), out: make([]chan answer, workers)}
	begin, end := o.part(rank)
	s.Params = s.floats[: end-begin : end-begin]
	_ = pieces(0, end-begin, func(from, to int) error {
		s.parts = append(s.parts,
			piece{from: from, to: to, pushed: make([]int, workers), waiting: make([]bool, workers)})
		return nil
	})
	for w := range s.out {
		// Room for all answers to a step, and to leaving: a worker has no more that are not
		// answered.
		s.out[w] = make(chan answer, len(s.parts)+1)
	}
	s.g, err = mesh.Join(ctx, network,
		mesh.Config{Addrs: addrs, Rank: rank, Arena: bytesOf(s.floats), Peers: ranks(o.Servers, len(addrs))})
	return s, err
}

// Serve applies what workers push until all of them have left. apply changes parameters by a
// gradient; both are the same piece of the whole. It is called for one gradient of a piece at a
// time.
func (s *Server) Serve(ctx context.Context, apply func(params, gradient []float32)) error {
	if s.o.Staleness == 0 {
		err := s.inStep(ctx, apply)
		if e := s.g.Close(); err != nil {
			err = errors.Join(err, e)
		}
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for w := range s.workers {
		all.Go(func() error { return s.rank(w, s.receive(ctx, w, apply)) })
		all.Go(func() error { return s.rank(w, s.send(ctx, w)) })
	}
	// The first error ends the group, so that no worker waits for a server that does not go on.
	context.AfterFunc(ctx, func() { s.g.Close() })
	err := all.Wait()
	if e := s.g.Close(); err != nil {
		err = errors.Join(err, e)
	} // else all have left, and may be gone before their last acknowledgement has come
	return err
}

// inStep is Serve for workers that go in step. One goroutine waits for all links in turn, so that
// it also receives for itself: a goroutine for each link would have to be woken for each piece.
func (s *Server) inStep(ctx context.Context, apply func(params, gradient []float32)) error {
	here := ranks(0, s.workers) // those that have not left
	for step := 1; len(here) > 0; step++ {
		for i := range s.parts {
			for _, w := range slices.Clone(here) {
				tag, err := s.g.Link(s.o.Servers + w).Next(ctx)
				switch {
				case err != nil:
				case tag == leaving && i == 0:
					here = slices.DeleteFunc(here, func(v int) bool { return v == w })
					err = s.g.Link(s.o.Servers+w).Put(ctx, 0, 0, 0, leaving)
				case tag != stepTag(step, i):
					err = fmt.Errorf("a piece with tag %#x, expected is %#x", tag, stepTag(step, i))
				default:
					p := &s.parts[i]
					apply(s.Params[p.from:p.to], s.floats[s.o.most()*(1+w):][p.from:p.to])
				}
				if err != nil {
					return s.rank(w, err)
				}
			}
			if err := s.tell(ctx, here, step, i); err != nil {
				return err
			}
		}
	}
	for w := range s.workers {
		s.g.Link(s.o.Servers + w).Next(ctx) // until it has closed: it has our answer then
	}
	return nil
}

// tell gives a piece to workers that are at one step. The outbox of the first worker serves all:
// the parameters that it holds are the same for all.
func (s *Server) tell(ctx context.Context, workers []int, step, i int) error {
	begin, _ := s.o.part(s.g.Rank)
	p, out := &s.parts[i], s.outbox(0, step)
	for _, w := range workers {
		if i == 0 {
			if err := s.g.Link(s.o.Servers + w).Flush(ctx); err != nil {
				return s.rank(w, err)
			}
		}
	}
	copy(s.floats[out+p.from:], s.Params[p.from:p.to])
	for _, w := range workers {
		err := s.g.Link(s.o.Servers+w).Put(ctx, 4*(s.o.Length+begin+p.from), 4*(out+p.from), 4*(p.to-p.from),
			stepTag(step, i))
		if err != nil {
			return s.rank(w, err)
		}
	}
	return nil
}

// rank says of an error which worker it is about.
func (s *Server) rank(w int, err error) error {
	if err != nil {
		err = fmt.Errorf("reduce: server %d, rank %d: %w", s.g.Rank, s.o.Servers+w, err)
	}
	return err
}

// Close ends the membership at once. That is an error for all other members.
func (s *Server) Close() error { return s.g.Close() }

// receive takes what a worker pushes until it leaves.
func (s *Server) receive(ctx context.Context, w int, apply func(params, gradient []float32)) error {
	link := s.g.Link(s.o.Servers + w)
	slot := s.floats[s.o.most()*(1+w):]
	for step := 1; ; step++ {
		for i := range s.parts {
			tag, err := link.Next(ctx)
			switch {
			case err != nil:
				return err
			case tag == leaving && i == 0:
				s.left(w)
				link.Next(ctx) // until it has closed: it has our answer then
				return nil
			case tag != stepTag(step, i):
				return fmt.Errorf("a piece with tag %#x, expected is %#x", tag, stepTag(step, i))
			}
			p := &s.parts[i]
			p.mu.Lock()
			apply(s.Params[p.from:p.to], slot[p.from:p.to])
			p.pushed[w], p.waiting[w] = step, true
			s.answer(i)
			p.mu.Unlock()
		}
	}
}

// left has nobody wait for a worker.
func (s *Server) left(w int) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		p.pushed[w] = math.MaxInt
		s.answer(i)
		p.mu.Unlock()
	}
	s.out[w] <- answer{piece: -1}
	close(s.out[w])
}

// answer gives a piece to the workers that are not too far ahead. Its lock is held.
func (s *Server) answer(i int) {
	p := &s.parts[i]
	slowest := slices.Min(p.pushed)
	for v, waiting := range p.waiting {
		if waiting && p.pushed[v]-s.o.Staleness <= slowest {
			p.waiting[v] = false
			copy(s.floats[s.outbox(v, p.pushed[v])+p.from:], s.Params[p.from:p.to])
			s.out[v] <- answer{i, p.pushed[v]}
		}
	}
}

// outbox is where the answer to a step of a worker begins, in floats. Odd and even steps have one
// each: when a worker pushes a step, that before it has been answered, and so send has flushed the
// one before that.
func (s *Server) outbox(w, step int) int { return s.o.most() * (1 + s.workers + 2*w + step%2) }

// send writes answers into the parameters of a worker.
func (s *Server) send(ctx context.Context, w int) error {
	link := s.g.Link(s.o.Servers + w)
	begin, _ := s.o.part(s.g.Rank)
	for {
		var a answer
		var more bool
		select {
		case a, more = <-s.out[w]:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !more {
			return nil
		}
		if a.piece < 0 {
			if err := link.Put(ctx, 0, 0, 0, leaving); err != nil {
				return err
			}
			continue
		}
		if a.piece == 0 {
			if err := link.Flush(ctx); err != nil {
				return err
			}
		}
		p := &s.parts[a.piece]
		err := link.Put(ctx, 4*(s.o.Length+begin+p.from), 4*(s.outbox(w, a.step)+p.from), 4*(p.to-p.from),
			stepTag(a.step, a.piece))
		if err != nil {
			return err
		}
	}
}
