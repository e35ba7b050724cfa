package ether

import (
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxFrame is the largest Ethernet frame, in bytes.
	MaxFrame = 65536
	// queueFrames is the length of each port's output queue.
	queueFrames = 1 << 14
)

// Switch joins ports. Make it with New.
type Switch struct {
	mu     sync.Mutex
	ports  []*Port
	macs   map[[6]byte]*Port
	rules  []*Rule
	held   []*heldFrame
	traces []*Trace
	caps   []*Capture
	views  []*Views
	late   int // frames that rules delay
	closed bool

	start time.Time
	wg    sync.WaitGroup
}

// Port is one device on the switch.
type Port struct {
	Name string

	sw  *Switch
	dev io.ReadWriteCloser // nil if deliver is set
	// deliver takes what leaves by the port, under the switch's lock: see AttachFunc.
	deliver func(frame []byte)
	out     chan []byte
	gone    chan struct{} // closed with the port

	in, sent, overflow atomic.Int64

	// Under the switch's lock.
	frames, packets speaker // of any kind, and of RoCE
}

// PortStats counts frames.
type PortStats struct {
	In, Out  int64
	Overflow int64 // dropped because the queue to the port was full
}

type heldFrame struct {
	from  *Port
	pkt   *Packet
	left  int
	due   time.Duration // of Delay: on the clock of Now
	timer *time.Timer
}

// New returns a switch without ports.
func New() *Switch {
	return &Switch{macs: map[[6]byte]*Port{}, start: time.Now()}
}

// Now is the time on the clock of Event.At and Silence.
func (s *Switch) Now() time.Duration { return time.Since(s.start) }

// Attach adds a port. Each Read of dev must return one whole frame and each Write take
// one. The switch closes dev in Close, or when it fails.
func (s *Switch) Attach(name string, dev io.ReadWriteCloser) (*Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("switch is closed")
	}
	p := &Port{Name: name, sw: s, dev: dev, out: make(chan []byte, queueFrames), gone: make(chan struct{}),
		frames: speaker{last: s.Now()}, packets: speaker{last: s.Now()}}
	s.ports = append(s.ports, p)
	s.wg.Add(2)
	go p.read()
	go p.write()
	return p, nil
}

// AttachFunc adds a port without a device: Enter puts frames in, and what leaves by the port goes
// to deliver, which runs under the switch's lock, from whichever goroutine made the frame leave,
// and must not call the switch. The frame is deliver's to keep.
func (s *Switch) AttachFunc(name string, deliver func(frame []byte)) (*Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("switch is closed")
	}
	p := &Port{Name: name, sw: s, deliver: deliver, gone: make(chan struct{}), frames: speaker{last: s.Now()},
		packets: speaker{last: s.Now()}}
	s.ports = append(s.ports, p)
	return p, nil
}

// Enter takes a frame as if it had come over the cable of the port. When it returns the frame has
// left, been lost, or is held back. The frame is the switch's to keep and to change.
func (p *Port) Enter(frame []byte) {
	if len(frame) < ethLen {
		return
	}
	p.in.Add(1)
	p.sw.input(p, frame)
}

// Port returns the port of a name, or nil.
func (s *Switch) Port(name string) *Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Stats returns the port's counters.
func (p *Port) Stats() PortStats {
	return PortStats{In: p.in.Load(), Out: p.sent.Load(), Overflow: p.overflow.Load()}
}

// Inject sends a frame out of the port, as if it had come over the cable. It bypasses
// the rules and is traced.
func (p *Port) Inject(frame []byte) {
	s := p.sw
	s.mu.Lock()
	defer s.mu.Unlock()
	f := slices.Clone(frame)
	if pkt, ok := Decode(f); ok {
		s.trace(nil, pkt, "inject")
	}
	s.send(p, f)
}

// Detach removes a port and closes its device.
func (p *Port) Detach() {
	s := p.sw
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(p)
}

func (s *Switch) detach(p *Port) {
	i := slices.Index(s.ports, p)
	if i < 0 {
		return
	}
	s.ports = slices.Delete(s.ports, i, i+1)
	for m, q := range s.macs {
		if q == p {
			delete(s.macs, m)
		}
	}
	close(p.gone)
	if p.dev != nil {
		p.dev.Close()
	}
}

// Close detaches all ports and waits for their goroutines.
func (s *Switch) Close() {
	s.mu.Lock()
	s.closed = true
	for len(s.ports) > 0 {
		s.detach(s.ports[0])
	}
	for _, h := range s.held {
		h.timer.Stop()
	}
	s.held = nil
	caps := s.caps
	s.caps = nil
	s.mu.Unlock()
	s.wg.Wait()
	for _, c := range caps {
		c.close()
	}
}

// Add puts rules in force, behind those that are already.
func (s *Switch) Add(rules ...*Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rules...)
}

// Remove takes rules out of force. Packets that they hold go out at once.
func (s *Switch) Remove(rules ...*Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = slices.DeleteFunc(s.rules, func(r *Rule) bool { return slices.Contains(rules, r) })
}

func (p *Port) read() {
	defer p.sw.wg.Done()
	buf := make([]byte, MaxFrame)
	for {
		n, err := p.dev.Read(buf)
		if err != nil {
			p.Detach()
			return
		}
		if n < ethLen {
			continue
		}
		p.in.Add(1)
		p.sw.input(p, slices.Clone(buf[:n]))
	}
}

func (p *Port) write() {
	defer p.sw.wg.Done()
	for {
		select {
		case f := <-p.out:
			// A frame that the device refuses (a guest that just went, a tap that is down) is
			// lost like on a cable.
			if _, err := p.dev.Write(f); err == nil {
				p.sent.Add(1)
			}
		case <-p.gone:
			return
		}
	}
}

// input handles one frame that entered at from.
func (s *Switch) input(from *Port, f []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := s.Now()
	from.frames.heard(now)
	if src := [6]byte(f[6:12]); src[0]&1 == 0 {
		s.macs[src] = from
	}
	p, ok := Decode(f)
	for _, v := range s.views {
		v.entered(from, f, p)
		defer v.handled()
	}
	if !ok {
		s.forward(from, f)
		return
	}
	from.packets.heard(now)
	if !p.IsAck() {
		for to := range s.ways(from, f) {
			to.packets.asked(now, p.QPN)
		}
	}
	for _, r := range s.rules {
		if r.wants(from.Name, p) {
			s.act(r, from, p)
			return
		}
	}
	s.trace(from, p, "")
	s.forward(from, f)
	s.releaseBehind(p)
}

func (s *Switch) act(r *Rule, from *Port, p *Packet) {
	for _, v := range s.views {
		v.acted(r, p)
	}
	if r.Kind != Rewrite && r.Kind != Corrupt && r.Kind != MarkCE {
		s.trace(from, p, r.Kind.String())
	}
	switch r.Kind {
	case Drop:
		return
	case Swallow:
		for to := range s.ways(from, p.Frame) {
			s.seen(to, p.Frame)
		}
		s.releaseBehind(p)
		return
	case Hold:
		s.hold(r, from, p)
		return
	case Delay:
		s.delay(r, from, p)
		return
	case Duplicate:
		for range max(r.Copies, 1) {
			s.forward(from, slices.Clone(p.Frame))
		}
	case Corrupt:
		r.corrupt(p)
		s.trace(from, p, "corrupt")
	case Rewrite:
		r.Edit(p)
		p.Seal()
		if q, ok := Decode(p.Frame); ok {
			p = q
		}
		s.trace(from, p, "rewrite")
	case MarkCE:
		p.MarkCE()
		s.trace(from, p, "mark-ce")
	}
	s.forward(from, p.Frame)
	s.releaseBehind(p)
}

// maxLate bounds how many frames rules may delay at a time; what is beyond is lost, and counted as
// Overflow of its port.
const maxLate = 1 << 16

// delay lets a frame go later, and before it those that came before it: timers run in any order.
func (s *Switch) delay(r *Rule, from *Port, p *Packet) {
	if s.late >= maxLate {
		from.overflow.Add(1)
		return
	}
	s.late++
	h := &heldFrame{from: from, pkt: p, due: s.Now() + r.MaxHold}
	r.late = append(r.late, h)
	h.timer = time.AfterFunc(r.MaxHold, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return
		}
		n := 0
		for now := s.Now(); n < len(r.late) && r.late[n].due <= now; n++ {
			g := r.late[n]
			s.trace(g.from, g.pkt, "release")
			s.forward(g.from, g.pkt.Frame)
			s.releaseBehind(g.pkt)
		}
		s.late -= n
		r.late = slices.Delete(r.late, 0, n)
	})
}

func (s *Switch) hold(r *Rule, from *Port, p *Packet) {
	h := &heldFrame{from: from, pkt: p, left: max(r.Behind, 1)}
	limit := r.MaxHold
	if limit == 0 {
		limit = HoldMax
	}
	h.timer = time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(h)
	})
	s.held = append(s.held, h)
}

// releaseBehind counts p against the packets held on the same way.
func (s *Switch) releaseBehind(p *Packet) {
	for _, h := range slices.Clone(s.held) {
		if h.pkt.Src != p.Src || h.pkt.Dst != p.Dst || h.pkt.QPN != p.QPN {
			continue
		}
		if h.left--; h.left <= 0 {
			s.release(h)
		}
	}
}

func (s *Switch) release(h *heldFrame) {
	i := slices.Index(s.held, h)
	if i < 0 {
		return
	}
	s.held = slices.Delete(s.held, i, i+1)
	h.timer.Stop()
	s.trace(h.from, h.pkt, "release")
	s.forward(h.from, h.pkt.Frame)
}

// forward queues a frame to the port of its destination, or to all others.
func (s *Switch) forward(from *Port, f []byte) {
	for p := range s.ways(from, f) {
		s.send(p, f)
	}
}

// ways yields the ports that a frame goes to.
func (s *Switch) ways(from *Port, f []byte) iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		if dst := [6]byte(f[0:6]); dst[0]&1 == 0 {
			if p, ok := s.macs[dst]; ok {
				if p != from {
					yield(p)
				}
				return
			}
		}
		for _, p := range s.ports {
			if p != from && !yield(p) {
				return
			}
		}
	}
}

func (s *Switch) send(p *Port, f []byte) {
	s.seen(p, f)
	if p.deliver != nil {
		p.sent.Add(1)
		p.deliver(f)
		return
	}
	select {
	case p.out <- f:
	default:
		p.overflow.Add(1)
	}
}

// seen shows a frame that reaches a port to those who record.
func (s *Switch) seen(p *Port, f []byte) {
	for _, c := range s.caps {
		c.frame(f)
	}
	for _, v := range s.views {
		v.left(p, f)
	}
}
