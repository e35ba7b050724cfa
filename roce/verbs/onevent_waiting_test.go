package verbs

import (
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// Who asks for an event while completions wait has it at once, unless an event has told of them, or
// none is wanted.
func TestEventIfWaiting(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	told := 0
	a = a.onRing(t, 32, CQOptions{})
	b = b.onRing(t, 32, CQOptions{OnEvent: func(*CQ) { told++ }, EventIfWaiting: true})
	connect(t, a, b)
	come := func(n uint64) {
		b.recvs(t, 0, n)
		a.sends(t, 0, 0, n)
		a.await(t, f, int(n))
		f.RunFor(1e9)
	}
	ask := func(want int, solicited bool, why string) {
		t.Helper()
		told = 0
		require.NoError(t, b.cq.RequestNotify(solicited))
		require.Equal(t, want, told, why)
	}
	ask(0, false, "nothing waits")
	come(2)
	require.Equal(t, 1, told)
	ask(1, false, "the event came with the first of two")
	ask(0, false, "it was told of both")
	b.await(t, f, 2)
	come(1)
	require.Equal(t, 1, told, "as without completions that wait")
	ask(0, false, "told")
	core.Open(b.cq).Untell()
	ask(1, false, "told, but that is forgotten")
	ask(0, false, "told again")
	b.await(t, f, 1)
	core.Open(b.cq).Untell()
	ask(0, false, "polled")

	come(1) // makes the event that was asked for
	come(1)
	ask(0, true, "not for solicited ones only")
	b.await(t, f, 1)
	ask(1, false, "one was polled, the other waits")
	come(1)
	require.Equal(t, 1, told, "one for each request")
	b.await(t, f, 2)
	ask(0, false, "all polled")
	require.NoError(t, b.qp.Close())
	require.NoError(t, b.cq.Close())
}
