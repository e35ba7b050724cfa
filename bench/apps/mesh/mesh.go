package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Link is the connection to one peer. Put, Flush and Next may be called by one goroutine each.
type Link interface {
	// Put begins to copy n bytes at offset from of our arena to offset to of the peer's, and then
	// tells the peer the tag. Pieces arrive in the order of their Puts. The bytes must not change
	// before Flush has returned. It returns while they are on their way, and waits while many are.
	Put(ctx context.Context, to, from, n int, tag uint32) error
	// Flush waits until what was Put needs our memory no more.
	Flush(ctx context.Context) error
	// Next waits for the next piece of the peer and returns its tag. Its bytes are in our arena.
	// The error is io.EOF if the peer has closed.
	Next(ctx context.Context) (tag uint32, err error)
	Close() error
}

// Config is what a member says about its group.
type Config struct {
	Addrs []string // where the members listen, by rank; the same in all of them
	Rank  int      // which of them this one is
	Arena []byte   // of the same length in all members, of at most 4 GiB - 1
	// Peers are the ranks that this member has links to, nil for all others. Two members have to
	// agree: each is a peer of the other, or neither is.
	Peers []int
}

// Network makes the links of a member: [RoCE] or [TCP].
type Network interface {
	// listen serves until the context ends. Each peer that comes is given to found.
	listen(ctx context.Context, cfg Config, found func(rank int, l Link)) (stop func(), err error)
	// dial connects to one rank.
	dial(ctx context.Context, cfg Config, rank int) (Link, error)
}

// Group is a member's links to all others.
type Group struct {
	Rank  int
	Arena []byte
	links []Link // by rank; nil at our own, and where there is none
	ended atomic.Bool
	gone  chan struct{} // closed when Close is done
	err   error
}

// Join connects to all peers, and returns when that is done. A member listens for those
// of higher rank and dials those of lower rank, which may begin later than it.
func Join(ctx context.Context, network Network, cfg Config) (*Group, error) {
	if cfg.Rank < 0 || cfg.Rank >= len(cfg.Addrs) {
		return nil, fmt.Errorf("mesh: rank %d of a group of %d", cfg.Rank, len(cfg.Addrs))
	}
	g := &Group{Rank: cfg.Rank, Arena: cfg.Arena, links: make([]Link, len(cfg.Addrs)), gone: make(chan struct{})}
	peers := cfg.Peers
	if peers == nil {
		for rank := range cfg.Addrs {
			if rank != cfg.Rank {
				peers = append(peers, rank)
			}
		}
	}
	var mu sync.Mutex
	missing := len(peers)
	complete := make(chan struct{})
	found := func(rank int, l Link) {
		mu.Lock()
		defer mu.Unlock()
		if rank < 0 || rank >= len(g.links) || !slices.Contains(peers, rank) || g.links[rank] != nil {
			l.Close() // a stranger, or one that comes twice
			return
		}
		g.links[rank] = l
		if missing--; missing == 0 {
			close(complete)
		}
	}
	if missing == 0 {
		return g, nil
	}
	stop, err := network.listen(ctx, cfg, found)
	if err != nil {
		return nil, err
	}
	for _, rank := range peers {
		if rank > cfg.Rank {
			continue // it dials us
		}
		l, err := network.dial(ctx, cfg, rank)
		if err != nil {
			stop()
			return nil, errors.Join(fmt.Errorf("mesh: rank %d: %w", rank, err), g.Close())
		}
		found(rank, l)
	}
	select {
	case <-complete:
		stop()
		return g, nil
	case <-ctx.Done():
		stop()
		mu.Lock()
		defer mu.Unlock()
		return nil, errors.Join(fmt.Errorf("mesh: %d members have not come: %w", missing, ctx.Err()), g.Close())
	}
}

// Linked says whether there is a link to a rank.
func (g *Group) Linked(rank int) bool { return g.links[rank] != nil }

// Size is how many members there are.
func (g *Group) Size() int { return len(g.links) }

// Link returns the link to a rank that is a peer.
func (g *Group) Link(rank int) Link { return g.links[rank] }

// Flush waits until no link needs our memory for what was Put.
func (g *Group) Flush(ctx context.Context) error {
	for _, l := range g.links {
		if l != nil {
			if err := l.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends all links. Members that wait for us get an error.
func (g *Group) Close() error {
	if g.ended.Swap(true) { // a sync.Once would hold a mutex while the network is waited for
		<-g.gone
		return g.err
	}
	var wait sync.WaitGroup
	errs := make([]error, len(g.links))
	for i, l := range g.links {
		if l != nil {
			wait.Go(func() { errs[i] = l.Close() })
		}
	}
	wait.Wait()
	g.err = errors.Join(errs...)
	close(g.gone)
	return g.err
}
