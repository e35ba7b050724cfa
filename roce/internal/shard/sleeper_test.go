package shard

import (
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/stretchr/testify/require"
)

// thread is a sleeper that says of itself what a test wants.
type thread struct{ number int }

func (t *thread) Thread() int                 { return t.number }
func (*thread) Willing() bool                 { return true }
func (*thread) Watch(core.Lender, []int) bool { return true }
func (*thread) Forget(core.Lender)            {}
func (*thread) Presence() (is core.Presence)  { return is }

// The channels of one thread are one who waits, and those of two are not.
func TestLeaseIsForAThread(t *testing.T) {
	a, b, c, unknown := SleeperSignal(&thread{7}), SleeperSignal(&thread{7}), SleeperSignal(&thread{8}), SleeperSignal(&thread{})
	require.True(t, a.same(a) && a.same(b) && unknown.same(unknown))
	require.False(t, a.same(c) || a.same(unknown) || unknown.same(SleeperSignal(&thread{})))
	require.False(t, a.same(nil) || a.same(NewSignal()) || NewSignal().same(a))

	var l lease
	l.turn(1, a)
	for range leaseTurns / 2 {
		require.False(t, l.lends())
		l.turn(1, b)
		l.turn(1, a, b)
	}
	require.True(t, l.lends())
	l.begin()
	l.turn(1, b)
	require.False(t, l.over)
	l.turn(1, c)
	require.True(t, l.over)
}

// A thread that has not looked loses the seat. If it only lacks a CPU it has longer.
func TestSeatOfAThread(t *testing.T) {
	var v seat
	v.lend(SleeperSignal(&thread{7}), 3)
	require.False(t, v.sitDown(NewSignal()), "a goroutine cannot have it")
	ask := func(looks uint32, is core.Presence) (tick, bool) { return v.asks(v.fired(looks), is) }

	got, mistake := ask(4, core.Away)
	require.Equal(t, tickAgain, got)
	require.False(t, mistake, "it has looked")
	got, mistake = ask(4, core.Idle)
	require.Equal(t, tickTakeOver, got)
	require.False(t, mistake, "nothing has come")
	for range starvedTicks {
		got, mistake = ask(4, core.Starved)
		require.Equal(t, tickAgain, got)
		require.False(t, mistake)
	}
	got, mistake = ask(4, core.Starved)
	require.Equal(t, tickTakeOver, got)
	require.True(t, mistake, "that was long")
	_, _ = ask(5, core.Starved)
	got, _ = ask(5, core.Starved)
	require.Equal(t, tickAgain, got, "counted anew")
	got, mistake = ask(5, core.Away)
	require.Equal(t, tickTakeOver, got)
	require.True(t, mistake)
}
