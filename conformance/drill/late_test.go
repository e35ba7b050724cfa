package drill

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// late is the engine as a busy machine sees it: each packet that is sent is followed by a pause,
// in which packets that come wait.
type late struct {
	Target
	pause time.Duration
}

func (t late) Open(ctx context.Context) (Bench, error) {
	b, err := t.Target.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &lateBench{engineBench: b.(*engineBench), pause: t.pause}, nil
}

type lateBench struct {
	*engineBench
	pause time.Duration
}

func (b *lateBench) Send(d Datagram) error {
	if err := b.engineBench.Send(d); err != nil {
		return err
	}
	end := b.wire.Now() + int64(b.pause)
	err := b.settle(end)
	b.wire.pass(end)
	return err
}

// "after" counts from the first of packets that are sent together: a wait that it starts goes on
// while the others are late.
func TestAfterCountsFromTheFirst(t *testing.T) {
	for _, pause := range []time.Duration{0, 20 * time.Millisecond} {
		r := Run(t.Context(), byName("req_rnr_then_seq"), late{NewEngine(), pause}, Options{})
		require.Equal(t, Pass, r.Verdict, "%v\n%s", r, r.Ladder)
	}
}
