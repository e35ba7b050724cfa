package drill

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
)

// virtualLink is a link whose other end is the drill, and whose clock is moved by hand. Nothing
// takes time on it. Devices on it have no goroutine.
type virtualLink struct {
	mu       sync.Mutex
	addrs    []netip.Addr
	verifier *link.Verifier
	now      int64
	most     int        // bytes of the longest frame that leaves; 0: any
	in       []Datagram // to the device
	lent     []Datagram // handed up by the last Recv
	out      []Datagram // from the device
	progress func()
	timer    int64
	timerSet bool
	stats    link.Stats
	closed   bool
}

var _ link.Driven = (*virtualLink)(nil)

func newVirtualLink(addrs ...netip.Addr) *virtualLink {
	return &virtualLink{addrs: addrs, verifier: link.NewVerifier(ib.UDPPort)}
}

func (l *virtualLink) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *virtualLink) Addrs() []netip.Addr { return slices.Clone(l.addrs) }
func (l *virtualLink) MTU() ib.MTU         { return ib.MTU4096 }
func (l *virtualLink) Blocked() bool       { return false }
func (l *virtualLink) Wake()               {}
func (l *virtualLink) Mark()               {}
func (l *virtualLink) CaughtUp() bool      { return true } // a drill waits until all is handed up

func (l *virtualLink) Join(_, _ netip.Addr) error          { return link.ErrUnsupported }
func (l *virtualLink) Leave(_, _ netip.Addr) error         { return link.ErrUnsupported }
func (l *virtualLink) Returned() edge.Returned             { return edge.Returned{} }
func (l *virtualLink) SourcePort(p *transport.Path) uint16 { return cmp.Or(p.SrcPort, ib.UDPPort) }

// Watch says once that all is up.
func (l *virtualLink) Watch(f func(link.PortState)) {
	if f != nil {
		f(link.PortState{Up: true, MTU: l.MTU()})
	}
}

func (l *virtualLink) Capabilities() link.Capabilities {
	return link.Capabilities{Name: "drill", ICRCBits: 32, ECN: true, Virtual: true}
}

func (l *virtualLink) Stats() link.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Send gives packets to the drill.
func (l *virtualLink) Send(batch []transport.TxPacket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		tx := &batch[i]
		port := l.SourcePort(tx.Path)
		c := link.FlowICRC(tx.Path, port, ib.UDPPort)
		d := Datagram{
			At: time.Duration(l.now), Src: tx.Path.Src, Dst: tx.Path.Dst.WithZone(""), SrcPort: port,
			TOS: tx.Path.TrafficClass, FlowLabel: tx.Path.FlowLabel, Payload: link.AppendPacket(nil, &c, tx, 0),
		}
		if l.most == 0 || d.frameBytes() <= l.most {
			l.out = append(l.out, d)
		}
		l.stats.TxPackets++
	}
}

// Recv hands up what the drill has sent.
func (l *virtualLink) Recv(batch []transport.RxPacket) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, link.ErrClosed
	}
	l.lent = l.lent[:0]
	n := 0
	for len(l.in) > 0 && n < len(batch) {
		d := l.in[0]
		l.in = l.in[1:]
		switch l.verifier.Flow(&link.Source{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}).CheckKnown(d.Payload, 0) {
		case link.VerdictShort:
			l.stats.RxShort++
			continue
		case link.VerdictBad:
			l.stats.RxICRC++
			continue
		}
		l.lent = append(l.lent, d)
		batch[n] = transport.RxPacket{Src: d.Src, Dst: d.Dst, TrafficClass: d.TOS, HopLimit: 64,
			SrcPort: d.SrcPort, Data: d.Payload}
		n++
		l.stats.RxPackets++
	}
	return n, nil
}

// Wait is for users of the interface other than a device: nothing comes by itself.
func (l *virtualLink) Wait(time.Duration) error { return nil }

func (l *virtualLink) Attach(progress func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress = progress
}

func (l *virtualLink) SetTimer(at int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer, l.timerSet = at, ok
}

func (l *virtualLink) Changed() <-chan struct{} { return nil }

func (l *virtualLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// Step runs the next timer, whenever that is: for calls of the device that wait.
func (l *virtualLink) Step() bool { return l.step(1<<63 - 1) }

// step has the device handle what has come, or moves the clock to its next timer if that is due
// by the limit. It reports false if there is neither.
func (l *virtualLink) step(limit int64) bool {
	l.mu.Lock()
	run := l.progress
	switch {
	case run == nil:
		l.mu.Unlock()
		return false
	case len(l.in) > 0:
	case l.timerSet && l.timer <= limit:
		l.now = max(l.now, l.timer)
		l.timerSet = false
	default:
		l.mu.Unlock()
		return false
	}
	l.mu.Unlock()
	run()
	return true
}

// pass moves the clock to a time.
func (l *virtualLink) pass(to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = max(l.now, to)
}

func (l *virtualLink) uplink(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
}

// frameBytes is the length of the Ethernet frame.
func (d *Datagram) frameBytes() int {
	const ethernet, ipv4, ipv6, udp = 14, 20, 40, 8
	if d.Src.Is4() {
		return ethernet + ipv4 + udp + len(d.Payload)
	}
	return ethernet + ipv6 + udp + len(d.Payload)
}

func (l *virtualLink) push(d Datagram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = append(l.in, d)
}

func (l *virtualLink) pop() (Datagram, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.out) == 0 {
		return Datagram{}, false
	}
	d := l.out[0]
	l.out = l.out[1:]
	return d, true
}
