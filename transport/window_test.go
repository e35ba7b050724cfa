package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// unacked returns how many packets a sends before it waits for an answer.
func (l *loop) unacked() int {
	total := 0
	for {
		n := l.a.e.PollTransmit(l.now, l.batch)
		if n == 0 {
			return total
		}
		total += n
	}
}

// Only to a peer that repeats selectively, and on a long path, the window may be larger; and no
// larger than what a map of the peer can tell of, or what the program has set.
func TestWindowStretches(t *testing.T) {
	for _, c := range []struct {
		keeps   bool
		least   int64
		mtu     ib.MTU
		set     int
		stretch uint8
		max     int
	}{
		{false, 100e6, ib.MTU1024, 0, 1, 1024}, {true, 9e6, ib.MTU1024, 0, 1, 1024},
		{true, 10e6, ib.MTU1024, 0, 2, 2048}, {true, 100e6, ib.MTU1024, 0, 8, 8192},
		{true, 100e6, ib.MTU4096, 0, 8, 2048}, {true, 100e6, ib.MTU256, 0, 8, 2048},
		{true, 100e6, ib.MTU1024, 64, 8, 64},
	} {
		l := newLoop(t, loopOptions{mtu: c.mtu, caps: QPCaps{MaxSendWR: 1, MaxSendSGE: 1}})
		l.a.e.cfg.GSO = true
		l.a.qp.attr.MaxUnackedPackets = c.set
		sq := &l.a.qp.sq
		sq.peerKeeps, sq.rtt.least = c.keeps, c.least
		sq.win.limit(l.a.qp)
		sq.stretchWindow()
		require.Equal(t, c.stretch, sq.win.stretch)
		require.Equal(t, c.max, sq.win.max, c)
		sq.forgetPeer()
		require.LessOrEqual(t, sq.win.max, 1024)
	}
}

// The default window is one of packets, whatever their size and the path MTU.
func TestWindowDefault(t *testing.T) {
	for _, c := range []struct {
		name string
		mtu  ib.MTU
		size int
	}{
		{"small messages, large MTU", ib.MTU4096, 64},
		{"small messages, small MTU", ib.MTU256, 64},
		{"no payload", ib.MTU4096, 0},
		{"full packets", ib.MTU4096, 4096},
		{"full packets of messages", ib.MTU4096, 1 << 20},
		{"packets of 1 KiB", ib.MTU1024, 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t, loopOptions{mtu: c.mtu, caps: QPCaps{MaxSendWR: 512, MaxSendSGE: 1}})
			for range 400 {
				require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
					Opcode: WRWrite, SGList: []SGE{l.a.at(0, c.size)}, RemoteAddr: l.b.region.IOVA(),
					RKey: l.b.region.RKey(),
				}))
			}
			require.Equal(t, DefaultMaxUnackedPackets, l.unacked())
		})
	}
}

// A short message behind long ones leaves while the window of long ones has room, and short
// messages by themselves have theirs.
func TestWindowShortBehindLong(t *testing.T) {
	const long = 1 << 20 >> 10 // packets
	for _, c := range []struct {
		name         string
		longs, short int
		want         int
	}{
		{"short ones", 0, 400, DefaultMaxUnackedPackets},
		{"behind long ones", 2 * DefaultMaxUnackedPackets, 400, 3 * DefaultMaxUnackedPackets},
		{"behind long ones that fill the window nearly", 4*DefaultMaxUnackedPackets - 2, 400,
			4 * DefaultMaxUnackedPackets},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t, loopOptions{mtu: ib.MTU1024, gso: true, psn: ib.PSNMask - 300, caps: QPCaps{
				MaxSendWR: 512, MaxSendSGE: 1,
			}})
			post := func(size int) {
				require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
					Opcode: WRWrite, SGList: []SGE{l.a.at(0, size)}, RemoteAddr: l.b.region.IOVA(),
					RKey: l.b.region.RKey(),
				}))
			}
			for left := c.longs; left > 0; left -= long {
				post(min(left, long) << 10)
			}
			for range c.short {
				post(64)
			}
			require.Equal(t, c.want, l.unacked())
		})
	}
}

// Where packets travel as large datagrams the window of long messages is one of bytes, at a small
// path MTU, unless somebody has set it in packets; that of small messages is not. Every half of it
// asks for an answer.
func TestWindowLong(t *testing.T) {
	for _, c := range []struct {
		name   string
		mtu    ib.MTU
		size   int
		tuning Tuning
		want   int
	}{
		{"1 KiB, long", ib.MTU1024, 1 << 20, Tuning{}, 4 * DefaultMaxUnackedPackets},
		{"1 KiB, a few packets", ib.MTU1024, 4096, Tuning{}, 4 * DefaultMaxUnackedPackets},
		{"1 KiB, single packets", ib.MTU1024, 1024, Tuning{}, DefaultMaxUnackedPackets},
		{"2 KiB", ib.MTU2048, 1 << 20, Tuning{}, 2 * DefaultMaxUnackedPackets},
		{"4 KiB", ib.MTU4096, 1 << 20, Tuning{}, DefaultMaxUnackedPackets},
		{"256 B", ib.MTU256, 1 << 20, Tuning{}, 4 * DefaultMaxUnackedPackets},
		{"set", ib.MTU1024, 1 << 20, Tuning{MaxUnackedPackets: 100}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t,
				loopOptions{mtu: c.mtu, caps: QPCaps{MaxSendWR: 512, MaxSendSGE: 1}, gso: true, tuning: c.tuning})
			for range 400 {
				require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
					Opcode: WRWrite, SGList: []SGE{l.a.at(0, c.size)}, RemoteAddr: l.b.region.IOVA(),
					RKey: l.b.region.RKey(),
				}))
			}
			total, asked := 0, 0
			for {
				n := l.a.e.PollTransmit(l.now, l.batch)
				if n == 0 {
					break
				}
				for i := range l.batch[:n] {
					if total++; l.batch[i].Header[8]&0x80 != 0 {
						asked = total
					}
				}
				require.LessOrEqual(t, total-asked, max(c.want/2, 1))
			}
			require.Equal(t, c.want, total)
			require.Equal(t, total, asked, "the last one asks")
		})
	}
}

// READs take up as much of the window as the packets that they ask for, and their
// part at the edge of it is no larger than what is left.
func TestWindowRead(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU4096, data: 4 << 20})
	for _, n := range []int{600 << 10, 2 << 20} {
		require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
			Opcode: WRRead, SGList: []SGE{l.a.at(0, n)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
		}))
	}
	sq := &l.a.qp.sq
	require.Equal(t, 1, l.unacked(), "the second READ waits: less than half of the window is free")
	require.Equal(t, 150, span(sq.una, sq.psn))
	l.run() // the first is lost, so it is asked for again
	require.Equal(t, sq.una, sq.psn)
	require.Equal(t, sq.una, sq.end, "both are complete")
	require.EqualValues(t, 1, l.a.e.Counters().RetransmittedPkts)
}

// Loss halves what is under way, and each window of acknowledgements opens it by a packet.
func TestWindowLoss(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU4096, data: 4 << 20})
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.a.at(0, 4<<20)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
	}))
	sq := &l.a.qp.sq
	require.Equal(t, 256, l.unacked())
	sq.win.onLoss(&sq.rtt)
	sq.rewind()
	l.a.qp.markReady()
	require.Equal(t, sq.una, sq.psn)
	require.Equal(t, 128, l.unacked())
	require.Equal(t, 128, span(sq.una, sq.psn))
	sq.win.onAck(sq.win.size)
	require.Equal(t, 1, func() int { l.a.qp.markReady(); return l.unacked() }(), "one packet more")
	half := sq.win.size / 2
	for range 10 {
		sq.win.onTimeout()
	}
	require.Equal(t, startWindow, sq.win.size)
	sq.win.onAck(startWindow)
	require.Equal(t, 2*startWindow, sq.win.size, "it doubles")
	sq.win.onAck(256)
	require.Equal(t, half, sq.win.size, "up to half of what it was before the first")
}

// A bound in packets that someone chose is one of packets.
func TestWindowExplicit(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU4096, tuning: Tuning{MaxUnackedPackets: 200}})
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.a.at(0, 1<<20)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
	}))
	require.Equal(t, 200, l.unacked())
	require.NoError(t, l.a.qp.Modify(l.now, QPAttr{MaxUnackedPackets: 210}, AttrWindow))
	require.Equal(t, 0, l.unacked(), "the window has grown only as far as the connection has shown to bear")
}

// Without a loss since, a window grows by a quarter of itself for each round trip as short as the
// shortest, and by a packet for each that is not: a large one of packets that travel in runs by a
// few at once, after as many round trips.
func TestWindowGrows(t *testing.T) {
	for _, long := range []uint8{0, maxLong} {
		for _, size := range []int{8, 80} {
			w := window{size: size, max: 256, used: 256, long: long}
			round := func() int {
				for n := w.size; n > 0; n -= 8 {
					w.onRun(min(n, 8))
				}
				return w.size
			}
			most := 1
			for i := range 4 {
				before := w.size
				most = max(most, round()-before)
				require.LessOrEqual(t, w.size, size+i+1)
			}
			require.Equal(t, size+4, w.size)
			require.Equal(t, min(1<<long, max(size>>growShift, 1)), most)
		}
		w := window{size: 80, max: 256, near: 256, used: 256, long: long, idle: true}
		w.onRun(80)
		require.Equal(t, 100, w.size)
		for range 20 {
			w.onRun(w.size)
		}
		require.Equal(t, w.max, w.size)
		w.onLoss(&rttEstimate{})
		size := w.size
		w.onRun(size)
		require.Less(t, w.size, size+5, "what was known of the path was wrong")
	}
}

// A loss takes what the queue holds, and no more than a half and no less than 3/10 of the window.
func TestWindowLeavesPathFull(t *testing.T) {
	for _, c := range []struct{ least, last, want int64 }{
		{0, 0, 500}, {100, 700, 500}, {100, 200, 500}, {100, 160, 625}, {100, 110, 700}, {100, 100, 700},
	} {
		w := window{size: 1000, max: 2000}
		w.onLoss(&rttEstimate{least: c.least, last: c.last})
		require.EqualValues(t, c.want, w.size, "%d of %d", c.least, c.last)
	}
}

// While a connection begins, losses before the first round trip do not tell whether the path has
// room. If a later one shows that it has, the window doubles on. A timeout shows nothing.
func TestWindowBegins(t *testing.T) {
	l := newLoop(t, loopOptions{slowStart: true})
	w := &l.a.qp.sq.win
	w.used = w.max
	fresh := *w
	require.Equal(t, startWindow, w.size)
	w.suspect()
	w.onLoss(&rttEstimate{})
	w.onAck(4)
	require.Equal(t, startWindow/2+1, w.size)
	w.acquit()
	w.onAck(4)
	require.Equal(t, startWindow+4, w.size)

	w.suspect()
	w.onLoss(&rttEstimate{})
	w.convict()
	w.acquit()
	size := w.size
	w.onAck(size - 1)
	require.Equal(t, size, w.size, "the loss was for want of room")

	*w = fresh
	w.onTimeout()
	require.Equal(t, startWindow, w.size)
	w.onAck(4)
	require.Equal(t, startWindow+4, w.size)
}
