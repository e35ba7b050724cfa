package roce

import (
	"context"
	"math"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Numbers that cannot be are refused by Dial and Listen, by name and with their
// limits, and leave nothing behind.
func TestConnConfigLimits(t *testing.T) {
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	to := netip.AddrPortFrom(ds[1].Addrs()[0], 1)
	for arg, cfgs := range map[string][]ConnConfig{
		"RecvDepth": {
			{RecvDepth: -1}, {RecvDepth: MaxConnDepth + 1}, {RecvDepth: math.MaxInt}, {RecvDepth: math.MinInt},
			{RecvDepth: MaxConnDepth, RecvBytes: MaxConnRecvBytes/MaxConnDepth + 1},
		},
		"RecvBytes":     {{RecvBytes: -1}, {RecvBytes: MaxRecvBytes + 1}, {RecvBytes: math.MaxInt}},
		"RetryCount":    {{Param: &rdmacm.ConnParam{RetryCount: 8}}},
		"RNRRetryCount": {{Param: &rdmacm.ConnParam{RNRRetryCount: 8}}},
		"AckTimeout":    {{Param: &rdmacm.ConnParam{AckTimeout: 32}}},
		"MinRNRTimer":   {{Param: &rdmacm.ConnParam{MinRNRTimer: 32}}},
		"MTU":           {{Param: &rdmacm.ConnParam{MTU: 9}}},
		"SendDepth":     {{SendDepth: -1}, {SendDepth: MaxConnDepth + 1}, {SendDepth: math.MaxInt}},
	} {
		for _, cfg := range cfgs {
			var ae *ArgError
			cfg.Device = ds[0]
			_, err := (&Dialer{ConnConfig: cfg}).DialAddr(rocetest.Context(t), to)
			require.ErrorAs(t, err, &ae)
			require.Equal(t, arg, ae.Arg)
			require.Regexp(t, "not in 0..[0-9]+|at most [0-9]+|is none", ae.Why)
			_, err = (&ListenConfig{ConnConfig: cfg}).ListenAddr(netip.AddrPortFrom(ds[0].Addrs()[0], 0))
			require.ErrorAs(t, err, &ae)
			require.Equal(t, arg, ae.Arg)
		}
	}
	require.Zero(t, ds[0].MemCounts())
}

// A connection with the most receives there are is made within the patience of its
// user, and one whose context ends while it is being made is given up.
func TestConnDeep(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	l := listenOn(t, ds[1], ListenConfig{})
	cfg := ConnConfig{Device: ds[0], RecvDepth: MaxConnDepth, RecvBytes: 64}
	accepted := make(chan *Conn, 1)
	go func() {
		s, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- s
	}()
	c, err := (&Dialer{ConnConfig: cfg}).DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	s := <-accepted
	for i := range 300 { // more than are posted at a time
		require.NoError(t, s.Send(ctx, []byte{byte(i), byte(i >> 8)}))
	}
	for i := range 300 {
		m, err := c.RecvMsg(ctx)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i), byte(i >> 8)}, m.Bytes())
		require.NoError(t, m.Release())
	}
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())

	cfg.Device = ds[1]
	before, packets := ds[1].MemCounts(), ds[1].Counters().SentPkts
	_, err = (&Dialer{ConnConfig: cfg}).DialAddr(&patience{Context: ctx, looks: 5}, l.Addr())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, before, ds[1].MemCounts())
	require.Equal(t, packets, ds[1].Counters().SentPkts, "the peer was not asked")
}

// patience is a context that is over when it was looked at so many times.
type patience struct {
	context.Context
	looks int
}

func (p *patience) Err() error {
	if p.looks--; p.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Share of more than the message can name is refused, and not cut short.
func TestShareTooMuch(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("no slice is that long with 32 bits")
	}
	tooMuch := int64(5) << 30
	b, err := verbs.MapBuffer(int(tooMuch), false) // costs nothing as long as nobody writes to it
	if err != nil {
		t.Skip("cannot map 5 GiB: ", err)
	}
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	before, packets := ds[0].MemCounts(), ds[0].Counters().SentPkts
	_, err = c.Share(ctx, b.Bytes(), RemoteRead)
	var ae *ArgError
	require.ErrorAs(t, err, &ae)
	require.Equal(t, "buf", ae.Arg)
	require.Contains(t, ae.Why, "at most 4294967295")
	require.Equal(t, before, ds[0].MemCounts())
	require.Equal(t, packets, ds[0].Counters().SentPkts)

	mr, err := c.Register(b.Bytes(), RemoteRead)
	require.NoError(t, err)
	r, err := mr.RemoteAt(int(tooMuch-4096), 4096)
	require.NoError(t, err)
	require.Equal(t, mr.Addr()+uint64(tooMuch-4096), r.Addr)
	require.NoError(t, s.Read(ctx, make([]byte, 4096), r))
	for _, off := range []int64{-1, tooMuch - 4095, tooMuch + 1, math.MaxInt64} {
		_, err = mr.RemoteAt(int(off), 4096)
		require.ErrorIs(t, err, ErrInvalidAttr)
	}
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, b.Close())
}
