//go:build linux

package xdp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func inMemory[T unix.XDPDesc | uint64](r *ring[T], size int) {
	*r = ring[T]{prod: new(uint32), cons: new(uint32), flags: new(uint32), entries: make([]T, size),
		mask: uint32(size - 1)}
}

// answer is what the kernel says to a call, and how many frames it has taken by then.
type answer struct {
	errno unix.Errno
	takes uint32
}

// still is a link whose one queue is in memory, on the loopback interface: a test is the kernel.
type still struct {
	*Link
	q       *queue
	answers []answer
	sent    []byte // the lowest byte of the PSN of each
}

func newStill(t *testing.T) *still { return newStillOf(t, minFrames) }

// newStillOf is newStill with so many frames each way.
func newStillOf(t *testing.T, frames int) *still {
	l := &Link{byIndex: make(map[int]*iface), opts: Options{RxFrames: frames, TxFrames: frames}}
	require.NoError(t, l.opts.check())
	l.face = l.local.Face()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	port := c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	require.NoError(t, c.Close())
	err = l.local.Open(endpoint.Options{Name: "xdp", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: port})
	t.Cleanup(func() {
		require.NoError(t, l.local.Stop())
		require.NoError(t, l.local.Close())
	})
	require.NoError(t, err)
	index := l.local.Indexes()[0]
	f := &iface{l: l, index: index, senders: 1}
	s := &still{Link: l, q: &queue{f: f, fd: -1, slotBytes: chunkBytes, slotBase: uint64(frames) * chunkBytes}}
	q := s.q
	inMemory(&q.fill, frames)
	inMemory(&q.rx, frames)
	inMemory(&q.comp, frames)
	inMemory(&q.tx, frames)
	*q.tx.flags = unix.XDP_RING_NEED_WAKEUP
	q.umem = make([]byte, 2*frames*chunkBytes)
	q.kickSend = func(int) unix.Errno {
		a := answer{takes: q.tx.unconsumed()}
		if len(s.answers) > 0 {
			a, s.answers = s.answers[0], s.answers[1:]
		}
		s.take(a.takes)
		return a.errno
	}
	require.NoError(t, q.stock())
	f.queues, l.ifaces, l.byIndex[index] = []*queue{q}, []*iface{f}, f
	l.tx.init(l)
	l.rx.init(l)
	return s
}

// take has the kernel send frames, and give them back.
func (s *still) take(n uint32) {
	q := s.q
	for range n {
		d := q.tx.entries[*q.tx.cons&q.tx.mask]
		b := q.umem[d.Addr : d.Addr+uint64(d.Len)]
		s.sent = append(s.sent, b[len(b)-ib.ICRCBytes-1])
		q.comp.entries[*q.comp.prod&q.comp.mask] = d.Addr
		atomic.AddUint32(q.comp.prod, 1)
		atomic.AddUint32(q.tx.cons, 1)
	}
}

func (s *still) packets(p *edge.Path, psns ...byte) (batch []edge.TxPacket) {
	for _, psn := range psns {
		h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: ib.PSN(psn)}}
		tx := edge.TxPacket{Path: p}
		tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
		batch = append(batch, tx)
	}
	return batch
}

const packetBytes = ib.BTHBytes + ib.ICRCBytes

func there() *edge.Path {
	return &edge.Path{Src: netip.MustParseAddr("127.0.0.1"), Dst: netip.MustParseAddr("127.0.0.2")}
}

// What the kernel answers to calls for three frames, and how many calls there are.
func TestKicks(t *testing.T) {
	const again = unix.EAGAIN
	one := make([]answer, 0, maxKicks)
	for range maxKicks {
		one = append(one, answer{unix.EINTR, 0})
	}
	for name, c := range map[string]struct {
		frames  int
		asleep  bool
		answers []answer
		calls   uint64
		errno   unix.Errno
		stuck   bool
	}{
		"nothing is there":   {frames: 0, asleep: true},
		"it looks by itself": {frames: 3},
		"all are taken":      {frames: 3, asleep: true, calls: 1},
		"one is":             {frames: 1, asleep: true, calls: 1},
		"some at a time": {frames: 3, asleep: true,
			answers: []answer{{again, 1}, {again, 1}, {again, 1}}, calls: 3, errno: again},
		"some, and then no more": {frames: 3, asleep: true, answers: []answer{{again, 1}, {again, 0}},
			calls: 2, errno: again, stuck: true},
		"the device is busy": {frames: 3, asleep: true, answers: []answer{{unix.EBUSY, 0}}, calls: 1,
			errno: unix.EBUSY, stuck: true},
		"a signal": {frames: 3, asleep: true, answers: []answer{{unix.EINTR, 0}}, calls: 2},
		"signals": {frames: 3, asleep: true, answers: one, calls: maxKicks,
			errno: unix.EINTR, stuck: true},
		"the interface is down": {frames: 3, asleep: true, answers: []answer{{unix.ENETDOWN, 0}}, calls: 1,
			errno: unix.ENETDOWN},
		"32 are, untold": {frames: 64, asleep: true, answers: []answer{{again, 0}, {again, 0}}, calls: 3},
		"no more of many": {frames: 64, asleep: true,
			answers: []answer{{again, 0}, {again, 0}, {again, 0}}, calls: 3, errno: again, stuck: true},
		"no memory, and then all": {frames: 3, asleep: true, answers: []answer{{unix.ENOBUFS, 2}}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStillOf(t, 64)
			if !c.asleep {
				*s.q.tx.flags = 0
			}
			for range c.frames {
				_, err := s.q.slot()
				require.NoError(t, err)
				require.NoError(t, s.q.push(60))
			}
			s.answers = c.answers
			calls := uint64(0)
			require.Equal(t, c.errno, s.q.flush(&calls))
			require.Equal(t, c.calls, calls)
			require.Equal(t, c.stuck, s.q.stuck)
			require.EqualValues(t, c.frames, *s.q.tx.prod)
			require.False(t, s.q.dirty)
		})
	}
}

// Packets for which there is no frame wait, in order, and go when the kernel has given some back;
// one that cannot go any more is left out. Those that had waited for their neighbour wait behind
// them.
func TestNoFrames(t *testing.T) {
	s := newStill(t)
	p, other := there(), there()
	other.Dst = netip.MustParseAddr("127.0.0.3")
	full := answer{unix.EAGAIN, 0}
	s.answers = []answer{full, full}
	s.Send(s.packets(p, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	require.True(t, s.Blocked())
	require.EqualValues(t, minFrames, s.tx.stats.Packets.Load())
	require.EqualValues(t, minFrames*packetBytes, s.tx.stats.Bytes.Load())
	s.answers = []answer{full}
	s.Send(s.packets(other, 10))
	ps := s.tx.pathOf(p)
	tx := s.packets(p, 11)[0]
	s.tx.sendResolved(ps, p, ps.ICRC.Append(nil, &tx))
	require.Len(t, s.tx.backlog.items, 4)
	require.Empty(t, s.sent)

	s.tx.pathOf(other).Most = 1 // its interface has changed
	s.Send(nil)
	require.False(t, s.Blocked())
	require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11}, s.sent)
	require.EqualValues(t, 11, s.tx.stats.Packets.Load())
	require.EqualValues(t, 1, other.Unreachable)
	require.Zero(t, p.Unreachable)
	require.NoError(t, s.local.Life.Err())
}

// A frame that the kernel gives back and did not have ends the link.
func TestForgedFrame(t *testing.T) {
	s := newStill(t)
	s.q.slots = nil
	forge(&s.q.comp, s.q.slotBase)
	s.Send(s.packets(there(), 1))
	require.Error(t, s.local.Life.Err())
}

// The counters of the sockets are read, and not added up.
func TestOverflowIsRead(t *testing.T) {
	s := newStill(t)
	s.rx.overflow = 7
	var o link.Stats
	s.rx.readStats(&o)
	require.Zero(t, o.RxOverflow, "the socket is none")
	s.rx.overflow, s.gone = 7, true
	s.rx.readStats(&o)
	require.EqualValues(t, 7, o.RxOverflow)
}

// Rings have from so many to so many frames, those two included.
func TestFrameLimits(t *testing.T) {
	for _, c := range []struct {
		n  int
		ok bool
	}{{minFrames / 2, false}, {minFrames, true}, {minFrames + 1, false}, {maxFrames, true}, {2 * maxFrames, false}} {
		for _, o := range []Options{{RxFrames: c.n}, {TxFrames: c.n}} {
			require.Equal(t, c.ok, o.check() == nil, "%d", c.n)
		}
	}
}
