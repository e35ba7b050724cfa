package packet

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"golang.org/x/sys/unix"
)

// port follows the interfaces of the link's addresses.
type port struct {
	l     *Link
	mtuNo atomic.Uint32 // ib.MTU

	mu    sync.Mutex
	links map[int]rtnl.Link // of the addresses; removed ones stay, down
	state link.PortState
	watch func(link.PortState)
}

// init reads the interfaces; one that cannot carry RoCE is an error.
func (p *port) init(l *Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l = l
	p.links = make(map[int]rtnl.Link)
	for i, index := range l.ifIndex {
		if index == 0 {
			continue
		}
		k := l.linkOf(index)
		p.links[index] = k
		if !k.Ethernet() {
			return &OpenError{Addr: l.addrs[i], Hint: "use the udp link", Err: fmt.Errorf("interface %s is not Ethernet", k.Name)}
		}
		if k.Flags&unix.IFF_LOOPBACK != 0 {
			l.loopback = index
		}
		if _, ok := ib.MTUForInterface(k.MTU); !ok {
			return &OpenError{Addr: l.addrs[i], Hint: "raise the MTU of " + k.Name, Err: fmt.Errorf("interface MTU %d is too small for RoCE", k.MTU)}
		}
	}
	if l.loopback == 0 {
		l.loopback = 1 // always, in a network namespace; no address depends on it
	}
	p.update()
	return nil
}

// update works out the state and tells of it if it is new. mu is held.
func (p *port) update() {
	s := link.PortState{MTU: ib.MTU4096}
	for _, k := range p.links {
		s.Up = s.Up || k.Up()
		m, _ := ib.MTUForInterface(k.MTU)
		s.MTU = min(s.MTU, m)
	}
	if o := p.l.opts.MTU; o.Valid() {
		s.MTU = o
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

func (p *port) mtu() ib.MTU { return ib.MTU(p.mtuNo.Load()) }

// changed takes notice of an interface that has changed.
func (p *port) changed(k rtnl.Link, gone bool) {
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

// Watch calls f with the state of the interfaces now and whenever it changes.
// f must not call Watch or Close.
func (l *Link) Watch(f func(link.PortState)) {
	p := &l.port1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = f
	if f != nil {
		f(p.state)
	}
}
