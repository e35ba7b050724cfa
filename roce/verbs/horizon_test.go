package verbs

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// slowLink is a link whose clock and packets a test holds in its hands. Packets
// wait in it while its clock goes on.
type slowLink struct {
	mu      sync.Mutex
	now     int64
	waiting [][]byte
	endless []byte // arrives whenever nothing else waits
	sent    []ib.Packet
	change  chan struct{} // closed when something happens
	happens bool          // since the last Wait
	empty   bool          // since the last Mark
	closed  bool

	progress func() // of a driven device
}

func newSlowLink() *slowLink { return &slowLink{change: make(chan struct{})} }

var slowLocal, slowPeer = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

func (l *slowLink) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}
func (l *slowLink) Addrs() []netip.Addr { return []netip.Addr{slowLocal} }
func (l *slowLink) MTU() ib.MTU         { return ib.MTU1024 }
func (l *slowLink) Send(batch []transport.TxPacket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		var p ib.Packet
		p.Decode(append(batch[i].AppendTo(nil), 0, 0, 0, 0))
		p.Payload = nil
		l.sent = append(l.sent, p)
	}
}
func (l *slowLink) Blocked() bool                       { return false }
func (l *slowLink) Mark()                               { l.empty = false }
func (l *slowLink) CaughtUp() bool                      { return l.empty }
func (l *slowLink) Join(_, _ netip.Addr) error          { return link.ErrUnsupported }
func (l *slowLink) Leave(_, _ netip.Addr) error         { return link.ErrUnsupported }
func (l *slowLink) Returned() edge.Returned             { return edge.Returned{} }
func (l *slowLink) SourcePort(p *transport.Path) uint16 { return p.SrcPort }
func (l *slowLink) Watch(func(link.PortState))          {}
func (l *slowLink) Recv(batch []transport.RxPacket) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, link.ErrClosed
	}
	n := 0
	for ; n < len(batch) && (len(l.waiting) > 0 || l.endless != nil); n++ {
		data := l.endless
		if len(l.waiting) > 0 {
			data, l.waiting = l.waiting[0], l.waiting[1:]
		}
		batch[n] = transport.RxPacket{Src: slowPeer, Dst: slowLocal, HopLimit: 64, Data: data}
	}
	l.empty = l.empty || n == 0
	return n, nil
}
func (l *slowLink) Wait(time.Duration) error {
	l.mu.Lock()
	c := l.change
	if len(l.waiting) > 0 || l.happens {
		c = nil
	}
	l.mu.Unlock()
	if c != nil {
		<-c
	}
	l.mu.Lock()
	l.happens = false
	l.mu.Unlock()
	return nil
}
func (l *slowLink) Wake() { l.happen(func() {}) }

// happen changes the link, and tells who waits or is about to.
func (l *slowLink) happen(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.happens = true
	close(l.change)
	l.change = make(chan struct{})
}
func (l *slowLink) Capabilities() link.Capabilities { return link.Capabilities{Name: "slow"} }
func (l *slowLink) Stats() link.Stats               { return link.Stats{} }
func (l *slowLink) Close() error {
	l.closed = true
	return nil
}

// drivenLink is a slowLink that drives its device.
type drivenLink struct{ *slowLink }

func (l drivenLink) Attach(f func())          { l.progress = f }
func (l drivenLink) SetTimer(int64, bool)     {}
func (l drivenLink) Step() bool               { return false }
func (l drivenLink) Changed() <-chan struct{} { return l.change }

// markedLink is a slowLink with room for so many packets.
type markedLink struct {
	*slowLink
	room, left int
}

func (l *markedLink) Mark()          { l.left = l.room }
func (l *markedLink) CaughtUp() bool { return l.left <= 0 }
func (l *markedLink) Recv(batch []transport.RxPacket) (int, error) {
	n, err := l.slowLink.Recv(batch)
	l.left -= n
	if n == 0 {
		l.left = 0
	}
	return n, err
}

// deafLink never catches up, though it has nothing to hand up.
type deafLink struct{ markedLink }

func (l *deafLink) CaughtUp() bool { return false }
func (l *deafLink) Wait(ns time.Duration) error {
	if ns == 0 {
		return nil
	}
	return l.markedLink.Wait(ns)
}

// A link that says so for ever keeps its timers, but not the device from closing.
func TestNeverCaughtUp(t *testing.T) {
	for name, polling := range map[string]bool{"event-driven": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			slow := newSlowLink()
			e := slowEnd(t, slow, Config{Link: &deafLink{markedLink{slowLink: slow}}, Polling: polling})
			slow.happen(func() { slow.now += 1e9 }) // the ACK timer is due
			for range 10 {
				_, err := e.cq.Poll(make([]WC, 1))
				require.NoError(t, err)
			}
			require.NoError(t, e.d.Close())
		})
	}
}

// ackOf is an acknowledgement for a queue pair.
func ackOf(qpn ib.QPN, psn ib.PSN) []byte {
	p := ib.Packet{}
	p.Opcode, p.DestQP, p.PSN, p.PKey = ib.RCAcknowledge, qpn, psn, ib.PKeyDefault
	p.AETH.Syndrome, p.AETH.MSN = ib.ACKCredit(31), 1
	b := make([]byte, 64)
	return b[:p.PutHeaders(b)+ib.ICRCBytes]
}

// slowEnd is a queue pair whose peer the test plays.
func slowEnd(t *testing.T, l *slowLink, cfg Config) *end {
	cfg.Spin = -1
	e := newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{})
	require.NoError(t, e.qp.Connect(RemoteInfo{QPN: 77, PSN: 5, GID: ib.GIDFromAddr(slowPeer)}, nil))
	require.NoError(t, e.qp.PostSend(&SendWR{Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{e.mr.SGE(0, 64)}}))
	require.Len(t, l.sent, 1)
	return e
}

// An acknowledgement that is in the link when the ACK timer is due comes first,
// however much is before it.
func TestTimerWaitsForWhatHasArrived(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(l *slowLink) (cfg Config, move func(*Device))
	}{
		{"event-driven", func(l *slowLink) (Config, func(*Device)) { return Config{Link: l}, func(*Device) {} }},
		{"polling", func(l *slowLink) (Config, func(*Device)) {
			return Config{Link: l, Polling: true, alone: true}, func(d *Device) { d.s.Poll(shard.Never) }
		}},
		{"polling, marked", func(l *slowLink) (Config, func(*Device)) {
			return Config{Link: &markedLink{slowLink: l, room: 1 << 20}, Polling: true, alone: true},
				func(d *Device) { d.s.Poll(shard.Never) }
		}},
		{"driven", func(l *slowLink) (Config, func(*Device)) {
			return Config{Link: drivenLink{l}}, func(*Device) { l.progress() }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newSlowLink()
			cfg, move := c.open(l)
			e := slowEnd(t, l, cfg)
			l.happen(func() {
				for range 5 * shard.RxBatch {
					l.waiting = append(l.waiting, ackOf(e.qp.Num()+1, 0))
				}
				l.waiting = append(l.waiting, ackOf(e.qp.Num(), l.sent[0].PSN))
				l.now += 3 * defaultTimeout.Ns()
			})
			for range 3 * shard.RxBatch {
				move(e.d)
			}
			e.wait(t, testContext(t))
			require.Zero(t, e.d.Counters().Timeouts)
		})
	}
}

// Packets that keep coming do not keep timers from running: each waits for as much
// as can have been in the link when it was due.
func TestTimersUnderLoad(t *testing.T) {
	l := newSlowLink()
	e := slowEnd(t, l, Config{Link: &markedLink{slowLink: l, room: 10 * shard.RxBatch}, Polling: true, alone: true})
	l.endless = ackOf(e.qp.Num()+1, 0)
	l.now += defaultTimeout.Ns()
	e.d.s.Poll(shard.Never) // the timer is due
	for range 10 - 1 {      // that bring what the link has room for
		e.d.s.Poll(shard.Never)
		l.now++
	}
	require.Zero(t, e.d.Counters().Timeouts)
	e.d.s.Poll(shard.Never)
	require.EqualValues(t, 1, e.d.Counters().Timeouts)
	require.Len(t, l.sent, 2)
}
