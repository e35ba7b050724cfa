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

// piece bounds: a part is sent in pieces of at least minPiece bytes, and in at most maxPieces.
const (
	minPiece  = 64 << 10
	maxPieces = 16
)

// Member is one process of a group that sums vectors.
type Member struct {
	// Vector is what Sum works on. Between calls it is the program's.
	Vector []float32

	g      *mesh.Group
	floats []float32 // the arena: Vector, then two inboxes
	inbox  int       // floats of each of them
	calls  int
	failed error
}

// Join makes a member of a group whose vectors have length elements. addrs are where the members
// listen, by rank; rank says which of them this one is. Where all calls will have the topology
// Ring, only says so: a member then has links to its two neighbours alone, and a smaller inbox.
func Join(ctx context.Context, network mesh.Network, addrs []string, rank, length int,
	only ...Topology) (*Member, error) {
	m := &Member{}
	// The largest inbox is that of rank 0 of a star: a vector from everybody. The arenas have to be
	// of one size; memory that nobody touches costs nothing.
	m.inbox = length * max(len(addrs)-1, 1)
	var peers []int
	if n := len(addrs); n > 1 && len(only) == 1 && only[0] == Ring {
		m.inbox = length
		peers = []int{(rank + n - 1) % n, (rank + 1) % n}
		if peers[0] == peers[1] {
			peers = peers[:1]
		}
	}
	m.floats = make([]float32, length+2*m.inbox)
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
			if err := m.put(ctx, rank, 0, 0, 0); err != nil {
				return errors.Join(fmt.Errorf("reduce: leave: %w", err), m.Close())
			}
		}
	}
	for rank := range m.g.Size() {
		if m.g.Linked(rank) {
			if err := m.next(ctx, rank, 0); err != nil {
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

// part returns the borders of the part of the vector that a rank owns.
func (m *Member) part(rank int) (from, to int) {
	n := m.g.Size()
	rank = (rank%n + n) % n
	return len(m.Vector) * rank / n, len(m.Vector) * (rank + 1) / n
}

// area is where the inbox of this call begins, in floats.
func (m *Member) area() int { return len(m.Vector) + m.calls%2*m.inbox }

// PieceOf is how many floats of a part of n are sent, and summed, at a time.
func PieceOf(n int) int { return max(minPiece/4, (n+maxPieces-1)/maxPieces) }

// pieces calls do for each piece of from to to, with its place among them.
func pieces(from, to int, do func(from, to int) error) error {
	step := PieceOf(to - from)
	for {
		end := min(from+step, to)
		if err := do(from, end); err != nil || end == to {
			return err
		}
		from = end
	}
}

// put writes floats from to to of our arena to place in that of the peer. The tag is how many they
// are, by which the peer can tell that both run the same call.
func (m *Member) put(ctx context.Context, rank, place, from, to int) error {
	return m.g.Link(rank).Put(ctx, 4*place, 4*from, 4*(to-from), m.tag(to-from))
}

// tag says of a piece how long it is and of which call.
func (m *Member) tag(n int) uint32 { return uint32(m.calls)<<28 ^ uint32(n) }

// next waits for a piece of n floats of a rank.
func (m *Member) next(ctx context.Context, rank, n int) error {
	tag, err := m.g.Link(rank).Next(ctx)
	if err == nil && tag != m.tag(n) {
		err = fmt.Errorf("rank %d is somewhere else: it sent a piece with tag %#x, expected is %#x",
			rank, tag, m.tag(n))
	}
	return err
}

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

// ring: in step s of the first round we send part rank-s, and add to part rank-s-1 what comes. In
// the second round sums go on as they come. A piece is sent on as soon as it is there, whatever the
// step of the pieces behind it.
func (m *Member) ring(ctx context.Context) error {
	n, rank, area := m.g.Size(), m.g.Rank, m.area()
	right, left := (rank+1)%n, (rank+n-1)%n
	from, to := m.part(rank)
	err := pieces(from, to, func(from, to int) error { return m.put(ctx, right, area+from, from, to) })
	if err != nil {
		return err
	}
	for s := 1; s < n; s++ { // what comes is summed up to us
		from, to := m.part(rank - s)
		last := s == n-1
		err := pieces(from, to, func(from, to int) error {
			if err := m.next(ctx, left, to-from); err != nil {
				return err
			}
			Add(m.floats[from:to], m.floats[area+from:area+to])
			if last { // that is the whole sum: it goes into vectors from here on
				return m.put(ctx, right, from, from, to)
			}
			return m.put(ctx, right, area+from, from, to)
		})
		if err != nil {
			return err
		}
	}
	for s := n; s < 2*n-1; s++ { // what comes is a sum
		from, to := m.part(rank - s)
		last := s == 2*n-2
		err := pieces(from, to, func(from, to int) error {
			if err := m.next(ctx, left, to-from); err != nil || last {
				return err
			}
			return m.put(ctx, right, from, from, to)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// star: rank 0 sums.
func (m *Member) star(ctx context.Context) error {
	area, length := m.area(), len(m.Vector)
	if rank := m.g.Rank; rank != 0 {
		err := pieces(0, length, func(from, to int) error {
			return m.put(ctx, 0, area+(rank-1)*length+from, from, to)
		})
		if err != nil {
			return err
		}
		return pieces(0, length, func(from, to int) error { return m.next(ctx, 0, to-from) })
	}
	return pieces(0, length, func(from, to int) error {
		for rank := 1; rank < m.g.Size(); rank++ {
			if err := m.next(ctx, rank, to-from); err != nil {
				return err
			}
			at := area + (rank-1)*length
			Add(m.floats[from:to], m.floats[at+from:at+to])
		}
		for rank := 1; rank < m.g.Size(); rank++ {
			if err := m.put(ctx, rank, from, from, to); err != nil {
				return err
			}
		}
		return nil
	})
}

// mesh: every rank is the centre of a star for its part. The other ranks come in an order that
// begins behind our own, so that not everybody sends to rank 0 first.
func (m *Member) mesh(ctx context.Context) error {
	n, rank, area := m.g.Size(), m.g.Rank, m.area()
	length := len(m.Vector)
	others := func(do func(peer int) error) error {
		for i := 1; i < n; i++ {
			if err := do((rank + i) % n); err != nil {
				return err
			}
		}
		return nil
	}
	slot := func(owner, sender int) int { // where a sender's share of the owner's part goes
		return area + (sender-owner+n)%n*length - length
	}
	err := others(func(peer int) error {
		from, to := m.part(peer)
		return pieces(from, to, func(from, to int) error { return m.put(ctx, peer, slot(peer, rank)+from, from, to) })
	})
	if err != nil {
		return err
	}
	from, to := m.part(rank)
	err = pieces(from, to, func(from, to int) error {
		err := others(func(peer int) error {
			if err := m.next(ctx, peer, to-from); err != nil {
				return err
			}
			at := slot(rank, peer)
			Add(m.floats[from:to], m.floats[at+from:at+to])
			return nil
		})
		if err != nil {
			return err
		}
		return others(func(peer int) error { return m.put(ctx, peer, from, from, to) })
	})
	if err != nil {
		return err
	}
	return others(func(peer int) error {
		from, to := m.part(peer)
		return pieces(from, to, func(from, to int) error { return m.next(ctx, peer, to-from) })
	})
}
