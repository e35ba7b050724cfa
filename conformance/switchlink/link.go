package switchlink

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// The names of the switch's ports.
const (
	Near = "goroce" // the device
	Far  = "peer"   // the network
)

// Link is a link behind a switch.
type Link struct {
	link.Link
	near, far *ether.Port

	// sendMu is held by who uses the sending side of the link below.
	sendMu sync.Mutex
	flows  flows

	txMu    sync.Mutex
	tx      []outgoing
	current *byte           // first byte of the frame that Send has put in
	path    *transport.Path // of that frame
	batch   []transport.TxPacket

	rxMu sync.Mutex
	rx   []transport.RxPacket
	in   []transport.RxPacket
	ids  identifier

	damaged atomic.Uint64
	kick    chan struct{}
	done    chan struct{}
	closing sync.Once
	pumped  sync.WaitGroup
}

// outgoing is a frame that has passed the switch.
type outgoing struct {
	frame []byte
	path  *transport.Path // the device's; nil if the frame has been held back, was made or was changed
}

// New wraps l. The switch has no ports of these names yet; it stays its owner's to close, after the
// link.
func New(l link.Link, sw *ether.Switch) (*Link, error) {
	w := &Link{Link: l, kick: make(chan struct{}, 1), done: make(chan struct{}), flows: newFlows(l)}
	if sw.Port(Near) != nil || sw.Port(Far) != nil {
		return nil, fmt.Errorf("switchlink: the switch has a port %s or %s", Near, Far)
	}
	var err error
	if w.near, err = sw.AttachFunc(Near, w.toDevice); err != nil {
		return nil, err
	}
	if w.far, err = sw.AttachFunc(Far, w.toNetwork); err != nil {
		w.near.Detach()
		return nil, err
	}
	w.pumped.Go(w.pump)
	return w, nil
}

// Unwrap returns the link below.
func (w *Link) Unwrap() link.Link { return w.Link }

// Send puts packets into the switch, and sends what comes out of it.
func (w *Link) Send(batch []transport.TxPacket) {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	defer w.flush() // also of those before a payload that is not there
	for i := range batch {
		frame, ok := w.flows.frame(&batch[i])
		if !ok {
			continue // of two families: no link can send it
		}
		w.setCurrent(&frame[0], batch[i].Path)
		w.near.Enter(frame)
		w.setCurrent(nil, nil)
	}
}

func (w *Link) setCurrent(frame *byte, p *transport.Path) {
	w.txMu.Lock()
	defer w.txMu.Unlock()
	w.current, w.path = frame, p
}

// toNetwork takes what leaves the switch for the network.
func (w *Link) toNetwork(frame []byte) {
	w.txMu.Lock()
	o := outgoing{frame: frame}
	own := w.current == &frame[0]
	if own {
		o.path = w.path
	}
	w.tx = append(w.tx, o)
	w.txMu.Unlock()
	if !own { // Send flushes what is its own, and others may come at any time
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// pump sends what did not come from Send.
func (w *Link) pump() {
	for {
		select {
		case <-w.kick:
			w.sendMu.Lock()
			w.flush()
			w.sendMu.Unlock()
		case <-w.done:
			return
		}
	}
}

// flush sends all that has left the switch; sendMu is held.
func (w *Link) flush() {
	w.txMu.Lock()
	out := w.tx
	w.tx = nil
	w.txMu.Unlock()
	for i := range out {
		if p, ok := w.flows.packet(&out[i]); ok {
			w.batch = append(w.batch, p)
		}
	}
	if len(w.batch) > 0 {
		w.Link.Send(w.batch)
		clear(w.batch)
		w.batch = w.batch[:0]
	}
}

// Blocked is the link's.
func (w *Link) Blocked() bool {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	return w.Link.Blocked()
}

// Recv puts what has arrived into the switch, and hands up what comes out of it.
func (w *Link) Recv(batch []transport.RxPacket) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	for {
		if n := w.take(batch); n > 0 {
			return n, nil
		}
		if cap(w.in) < len(batch) {
			w.in = make([]transport.RxPacket, len(batch))
		}
		n, err := w.Link.Recv(w.in[:len(batch)])
		if n == 0 || err != nil {
			return w.take(batch), err
		}
		for i := range w.in[:n] {
			w.far.Enter(w.ids.frame(&w.in[i]))
		}
	}
}

// take hands up what waits.
func (w *Link) take(batch []transport.RxPacket) int {
	w.rxMu.Lock()
	defer w.rxMu.Unlock()
	n := copy(batch, w.rx)
	w.rx = slices.Delete(w.rx, 0, n)
	return n
}

// toDevice takes what leaves the switch for the device.
func (w *Link) toDevice(frame []byte) {
	p, ok := ether.Decode(frame)
	if !ok {
		return
	}
	if !p.ICRCValid() {
		w.damaged.Add(1)
		return
	}
	w.rxMu.Lock()
	w.rx = append(w.rx, received(p))
	w.rxMu.Unlock()
	w.Link.Wake()
}

// Wait returns at once if something waits here.
func (w *Link) Wait(timeout time.Duration) error {
	if w.waiting() {
		return nil
	}
	return w.Link.Wait(timeout)
}

func (w *Link) waiting() bool {
	w.rxMu.Lock()
	defer w.rxMu.Unlock()
	return len(w.rx) > 0
}

// CaughtUp reports whether that was handed up, but for what a rule holds back: it counts as on
// its way.
func (w *Link) CaughtUp() bool {
	return !w.waiting() && w.Link.CaughtUp()
}

// Stats are the link's, with packets damaged by a rule among those whose ICRC was wrong.
func (w *Link) Stats() link.Stats {
	s := w.Link.Stats()
	s.RxICRC += w.damaged.Load()
	return s
}

// Close takes the ports off the switch and closes the link.
func (w *Link) Close() error {
	w.closing.Do(func() {
		close(w.done)
		w.pumped.Wait()
		w.near.Detach()
		w.far.Detach()
	})
	return w.Link.Close()
}

// wrongBy is what has to be xored into the right ICRC of a frame to get the one that it has.
func wrongBy(p *ether.Packet) uint32 {
	if p.ICRCValid() {
		return 0
	}
	return p.ICRC() ^ p.GotICRC()
}

// received is a frame as a packet handed up by a link.
func received(p *ether.Packet) transport.RxPacket {
	tc, hops := p.IPClass()
	return transport.RxPacket{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, TrafficClass: tc,
		HopLimit: hops, Data: p.BTH()}
}

var _ interface {
	link.Link
	link.Wrapper
} = (*Link)(nil)

// icrcBytes is the length of the ICRC at the end of a frame.
const icrcBytes = ib.ICRCBytes
