package transport_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// All that is found out to be missing at once is sent again at once, with what came between left
// out.
func TestMissingAtOnce(t *testing.T) {
	p := newPair(t, selective)
	a, _ := p.connect(linkConfig{})
	lose(p, p.ends[0], 3)
	a.post(a.write(0, 0, 20*1024))
	p.run()
	again(p, p.ends[0])
	p.together = func() int64 { return ms }
	at := map[int]int{} // the call that sent a packet again
	p.onSend = func(f *flight) {
		if f.from == p.ends[0] {
			at[f.rel] = p.steps
			f.lost = f.nth == 0 && (f.rel == 22 || f.rel == 25 || f.rel == 29)
		}
	}
	a.post(a.write(0, 0, 20*1024))
	p.run()
	require.Equal(t, []int{22, 25, 29}, again(p, p.ends[0]))
	require.Equal(t, at[22], at[25])
	require.Equal(t, at[22], at[29])
}

// What is known of the packets on their way stays known when there are more of them than there is
// room to watch: none is sent again twice, and none is waited for.
func TestMissingMore(t *testing.T) {
	p := newPair(t, selective)
	a, b := p.connect(linkConfig{})
	lose(p, p.ends[0], 3)
	a.post(a.write(0, 0, 20*1024))
	p.run()
	again(p, p.ends[0])
	src := a.fill(0, 400*1024, 1)
	before := p.ends[0].eng.Counters()
	lost := map[int]bool{21: true, 24: true, 60: true, 90: true, 200: true, 201: true}
	n := 0
	p.onSend = func(f *flight) {
		if f.from != p.ends[0] {
			return
		}
		for f.nth > 0 && n < 12 { // more comes when the first is sent again
			n++
			a.post(a.write(n*20*1024, n*20*1024, 20*1024))
		}
		f.lost = f.nth == 0 && lost[f.rel]
	}
	a.post(a.write(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), n+2)
	require.Equal(t, src[:(n+1)*20*1024], b.buf[:(n+1)*20*1024])
	c := p.ends[0].eng.Counters()
	require.Zero(t, c.Timeouts)
	require.EqualValues(t, len(lost), c.SelectiveRepeats-before.SelectiveRepeats)
	require.Equal(t, c.SelectiveRepeats, c.RetransmittedPkts-before.RetransmittedPkts+before.SelectiveRepeats)
}

// With more packets on their way than are watched, the requester goes back as if the peer kept
// nothing.
func TestMissingTooMany(t *testing.T) {
	if seeds.Race {
		t.Skip("under the race detector: so many packets take seconds")
	}
	for _, n := range []int{1 << 16, 1<<16 + 1} {
		pc := selective
		pc.mtu = ib.MTU256
		pc.bytes = 256 << 17
		pc.tuning[0].MaxUnackedPackets = 1 << 17
		d := newPuppet(t, pc, linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.PathMTU = ib.MTU256 }})
		d.logging = false
		sent, repeated := 0, 0
		d.onSend = func(f *flight) {
			f.lost = true
			if f.nth == 0 {
				sent++
			} else {
				repeated++
			}
		}
		d.a.post(d.a.write(0, 0, 256*n))
		d.pump()
		require.Equal(t, n, sent)
		kept := binary.BigEndian.AppendUint32(nil, 1<<31|1<<30|1<<29|1<<28|0xFFFF)
		d.send(ib.RCAcknowledge, 0, kept, syndrome(ib.NAKSequence), msn(0), sentAgain)
		if n > 1<<16 {
			require.Zero(t, d.a.eng.Counters().SelectiveRepeats)
			require.Greater(t, repeated, n/2)
		} else {
			require.NotZero(t, d.a.eng.Counters().SelectiveRepeats)
			require.Less(t, repeated, 100)
		}
	}
}
