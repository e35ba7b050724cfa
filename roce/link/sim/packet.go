package sim

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// ethernetBytes is what a frame costs on the wire beyond the IP packet: preamble, header, check
// sequence, gap.
const ethernetBytes = 8 + 14 + 4 + 12

// packet is a packet under way.
type packet struct {
	src    link.Source // as the receiver will see it
	tclass uint8
	ttl    uint8
	data   []byte     // UDP payload
	hops   int        // trunks that it has passed
	from   *pipeState // by which it came to the switch; nil without PFC
}

// wireBytes is the size of the packet on a cable.
func (p *packet) wireBytes() int {
	n := len(p.data) + ib.UDPHeaderBytes + ib.IPv4HeaderBytes + ethernetBytes
	if p.src.Dst.Is6() {
		n += ib.IPv6HeaderBytes - ib.IPv4HeaderBytes
	}
	return n
}

// alloc returns a packet to fill; mu is held.
func (f *Fabric) alloc() *packet {
	if n := len(f.free); n > 0 {
		p := f.free[n-1]
		f.free = f.free[:n-1]
		p.data, p.hops, p.from = p.data[:0], 0, nil
		return p
	}
	return &packet{data: make([]byte, 0, ib.MaxPacketBytes)}
}

func (f *Fabric) recycle(p *packet) { f.free = append(f.free, p) }

func (f *Fabric) clone(p *packet) *packet {
	q := f.alloc()
	data := append(q.data, p.data...)
	*q = *p
	q.data = data
	return q
}

// route is the switch: it decides what happens to a packet and puts it into the pipes to its hosts,
// or into the next trunk on its way.
func (f *Fabric) route(p *packet) {
	if len(f.routes) > 0 {
		if trunks := f.routes[[2]netip.Addr{p.src.Src, p.src.Dst}]; p.hops < len(trunks) {
			f.toTrunk(trunks[p.hops], p)
			return
		}
	}
	if p.src.Dst.IsMulticast() {
		for _, h := range f.order {
			if h.joined(f.groups[p.src.Dst]) {
				f.forward(h, f.clone(p))
			}
		}
		f.recycle(p)
		return
	}
	h := f.hosts[p.src.Dst]
	if h == nil {
		f.stats.Unreachable++
		f.sendBack(p)
		return
	}
	f.forward(h, p)
}

// sendBack handles a packet to a host that no longer has a device, as when its process has ended:
// if the packet was to queue pair 1, its sender gets its beginning back, as by ICMP. A packet to a
// host that never existed is lost in the network.
func (f *Fabric) sendBack(p *packet) {
	defer f.recycle(p)
	h := f.hosts[p.src.Src]
	if h == nil || !f.left[p.src.Dst] || f.cut[[2]netip.Addr{p.src.Src, p.src.Dst}] || !slots.Manages(p.data) {
		return
	}
	from, quote := p.src.Dst, slices.Clone(p.data[:min(len(p.data), quoteBytes)])
	f.push(event{at: f.now + int64(h.down.Latency), kind: callback, fn: func() {
		f.lock()
		l := h.first()
		var progress func()
		if l != nil && len(l.back) < maxBack {
			l.back = append(l.back, edge.Returned{From: from, Quote: quote})
			progress = l.progress
		}
		f.mu.Unlock()
		if progress != nil {
			progress()
		}
	}})
}

const (
	quoteBytes = 128
	maxBack    = 1024
)

// Returned returns one; see [link.Link].
func (l *Link) Returned() (b edge.Returned) {
	l.f.lock()
	defer l.f.mu.Unlock()
	if len(l.back) == 0 {
		return b
	}
	b, l.back = l.back[0], l.back[1:]
	return b
}

// forward applies the faults on the way to a host.
func (f *Fabric) forward(h *node, p *packet) {
	pair := [2]netip.Addr{p.src.Src, p.src.Dst}
	if f.cut[pair] {
		f.stats.Partitioned++
		f.recycle(p)
		return
	}
	x, ok := f.faults[pair]
	if !ok {
		x = f.cfg.Faults
	}
	// Each probability draws only if it is set: adding one kind of fault to a scenario leaves the
	// others unchanged as far as possible.
	if x.Loss > 0 && f.loses(pair, &x) {
		f.stats.Lost++
		f.recycle(p)
		return
	}
	if x.Duplicate > 0 && f.rng.Float64() < x.Duplicate {
		f.stats.Duplicated++
		f.toHost(h, f.clone(p), &x)
	}
	if x.Corrupt > 0 && f.rng.Float64() < x.Corrupt {
		f.stats.Corrupted++
		bit := f.rng.IntN(8 * len(p.data))
		p.data[bit/8] ^= 1 << (bit % 8)
	}
	f.toHost(h, p, &x)
}

// loses draws whether a packet between two hosts is lost. Bursts have two states, of which one
// loses everything.
func (f *Fabric) loses(pair [2]netip.Addr, x *Faults) bool {
	p := x.Loss
	if x.Burst > 1 {
		if p = 1 - 1/x.Burst; !f.bursts[pair] {
			p = x.Loss / (1 - x.Loss) / x.Burst
		}
	}
	lost := f.rng.Float64() < p
	f.bursts[pair] = lost && x.Burst > 1
	return lost
}

// toHost puts a packet into the pipe to its host.
func (f *Fabric) toHost(h *node, p *packet, x *Faults) {
	at, ok := h.down.enter(f, p.wireBytes(), p)
	if !ok {
		f.stats.Overflowed++
		f.recycle(p)
		return
	}
	extra := int64(0)
	if x.Jitter > 0 {
		extra += f.rng.Int64N(int64(x.Jitter))
	}
	if x.Reorder > 0 && f.rng.Float64() < x.Reorder {
		f.stats.Delayed++
		if x.ReorderDelay > 0 {
			extra += int64(x.ReorderDelay)
		} else {
			extra += int64(defaultReorderDelay)
		}
	}
	h.down.pass(f, at, extra, event{kind: atHost, host: h, pkt: p})
}

// deliver hands a packet to its host and returns the function that handles it.
func (f *Fabric) deliver(h *node, p *packet) func() {
	l := h.linkFor(p)
	if l == nil {
		f.stats.Unreachable++
		f.recycle(p)
		return nil
	}
	f.stats.Delivered++
	f.note('<', p)
	if p.src.Dst.IsMulticast() {
		return f.deliverToAll(h, p)
	}
	l.inbox = append(l.inbox, p)
	return l.progress
}

// deliverToAll is deliver for a multicast packet: to each link of the host that has joined the
// group and not left it since.
func (f *Fabric) deliverToAll(h *node, p *packet) func() {
	var handle []func()
	for _, l := range h.links {
		if l != nil && f.groups[p.src.Dst][l] > 0 {
			l.inbox = append(l.inbox, f.clone(p))
			handle = append(handle, l.progress)
		}
	}
	f.recycle(p)
	return func() {
		for _, progress := range handle {
			if progress != nil {
				progress()
			}
		}
	}
}
