package verbs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
)

// The data path does not allocate: posting, sending, receiving, completing and
// waiting, on both ends.
func TestNoAllocs(t *testing.T) {
	if seeds.Race {
		t.Skip("the race detector allocates for blocking goroutines")
	}
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"event", Config{}}, {"no offload", variants["no offload"]}} {
		for _, n := range []int{64, 4096, 65536} {
			t.Run(c.name+"/"+itoa(n), func(t *testing.T) {
				a, b := pair(t, 1<<16, c.cfg)
				noAllocs(t, a, b, n)
			})
		}
	}
	// The same on another shard than the first, with a completion queue that is shared.
	t.Run("shards", func(t *testing.T) {
		cfg := Config{Shards: 2}
		a, b := endOnVector(t, openDevice(t, cfg), 1, 1<<16, QPInitAttr{}),
			endOnVector(t, openDevice(t, cfg), 0, 1<<16, QPInitAttr{})
		sends, err := b.d.CreateCQ(16, &CQOptions{Vector: 1})
		require.NoError(t, err)
		b.qp, err = b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: sends, RecvCQ: b.cq})
		require.NoError(t, err)
		require.NotSame(t, b.cq.s, b.qp.s)
		connect(t, a, b)
		noAllocs(t, a, b, 4096)
	})
}

// noAllocs sends, writes and reads n bytes from a to b.
func noAllocs(t *testing.T, a, b *end, n int) {
	ctx := context.Background()
	send := SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)}}
	write := SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}
	read := write
	read.Opcode = WRRead
	recv := RecvWR{SGList: []SGE{b.mr.SGE(0, n)}}
	var wcs [4]WC
	take := func(e *end) {
		if k, err := e.cq.Wait(ctx, wcs[:1]); err != nil || k != 1 || wcs[0].Status != WCSuccess {
			t.Fatal(k, err, wcs[0].Status)
		}
	}
	once := func() {
		if b.qp.PostRecv(&recv) != nil || a.qp.PostSend(&send) != nil {
			t.Fatal("post")
		}
		take(b)
		take(a)
		if a.qp.PostSend(&write) != nil {
			t.Fatal("post")
		}
		take(a)
		if a.qp.PostSend(&read) != nil {
			t.Fatal("post")
		}
		take(a)
	}
	for range 100 { // queues grow to their size
		once()
	}
	require.Zero(t, testing.AllocsPerRun(200, once))
}
