package shard_test

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func alarmDevice(t *testing.T) (*sim.Fabric, *verbs.Device) {
	f := sim.New(sim.Config{Seed: 1})
	l, err := f.Link(netip.MustParseAddr("10.0.0.1"))
	require.NoError(t, err)
	d, err := verbs.Open(verbs.Config{Link: l, Rand: f.Rand()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return f, d
}

// Alarms go off in order, at their times; what is stopped or moved does not go off when
// it was to, and virtual time does not pass for it.
func TestAlarm(t *testing.T) {
	f, d := alarmDevice(t)
	type ring struct {
		i  int
		at int64
	}
	var got, want []ring
	rng := rand.New(rand.NewPCG(1, 1))
	alarms := make([]*shard.Alarm, 200)
	for i := range alarms {
		alarms[i] = access.Shard(d).NewAlarm(func() { got = append(got, ring{i, f.Now()}) })
		require.True(t, alarms[i].Set(time.Duration(1+rng.IntN(1e6)), 0))
	}
	for i, a := range alarms {
		switch i % 3 {
		case 0:
			a.Stop()
		case 1:
			at := 1 + rng.IntN(2e6)
			require.True(t, a.Set(time.Duration(at), 0))
			want = append(want, ring{i, int64(at)})
		default:
			a.Stop()
			require.True(t, a.Set(time.Duration(i), 0))
			want = append(want, ring{i, int64(i)})
		}
	}
	slices.SortStableFunc(want, func(a, b ring) int { return int(a.at - b.at) })
	for f.Step() {
	}
	require.Equal(t, want, got)

	last := access.Shard(d).NewAlarm(func() { t.Error("was stopped") })
	require.True(t, last.Set(time.Hour, 0))
	last.Stop()
	last.Stop()
	for f.Step() {
	}
	require.Less(t, f.Now(), int64(time.Hour))
	require.True(t, last.Set(math.MaxInt64, math.MaxInt64), "not soon")
	f.RunFor(time.Hour)
	last.Stop()
}

// Alarms that may be late go off together.
func TestAlarmSlack(t *testing.T) {
	f, d := alarmDevice(t)
	times := map[int64]int{}
	for i := range 100 {
		require.True(t, access.Shard(d).NewAlarm(func() {
			times[f.Now()]++
		}).Set(time.Second+time.Duration(i)*time.Millisecond, time.Second))
	}
	for f.Step() {
	}
	require.Equal(t, map[int64]int{int64(time.Second): 1, int64(2 * time.Second): 99}, times)
}

// An alarm may set itself, and others, again. When the device closes, the alarms that are
// set go off; later none can be set.
func TestAlarmAgain(t *testing.T) {
	f, d := alarmDevice(t)
	n := 0
	var a *shard.Alarm
	a = access.Shard(d).NewAlarm(func() { n++; a.Set(time.Second, 0) })
	require.True(t, a.Set(time.Second, 0))
	f.RunFor(10 * time.Second)
	require.Equal(t, 10, n)
	require.NoError(t, d.Close())
	require.Equal(t, 11, n)
	require.Equal(t, 10*time.Second, a.Now())
	require.False(t, a.Set(1, 0))
	require.False(t, new(shard.Alarm).Set(1, 0))
	new(shard.Alarm).Stop()
	require.Zero(t, new(shard.Alarm).Now())
}

// On a real network time passes by itself.
func TestAlarmRealTime(t *testing.T) {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.71.3.1")}})
	require.NoError(t, err)
	rang := make(chan int, 3)
	start := time.Now()
	late := access.Shard(d).NewAlarm(func() { rang <- 2 })
	require.True(t, late.Set(time.Hour, 0))
	require.True(t, access.Shard(d).NewAlarm(func() { rang <- 1 }).Set(30*time.Millisecond, 0))
	require.True(t, access.Shard(d).NewAlarm(func() { rang <- 0 }).Set(5*time.Millisecond, 0))
	require.Equal(t, 0, <-rang)
	require.Equal(t, 1, <-rang)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	require.NoError(t, d.Close())
	require.Equal(t, 2, <-rang, "the device is closed")
}

// Ring is for those who have the lock of the shard, also in a simulation, where the alarm goes off
// as soon as it is driven.
func TestAlarmRing(t *testing.T) {
	f, simulated := alarmDevice(t)
	real := rocetest.OpenDevice(t, verbs.Config{})
	for _, d := range []*verbs.Device{simulated, real} {
		rang := make(chan struct{}, 1)
		a := access.Shard(d).NewAlarm(func() { rang <- struct{}{} })
		require.NoError(t, access.Shard(d).Command(func(int64) error { a.Ring(); return nil }))
		if d == simulated {
			for f.Step() {
			}
			require.Len(t, rang, 1)
		}
		<-rang
	}
	require.NotPanics(t, func() { (*shard.Alarm)(nil).Ring(); new(shard.Alarm).Ring() })
}
