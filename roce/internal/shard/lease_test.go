package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// turn is a batch that wakes goroutines.
func (l *lease) turn(packets int, woken ...*Signal) {
	for _, s := range woken {
		l.woke(s, false)
	}
	l.handled(packets)
}

func TestLeaseIsForAConversation(t *testing.T) {
	a, b := NewSignal(), NewSignal()
	var l lease
	l.turn(1, a)
	for range leaseTurns {
		require.False(t, l.lends())
		l.turn(0) // a timer
		l.turn(2) // acknowledgements
		l.turn(1, a)
	}
	require.True(t, l.lends())
	require.Same(t, a, l.last)
	l.begin()

	l.turn(2)
	l.turn(1, a)
	require.False(t, l.over)
	l.turn(1, a, b)
	l.turn(1, a)
	require.True(t, l.over, "one for another ends it")
	l.end(false)
	require.False(t, l.lent)

	l.turn(1, a)
	for range 2*leaseTurns - 1 {
		l.turn(1, a)
	}
	require.False(t, l.lends(), "it takes twice as many after that")
	l.turn(1, a)
	require.True(t, l.lends())
}

// Where processes outnumber the CPUs, messages queue.
func TestLeaseIsForMessagesThatQueued(t *testing.T) {
	a := NewSignal()
	var l lease
	l.turn(1, a)
	for range leaseTurns {
		require.False(t, l.lends())
		l.turn(rxBatch, a)
	}
	require.True(t, l.lends())
	l.begin()
	l.turn(rxBatch, a)
	require.False(t, l.over)
}

func TestLeaseIsForTheOnlyOneThatWaits(t *testing.T) {
	signals := [2]*Signal{NewSignal(), NewSignal()}
	var l lease
	for i := range leaseTurns {
		require.False(t, l.lends())
		l.woke(signals[i%2], true)
		l.handled(1)
	}
	require.True(t, l.lends(), "it waits for several signals in turn")
	l.begin()
	l.woke(signals[leaseTurns%2], true)
	l.handled(1)
	require.False(t, l.over)
	l.woke(signals[(leaseTurns+1)%2], false)
	l.handled(1)
	require.True(t, l.over, "somebody else waited")
}

func TestLeaseIsNotForStreams(t *testing.T) {
	a := NewSignal()
	for name, stream := range map[string]func(*lease){
		"posted together": func(l *lease) { l.against() },
		"posted one behind the other": func(l *lease) {
			for range leaseBehind + 1 {
				l.posted()
			}
		},
		"other means": func(l *lease) { l.turn(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var l lease
			for range 100 {
				for range 3 {
					l.turn(1, a)
				}
				stream(&l)
				require.False(t, l.lends())
				l.lent = true
				stream(&l)
				l.turn(1, a)
				require.True(t, l.over)
				l.end(false)
			}
		})
	}
}
