package rsocket

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// Of connections that are over nothing stays in memory, neither the queue pair nor what it has.
func TestCollected(t *testing.T) {
	seeds.Slow(t)
	networks(t, func(t *testing.T, n *network) {
		var conns []weak.Pointer[Conn]
		var qps []weak.Pointer[transport.QP]
		for range 20 {
			c, s, err := n.connect(testContext(t), Config{}, Config{})
			require.NoError(t, err)
			flow(t, c, s, 500_000)
			flow(t, s, c, 500_000)
			for _, x := range []*Conn{c, s} {
				conns = append(conns, weak.Make(x))
				qps = append(qps, weak.Make(core.Open(x.qp).QP()))
				require.NoError(t, x.Close())
			}
		}
		n.quiet(t, n.a)
		n.quiet(t, n.b)
		require.Eventually(t, func() bool {
			if n.fabric != nil {
				n.fabric.RunFor(1e9)
			}
			runtime.GC()
			return left(conns) == 0 && left(qps) == 0
		}, time.Minute, time.Millisecond, "left")
	})
}

// left counts what is still there.
func left[T any](ps []weak.Pointer[T]) (n int) {
	for _, p := range ps {
		if p.Value() != nil {
			n++
		}
	}
	return n
}
