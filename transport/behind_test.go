package transport_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// One end falls behind again and again, for up to five ACK timeouts, on a network that
// loses nothing. What has come meanwhile is handled before its timers run, so that it
// never takes a peer for silent: it sends nothing twice.
func TestFallsBehind(t *testing.T) {
	seeds.Run(t, seeds.Fewer(40), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0xbe))
		var tuning transport.Tuning
		if rng.IntN(2) == 0 {
			tuning.LossProbe = -1
		}
		p := newPair(t, pairConfig{seed: seed, tuning: [2]transport.Tuning{tuning, tuning}})
		p.logging = false
		p.delay = 1 + rng.Int64N(20*us)
		var as, bs []*link
		for range 1 + rng.IntN(4) {
			a, b := p.connect(linkConfig{})
			as, bs = append(as, a), append(bs, b)
		}
		slow, timeout := as[0].end, as[0].attr.Timeout.Ns()
		left := 40
		next, away := int64(0), 0
		p.onSend = func(f *flight) {
			if p.now >= next && rng.IntN(8) == 0 {
				slow.awayTo = p.now + rng.Int64N(5*timeout)
				next = slow.awayTo + 20*timeout
				away++
			}
		}
		for busy := true; busy || left > 0; {
			if left > 0 && (!busy || rng.IntN(4) == 0) {
				left--
				i := rng.IntN(len(as))
				for _, l := range []*link{as[i], bs[i]} {
					n := 1 + rng.IntN(10_000)
					if rng.IntN(2) == 0 {
						l.post(l.read(0, bufBytes/2, n))
					} else {
						l.post(l.write(0, bufBytes/2, n))
					}
				}
			}
			busy = p.step(1 << 62)
		}
		for _, e := range p.ends {
			for _, wc := range e.poll() {
				require.Equal(t, transport.WCSuccess, wc.Status)
			}
		}
		c := slow.eng.Counters()
		require.Zero(t, c.Timeouts)
		require.Zero(t, c.RetransmittedPkts)
		require.NotZero(t, away)
	})
}
