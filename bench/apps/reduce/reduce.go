package reduce

import (
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/bench/apps/mesh"
)

// Topology is who sends to whom.
type Topology uint8

// The topologies; the package comment draws them.
const (
	Ring Topology = iota
	Star
	FullMesh
)

var topologies = [...]string{"ring", "star", "mesh"}

func (t Topology) String() string { return topologies[t] }

// ParseTopology is the inverse of String.
func ParseTopology(s string) (Topology, error) {
	for i, name := range topologies {
		if name == s {
			return Topology(i), nil
		}
	}
	return 0, fmt.Errorf("reduce: no topology %q; there are %v", s, topologies)
}

// A vector is cut into pieces of minPiece to maxPiece bytes. So many blocks of them, a piece a rank
// each, are under way at a time.
const (
	minPiece = 64 << 10
	maxPiece = 1 << 20
	window   = 4
)

// Member is one process of a group that sums vectors.
type Member struct {
	// Vector is what Sum works on. Between calls it is the program's.
	Vector []float32

	g      *mesh.Group
	floats []float32 // the arena: Vector, then the inbox
	blocks int       // of the vector, each of a piece a rank
	piece  int       // floats of the longest of them
	calls  int
	sent   []int // numbers of pieces, of a ring
	failed error
}

// Join makes a member of a group whose vectors have length elements. addrs are where the members
// listen, by rank; rank says which of them this one is. Where all calls will have the topology
// Ring, only says so: a member then has links to its two neighbours alone.
func Join(ctx context.Context, network mesh.Network, addrs []string, rank, length int,
	only ...Topology) (*Member, error) {
	return join(ctx, network, addrs, rank, length, PieceOf(length/len(addrs)), only...)
}

// join is Join with pieces of at most so many floats.
func join(ctx context.Context, network mesh.Network, addrs []string, rank, length, piece int,
	only ...Topology) (*Member, error) {
	n := len(addrs)
	m := &Member{blocks: max(1, ceil(length, n*piece))}
	m.piece = ceil(length, m.blocks*n)
	var peers []int
	if n > 1 && len(only) == 1 && only[0] == Ring {
		peers = []int{(rank + n - 1) % n, (rank + 1) % n}
		if peers[0] == peers[1] {
			peers = peers[:1]
		}
	}
	m.floats = make([]float32, length+window*(n-1)*m.piece)
	m.Vector = m.floats[:length:length]
	g, err := mesh.Join(ctx, network, mesh.Config{Addrs: addrs, Rank: rank, Arena: bytesOf(m.floats), Peers: peers})
	m.g = g
	return m, err
}

// Close ends the membership at once. The calls of others that need us fail.
func (m *Member) Close() error { return m.g.Close() }

// Leave ends the membership when all that we have links to have come to call it. So nobody is gone
// while others still wait for the acknowledgements of their last call.
func (m *Member) Leave(ctx context.Context) error {
	if m.failed != nil {
		return m.Close()
	}
	m.calls++
	for rank := range m.g.Size() {
		if m.g.Linked(rank) {
			if err := m.put(ctx, rank, 0, 0, 0, m.tag(Ring, 0)); err != nil {
				return errors.Join(fmt.Errorf("reduce: leave: %w", err), m.Close())
			}
		}
	}
	for rank := range m.g.Size() {
		if m.g.Linked(rank) {
			if err := m.next(ctx, rank, m.tag(Ring, 0)); err != nil {
				return errors.Join(fmt.Errorf("reduce: leave: %w", err), m.Close())
			}
		}
	}
	// What others have heard of us they may have acknowledged too late: they are gone by then, in
	// order.
	m.Close()
	return nil
}

// Sum replaces Vector by the sum of everybody's. All members have to call it, with the same
// topology, as often as each other. It returns an error if a member is gone; the group is
// then useless, and closed, so that nobody waits for a member that will not go on.
func (m *Member) Sum(ctx context.Context, t Topology) error {
	if m.failed != nil {
		return m.failed
	}
	m.calls++
	var err error
	switch {
	case m.g.Size() == 1:
	case t == Ring:
		err = m.ring(ctx)
	case t == Star:
		err = m.star(ctx)
	case t == FullMesh:
		err = m.mesh(ctx)
	default:
		return fmt.Errorf("reduce: topology %d", t)
	}
	if err == nil {
		err = m.g.Flush(ctx) // the program may change the vector now
	}
	if err != nil {
		m.failed = fmt.Errorf("reduce: call %d of rank %d: %w", m.calls, m.g.Rank, err)
		return errors.Join(m.failed, m.g.Close())
	}
	return nil
}

// PieceOf is how many floats of a part of n are sent, and summed, at a time.
func PieceOf(n int) int { return min(max(minPiece/4, ceil(n, window)), maxPiece/4) }

func ceil(n, of int) int { return (n + of - 1) / of }

// borders returns those of a piece of the vector.
func (m *Member) borders(piece int) (from, to int) {
	all := m.blocks * m.g.Size()
	return len(m.Vector) * piece / all, len(m.Vector) * (piece + 1) / all
}

// share returns the borders of a rank's piece of a block.
func (m *Member) share(block, rank int) (from, to int) {
	n := m.g.Size()
	return m.borders(block*n + (rank+n)%n)
}

// slot is where a place for a piece begins in the inbox, in floats. A block, or a piece of a star,
// has as many as there are other ranks.
func (m *Member) slot(block, i int) int {
	return len(m.Vector) + (block%window*(m.g.Size()-1)+i)*m.piece
}

// put writes floats from to to of our arena to place in that of the peer.
func (m *Member) put(ctx context.Context, rank, place, from, to int, tag uint32) error {
	return m.g.Link(rank).Put(ctx, 4*place, 4*from, 4*(to-from), tag)
}

// tag says of a piece of which call it is, and which one of it. So the peer can tell that both run
// the same call.
func (m *Member) tag(t Topology, number int) uint32 {
	return uint32(m.calls)<<28 | uint32(t)<<26 | uint32(number)
}

// next waits for the piece of a rank that has a tag.
func (m *Member) next(ctx context.Context, rank int, want uint32) error {
	tag, err := m.g.Link(rank).Next(ctx)
	if err == nil && tag != want {
		err = fmt.Errorf("rank %d is somewhere else: it sent a piece with tag %#x, expected is %#x", rank, tag, want)
	}
	return err
}

// add sums what has come to a place of the inbox.
func (m *Member) add(from, to, slot int) { Add(m.floats[from:to], m.floats[slot:]) }

// Add adds src to dst, as a sum does, or a server whose workers push steps and not gradients.
func Add(dst, src []float32) {
	src = src[:len(dst)]
	for len(dst) >= 8 {
		d, s := (*[8]float32)(dst), (*[8]float32)(src)
		d[0] += s[0]
		d[1] += s[1]
		d[2] += s[2]
		d[3] += s[3]
		d[4] += s[4]
		d[5] += s[5]
		d[6] += s[6]
		d[7] += s[7]
		dst, src = dst[8:], src[8:]
	}
	for i := range dst {
		dst[i] += src[i]
	}
}

// inTurn begins as many steps as may be under way, and then another one whenever one has ended.
func inTurn(steps int, begin, end func(step int) error) (err error) {
	for step := 0; step < steps+window && err == nil; step++ {
		if step >= window {
			err = end(step - window)
		}
		if err == nil && step < steps {
			err = begin(step)
		}
	}
	return err
}

// ring: our piece of a block comes to every rank in turn, which adds its own to it (up to step
// n-1), and then, as a sum, once more (up to step 2n-2). We send on what comes, whatever block it
// is of. All ranks send pieces of the same numbers, in the same order, so these are also what
// comes.
func (m *Member) ring(ctx context.Context) error {
	n, rank := m.g.Size(), m.g.Rank
	right, left := (rank+1)%n, (rank+n-1)%n
	m.sent = m.sent[:0]
	send := func(number, place, from, to int) error {
		m.sent = append(m.sent, number)
		return m.put(ctx, right, place, from, to, m.tag(Ring, number))
	}
	begin := func(block int) error {
		from, to := m.share(block, rank)
		return send(2*n*block+1, m.slot(block, 0), from, to)
	}
	come := 0
	end := func(ended int) error {
		for {
			number := m.sent[come]
			come++
			if err := m.next(ctx, left, m.tag(Ring, number)); err != nil {
				return err
			}
			block, step := number/(2*n), number%(2*n)
			from, to := m.share(block, rank-step%n)
			if step < n {
				m.add(from, to, m.slot(block, step-1))
			}
			var err error
			switch {
			case step < n-1:
				err = send(number+1, m.slot(block, step), from, to)
			case step < 2*n-2: // the sum is whole: it goes into vectors from here on
				err = send(number+1, from, from, to)
			case block == ended:
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return inTurn(m.blocks, begin, end)
}

// star: rank 0 sums, a piece at a time.
func (m *Member) star(ctx context.Context) error {
	if m.g.Rank == 0 {
		return m.centre(ctx)
	}
	return inTurn(m.blocks*m.g.Size(), func(piece int) error {
		from, to := m.borders(piece)
		return m.put(ctx, 0, m.slot(piece, m.g.Rank-1), from, to, m.tag(Star, piece))
	}, func(piece int) error { return m.next(ctx, 0, m.tag(Star, piece)) })
}

// centre is rank 0 of a star.
func (m *Member) centre(ctx context.Context) error {
	for piece := range m.blocks * m.g.Size() {
		from, to := m.borders(piece)
		for peer := 1; peer < m.g.Size(); peer++ {
			if err := m.next(ctx, peer, m.tag(Star, piece)); err != nil {
				return err
			}
			m.add(from, to, m.slot(piece, peer-1))
		}
		for peer := 1; peer < m.g.Size(); peer++ {
			if err := m.put(ctx, peer, from, from, to, m.tag(Star, piece)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mesh: every rank is the centre of a star for its piece of a block. The other ranks come in an
// order that begins behind our own, so that not everybody sends to rank 0 first.
func (m *Member) mesh(ctx context.Context) error {
	n, rank := m.g.Size(), m.g.Rank
	others := func(do func(peer int) error) error {
		for i := 1; i < n; i++ {
			if err := do((rank + i) % n); err != nil {
				return err
			}
		}
		return nil
	}
	place := func(block, owner, sender int) int { return m.slot(block, (sender-owner+n)%n-1) }
	begin := func(block int) error {
		return others(func(peer int) error {
			from, to := m.share(block, peer)
			return m.put(ctx, peer, place(block, peer, rank), from, to, m.tag(FullMesh, 2*block))
		})
	}
	sum := func(block int) error {
		from, to := m.share(block, rank)
		err := others(func(peer int) error {
			err := m.next(ctx, peer, m.tag(FullMesh, 2*block))
			if err == nil {
				m.add(from, to, place(block, rank, peer))
			}
			return err
		})
		if err != nil {
			return err
		}
		return others(func(peer int) error { return m.put(ctx, peer, from, from, to, m.tag(FullMesh, 2*block+1)) })
	}
	collect := func(block int) error {
		return others(func(peer int) error { return m.next(ctx, peer, m.tag(FullMesh, 2*block+1)) })
	}
	for first := 0; first < m.blocks; first += window {
		for _, step := range []func(int) error{begin, sum, collect} {
			for block := first; block < min(first+window, m.blocks); block++ {
				if err := step(block); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
