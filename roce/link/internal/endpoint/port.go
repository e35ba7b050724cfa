package endpoint

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
)

// Port follows the interfaces of a link's addresses. The port is up while one of them is, and its
// MTU is the smallest of theirs.
type Port struct {
	mtuNo atomic.Uint32 // ib.MTU

	mu       sync.Mutex
	links    map[int]rtnl.Link // of the addresses; removed ones stay, down
	limit    func(index int) int
	override ib.MTU
	state    link.PortState
	watch    func(link.PortState)
}

// Init starts with the current interfaces. limit returns the longest IP packet that the link can
// handle on an interface, in bytes; override, if valid, replaces the MTU found.
func (t *Port) Init(links map[int]rtnl.Link, limit func(index int) int, override ib.MTU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links, t.limit, t.override = maps.Clone(links), limit, override
	t.update()
}

// update computes the state and reports it if it is new. mu is held.
func (t *Port) update() {
	s := link.PortState{MTU: ib.MTU4096}
	for _, k := range t.links {
		s.Up = s.Up || k.Up()
		m, _ := ib.MTUForInterface(min(k.MTU, t.limit(k.Index)))
		s.MTU = min(s.MTU, m)
	}
	if t.override.Valid() {
		s.MTU = min(t.override, s.MTU)
	}
	if s == t.state {
		return
	}
	t.state = s
	t.mtuNo.Store(uint32(s.MTU))
	if t.watch != nil {
		t.watch(s)
	}
}

// MTU returns the largest path MTU that the interfaces carry now.
func (t *Port) MTU() ib.MTU { return ib.MTU(t.mtuNo.Load()) }

// Moved handles the move of an address away from interface old, which is kept if others are on it.
func (t *Port) Moved(old int, kept bool, now rtnl.Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !kept {
		delete(t.links, old)
	}
	t.links[now.Index] = now
	t.update()
}

// Changed handles a change of an interface.
func (t *Port) Changed(k rtnl.Link, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ours := t.links[k.Index]; !ours {
		return
	}
	if gone {
		k.Flags = 0
	}
	t.links[k.Index] = k
	t.update()
}

// Reset replaces the interfaces.
func (t *Port) Reset(links map[int]rtnl.Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links = maps.Clone(links)
	t.update()
}

// Watch calls f with the state of the interfaces, now and whenever it changes. f must not call
// Watch.
func (t *Port) Watch(f func(link.PortState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = f
	if f != nil {
		f(t.state)
	}
}
