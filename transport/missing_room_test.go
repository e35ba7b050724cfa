package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/transport"
)

// What has come before its turn takes no room at the receiver, and room for it is not waited for:
// while one packet is missing, more than the room goes on its way behind it.
func TestMissingTakesNoRoom(t *testing.T) {
	for _, read := range []bool{false, true} {
		pc := selective
		pc.bytes = 512 << 10
		pc.room[0] = roomFor(32) // 16 of requests, 24 of responses
		for i := range pc.tuning {
			pc.tuning[i].MaxUnackedPackets = 256
		}
		p := newPair(t, pc)
		a, b := p.connect(linkConfig{})
		from, to, data := a, b, p.ends[0]
		if read {
			from, to, data = b, a, p.ends[1]
		}
		const n = 200 << 10
		wr := func() transport.SendWR {
			if read {
				return a.read(0, 0, n)
			}
			return a.write(0, 0, n)
		}
		src := from.fill(0, n, 1)
		lose(p, data, 3)
		a.post(wr())
		p.run()
		a.poll()
		clear(to.buf[:n])
		behind, times := 0, 0
		p.onSend = func(f *flight) {
			switch {
			case f.from != data || len(f.pkt.Payload) == 0:
			case f.rel == 210:
				times++
				f.lost = times < 8
			case f.rel > 210 && times < 8:
				behind = max(behind, f.rel-210)
			}
		}
		a.post(wr())
		p.run()
		require.Len(t, a.poll(), 1)
		require.Equal(t, src, to.buf[:n])
		require.Greater(t, behind, 24, "READ: %v", read)
		for _, l := range []*link{a, b} {
			require.Zero(t, l.eng.RoomUsed(), "READ: %v", read)
		}
	}
}

// What a batch of answers says has come makes room for as much, also if it says as well that
// something was lost: else each loss would have the path run empty.
func TestMissingBatch(t *testing.T) {
	pc := selective
	for i := range pc.tuning {
		pc.tuning[i] = transport.Tuning{MaxUnackedPackets: 64, AckReqInterval: 4}
	}
	p := newPair(t, pc)
	a, _ := p.connect(linkConfig{})
	lose(p, p.ends[0], 3)
	a.post(a.write(0, 0, 20*1024))
	p.run()
	p.together = func() int64 { return ms }
	sent, at := map[int64]int{}, int64(0)
	p.onSend = func(f *flight) {
		if f.from != p.ends[0] {
			return
		}
		f.lost = f.rel == 110 && f.nth == 0
		sent[p.now]++
		if f.rel == 110 && f.nth == 1 {
			at = p.now
		}
	}
	a.post(a.write(0, 0, 20*1024*8))
	p.run()
	require.NotZero(t, at)
	require.Greater(t, sent[at], 20)
}

// A burst of losses while round trips are short is no sign of a full queue to a READ: its window
// stays, although more than an eighth of it was lost. (To a WRITE it is: beside TCP, whose bursts
// fill a short queue for less than a round trip, it would have four fifths.)
func TestMissingBurst(t *testing.T) {
	pc := selective
	for i := range pc.tuning {
		pc.tuning[i].MaxUnackedPackets = 128
	}
	p := newPair(t, pc)
	p.delay = ms
	a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 17 }})
	lose(p, p.ends[1], 3, 1100)
	play := func() {
		a.post(a.read(0, 0, bufBytes))
		p.run()
		require.Len(t, a.poll(), 1)
		require.Equal(t, a.buf, b.buf)
	}
	play()
	play()
	burst := make([]int, 40)
	for i := range burst {
		burst[i] = 3000 + i
	}
	lose(p, p.ends[1], burst...)
	play()
	first, sent := p.now, 0
	p.onSend = func(f *flight) {
		if f.from == p.ends[0] && f.sent == first {
			sent += int(f.pkt.RETH.Len) / 1024
		}
	}
	play()
	require.Equal(t, 128, sent)
}
