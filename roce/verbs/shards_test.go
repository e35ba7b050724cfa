package verbs

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// endOnVector is newEnd with a completion queue of a vector, which it is checked to have.
func endOnVector(t testing.TB, d *Device, vector, bufBytes int, init QPInitAttr) *end {
	e := &end{d: d, buf: make([]byte, bufBytes)}
	var err error
	e.pd, err = d.AllocPD()
	require.NoError(t, err)
	e.cq, err = d.CreateCQ(1024, &CQOptions{Vector: vector})
	require.NoError(t, err)
	require.Equal(t, vector, e.cq.Vector())
	e.mr, err = e.pd.RegisterMR(e.buf, AccessAll, nil)
	require.NoError(t, err)
	if init.Type == 0 {
		init.Type = RC
	}
	init.SendCQ, init.Caps.MaxInline = e.cq, 64
	e.qp, err = e.pd.CreateQP(init)
	require.NoError(t, err)
	return e
}

// simDevice opens a device on a fabric.
func simDevice(t testing.TB, f *sim.Fabric, i, shards int) *Device {
	l, err := f.Link(simAddr(i))
	require.NoError(t, err)
	return openDevice(t, Config{Link: l, Rand: f.Rand(), Shards: shards})
}

// A completion queue that is asked for while a device fails learns why, also before the shards have
// been told.
func TestVectorWhileDeviceFails(t *testing.T) {
	d := openDevice(t, Config{})
	d.shards.end(errBroken)
	_, err := d.CreateCQ(10, nil)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, errBroken)
}

// A shard is opened when a completion queue asks for its vector. What cannot be had is refused, or
// served by the first one.
func TestCompletionVectors(t *testing.T) {
	for _, n := range []int{-1, maxShards + 1} {
		_, err := Open(Config{Shards: n})
		var arg *ArgError
		require.ErrorAs(t, err, &arg)
		require.Equal(t, "Shards", arg.Arg)
	}
	f := sim.New(sim.Config{Seed: 1})
	require.Equal(t, 1, simDevice(t, f, 1, 0).CompletionVectors(), "a simulation does not depend on the machine")
	d := simDevice(t, f, 2, 3)
	require.Equal(t, 3, d.CompletionVectors())
	require.Equal(t, 3, d.Attr().CompletionVectors)
	require.Len(t, d.shards.all(), 1)
	for _, v := range []int{-1, 3} {
		_, err := d.CreateCQ(1, &CQOptions{Vector: v})
		var arg *ArgError
		require.ErrorAs(t, err, &arg)
		require.Equal(t, "Vector", arg.Arg)
	}
	a := endOnVector(t, d, 2, 64, QPInitAttr{})
	b := endOnVector(t, d, 2, 64, QPInitAttr{})
	require.Len(t, d.shards.all(), 2)
	require.Same(t, a.qp.s, b.qp.s)
	require.NotEqual(t, d.s.Slot(), a.qp.s.Slot())
	require.True(t, a.qp.s.Slot().Has(a.qp.Num()))
	cq, err := d.CreateCQ(1, nil)
	require.NoError(t, err)
	require.Zero(t, cq.Vector())

	for i := range 7 {
		require.Equal(t, i%3, core.Open(d).NextVector(), "in turn")
	}
	for vectors, want := range map[int][]int{0: {0, 0, 0}, 2: {0, 1, 0}, 9: {0, 1, 2}} {
		core.Open(d).SpreadOver(vectors)
		d.shards.next.Store(0)
		for _, v := range want {
			require.Equal(t, v, core.Open(d).NextVector(), "over %d", vectors)
		}
	}

	// The communication manager's queue pair is on the first shard, whatever queue it has.
	gsi, err := a.pd.CreateQP(QPInitAttr{Type: UD, SendCQ: a.cq, QPN: ib.QPNGSI})
	require.NoError(t, err)
	require.Same(t, d.s, gsi.s)

	require.NoError(t, d.Close())
	_, err = d.CreateCQ(1, &CQOptions{Vector: 1})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, new(CQ).Vector())
	require.Zero(t, new(Device).CompletionVectors())
	_, err = new(Device).CreateCQ(1, &CQOptions{})
	require.ErrorIs(t, err, ErrClosed)

	// A middleware is made for one link.
	l, err := f.Link(simAddr(3))
	require.NoError(t, err)
	wrap := lossy(1)
	require.Equal(t, 1, openDevice(t, Config{Link: l, WrapLink: wrap, Shards: 4}).CompletionVectors())
}

// What has claimed a queue pair is told of the first packet, whatever shard it comes by, and
// nothing else can claim the queue pair meanwhile.
func TestClaimed(t *testing.T) {
	for vector := range 2 {
		f := sim.New(sim.Config{Seed: 1})
		a := newEnd(t, simDevice(t, f, 1, 1), 64, QPInitAttr{})
		b := endOnVector(t, simDevice(t, f, 2, 2), vector, 64, QPInitAttr{})
		told := 0
		qp := core.Open(b.qp)
		require.NoError(t, qp.Shard().Command(func(int64) error {
			require.True(t, qp.Claim(func() { told++ }, func() {}))
			require.False(t, qp.Claim(func() { t.Error("refused") }, func() {}))
			return nil
		}))
		connect(t, a, b)
		require.NoError(t, qp.Shard().Command(func(int64) error { qp.QP().WatchEstablished(); return nil }))
		write(t, a, b, 8)
		f.RunFor(1e6)
		require.Equal(t, 1, told, "vector %d", vector)
	}
}

// When no slot is left the first shard serves a queue of the vector, and the logger is told why.
func TestNoSlotForVector(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	l, err := f.Link(simAddr(1))
	require.NoError(t, err)
	var out bytes.Buffer
	d := openDevice(t, Config{Link: l, Rand: f.Rand(), Shards: 2, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	var others []link.Link
	for {
		o, err := l.Another()
		if err != nil {
			break
		}
		others = append(others, o)
	}
	require.Len(t, others, maxShards/2)
	cq, err := d.CreateCQ(1, &CQOptions{Vector: 1})
	require.NoError(t, err)
	require.Zero(t, cq.Vector())
	require.Same(t, d.s, cq.s)
	require.Len(t, d.shards.all(), 1)
	_, err = l.Another()
	require.Contains(t, out.String(), fmt.Sprintf("vector=1 error=%q", err))

	// Not at once, but later, it is tried again.
	require.NoError(t, others[0].Close())
	cq, err = d.CreateCQ(1, &CQOptions{Vector: 1})
	require.NoError(t, err)
	require.Zero(t, cq.Vector())
	f.RunFor(retryShardNs)
	cq, err = d.CreateCQ(1, &CQOptions{Vector: 1})
	require.NoError(t, err)
	require.Equal(t, 1, cq.Vector())
}

// Everything works from each shard to each.
func TestShardsOperations(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	da, db := simDevice(t, f, 1, 3), simDevice(t, f, 2, 2)
	for i := range 3 {
		for j := range 2 {
			a, b := endOnVector(t, da, i, 1<<16, QPInitAttr{}), endOnVector(t, db, j, 1<<16, QPInitAttr{})
			connect(t, a, b)
			exercise(t, a, b, []int{0, 1, 5000, 1 << 16})
			exercise(t, b, a, []int{300})
		}
	}
	require.Len(t, da.shards.all(), 3)

	// Counters are those of all shards.
	var sent, rcvd uint64
	for _, s := range da.shards.all() {
		require.NotZero(t, s.Engine().Counters().SentPkts)
		sent += s.Engine().Counters().SentPkts
		rcvd += s.Link().Stats().RxPackets
	}
	require.Equal(t, sent, da.Counters().SentPkts)
	require.Equal(t, rcvd, da.LinkStats().RxPackets)
}
