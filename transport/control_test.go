package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// By default nothing is controlled. Long round trips begin control by delay, and losses without
// them do not.
func TestControlBegins(t *testing.T) {
	for _, c := range []struct {
		name    string
		delay   int64 // one way
		lost    bool
		packet  int64 // on the slowest link
		control cc.Algorithm
		limits  bool
	}{
		{"short, a queue that overflows, none", 100 * us, false, 20 * us, cc.None, false},
		{"the same, by delay", 100 * us, false, 20 * us, cc.ByDelay, true},
		{"short, lossy", 100 * us, true, us, cc.ByDelay, false},
		{"long", 5 * ms, false, us, cc.ByDelay, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tuning := transport.Tuning{Congestion: cc.Config{Algorithm: c.control}}
			p := newPair(t, pairConfig{tuning: [2]transport.Tuning{tuning, tuning}, slowStart: true})
			p.delay = c.delay
			a, _ := p.connect(linkConfig{
				caps: transport.QPCaps{MaxSendWR: 64, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1},
				attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 14 }, // 67 ms
			})
			free := int64(0) // when the slowest link is, with room for 150 packets before it
			p.onSend = func(f *flight) {
				if f.from != p.ends[0] {
					return
				}
				free = max(free, p.now)
				if f.lost = c.lost && f.nth == 0 && f.rel%50 == 49 || free-p.now > 150*c.packet; !f.lost {
					free += c.packet
					f.at += free - p.now
				}
			}
			limited := false
			for range 4 {
				for range 20 {
					a.post(a.write(0, 0, 64<<10))
				}
				for left := 20; left > 0; left -= len(a.poll()) {
					require.True(t, p.step(1<<62))
					s, ok := a.qp.Congestion(p.now)
					require.Equal(t, c.control != cc.None, ok)
					limited = limited || s.Limiting
				}
			}
			require.Equal(t, c.limits, limited)
		})
	}
}

// A connection begins with few packets, and twice as many may be unanswered after each round trip.
func TestSlowStart(t *testing.T) {
	p := newPair(t, pairConfig{slowStart: true})
	p.delay = ms
	a, _ := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 14 }})
	var bursts []int
	last := int64(-1)
	p.onSend = func(f *flight) {
		if f.from != p.ends[0] {
			return
		}
		if f.sent != last {
			bursts, last = append(bursts, 0), f.sent
		}
		bursts[len(bursts)-1]++
	}
	a.post(a.write(0, 0, 1000*ib.MTU1024.Bytes()))
	p.run()
	require.Equal(t, []int{8, 16, 32, 64, 128, 256, 256, 240}, bursts)
}

// A window that is not used does not grow: what the path has room for is not known from a message
// at a time.
func TestUnusedWindow(t *testing.T) {
	p := newPair(t, pairConfig{slowStart: true})
	a, _ := p.connect(linkConfig{})
	for range 100 {
		a.post(a.write(0, 0, 64))
		p.run()
	}
	p.log = nil
	a.post(a.write(0, 0, 100*ib.MTU1024.Bytes()))
	p.run()
	at, first := p.log[0].sent, 0
	for _, f := range p.log {
		if f.from == p.ends[0] && f.sent == at {
			first++
		}
	}
	require.Equal(t, 8, first)
}
