package verbs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/stretchr/testify/require"
)

// lossy makes a link lose, corrupt, duplicate and reorder packets it sends.
func lossy(seed uint64) func(link.Link) (link.Link, error) {
	return func(l link.Link) (link.Link, error) {
		return fault.New(l,
			fault.Rule{Action: fault.Drop, Probability: 0.01, Seed: seed},
			fault.Rule{Action: fault.Corrupt, Probability: 0.005, Seed: seed + 1},
			fault.Rule{Action: fault.Duplicate, Probability: 0.01, Seed: seed + 2},
			fault.Rule{Action: fault.Delay, Probability: 0.01, Hold: 3, Seed: seed + 3},
		), nil
	}
}

// Real sockets, real time, bad wire.
func TestLossyUDP(t *testing.T) {
	for i, name := range []string{"event", "no spin", "no offload"} {
		t.Run(name, func(t *testing.T) {
			cfg := variants[name]
			cfg.WrapLink = lossy(uint64(10 * i))
			a, b := pair(t, 1<<18, cfg, withTimeout(17, 7))
			exercise(t, a, b, []int{0, 1, 4096, 65_536, 1 << 18, 1 << 18})
			c := b.d.Counters()
			require.NotZero(t, c.DropICRC+c.OutOfSeqRequest+c.DuplicateRequest)
		})
	}
}

// Several connections in both directions, each driven by a goroutine of its
// own, with one completion queue for each; every byte is checked.
func TestConcurrentConnections(t *testing.T) {
	for _, loss := range []bool{false, true} {
		t.Run(fmt.Sprintf("loss=%v", loss), func(t *testing.T) {
			var ca, cb Config
			if loss {
				ca.WrapLink, cb.WrapLink = lossy(1), lossy(2)
			}
			da, db := openDevice(t, ca), openDevice(t, cb)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			const region = 1 << 16
			for i := range 8 {
				from, to := da, db
				if i%2 == 1 {
					from, to = db, da
				}
				x, y := newEnd(t, from, region, QPInitAttr{}), newEnd(t, to, region, QPInitAttr{})
				connect(t, x, y, withTimeout(17, 7))
				wg.Go(func() {
					if err := traffic(ctx, x, y, uint64(i)); err != nil {
						t.Errorf("connection %d: %v", i, err)
						cancel()
					}
				})
			}
			wg.Wait()
		})
	}
}

var errMismatch = errors.New("bytes differ")

// traffic writes, reads back and compares, at random places.
func traffic(ctx context.Context, x, y *end, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 5))
	half := len(x.buf) / 2
	var wcs [1]WC
	do := func(op SendWR, off, local, n int) error {
		op.Flags, op.RKey, op.RemoteAddr = SendSignaled, y.mr.RKey(), y.mr.Addr()+uint64(off)
		op.SGList = []SGE{x.mr.SGE(local, n)}
		if err := x.qp.PostSend(&op); err != nil {
			return err
		}
		if _, err := x.cq.Wait(ctx, wcs[:]); err != nil {
			return err
		}
		return WCError(&wcs[0])
	}
	for range 60 {
		n := 1 + rng.IntN(half)
		off := rng.IntN(len(y.buf) - n + 1)
		fill(x.buf[:n], rng.Uint64())
		if err := do(SendWR{Opcode: WRWrite}, off, 0, n); err != nil {
			return err
		}
		if err := do(SendWR{Opcode: WRRead}, off, half, n); err != nil {
			return err
		}
		if string(x.buf[:n]) != string(x.buf[half:half+n]) {
			return errMismatch
		}
	}
	return nil
}
