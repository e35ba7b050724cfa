package raw

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
)

// Port follows the interfaces of a link's addresses.
type Port struct {
	mtuNo atomic.Uint32 // ib.MTU

	mu       sync.Mutex
	links    map[int]rtnl.Link // of the addresses; removed ones stay, down
	limit    func(index int) int
	override ib.MTU
	state    link.PortState
	watch    func(link.PortState)
}

// Init begins with the interfaces as they are. limit returns the longest IP
// packet that the link can handle on an interface, in bytes; override, if
// valid, replaces the MTU found.
func (p *Port) Init(links map[int]rtnl.Link, limit func(index int) int, override ib.MTU) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links, p.limit, p.override = maps.Clone(links), limit, override
	p.update()
}

// update works out the state and tells of it if it is new. mu is held.
func (p *Port) update() {
	s := link.PortState{MTU: ib.MTU4096}
	for _, k := range p.links {
		s.Up = s.Up || k.Up()
		m, _ := ib.MTUForInterface(min(k.MTU, p.limit(k.Index)))
		s.MTU = min(s.MTU, m)
	}
	if p.override.Valid() {
		s.MTU = min(p.override, s.MTU)
	}
	if s == p.state {
		return
	}
	p.state = s
	p.mtuNo.Store(uint32(s.MTU))
	if p.watch != nil {
		p.watch(s)
	}
}

// MTU returns the largest path MTU that the interfaces carry at the moment.
func (p *Port) MTU() ib.MTU { return ib.MTU(p.mtuNo.Load()) }

// Moved takes notice that an address is on another interface than old, which is
// kept if others are on it.
func (p *Port) Moved(old int, kept bool, now rtnl.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !kept {
		delete(p.links, old)
	}
	p.links[now.Index] = now
	p.update()
}

// Changed takes notice of an interface that has changed.
func (p *Port) Changed(k rtnl.Link, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ours := p.links[k.Index]; !ours {
		return
	}
	if gone {
		k.Flags = 0
	}
	p.links[k.Index] = k
	p.update()
}

// Reset takes notice that these are the interfaces now.
func (p *Port) Reset(links map[int]rtnl.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = maps.Clone(links)
	p.update()
}

// Watch calls f with the state of the interfaces now and whenever it changes.
// f must not call Watch.
func (p *Port) Watch(f func(link.PortState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = f
	if f != nil {
		f(p.state)
	}
}
