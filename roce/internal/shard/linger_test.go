package shard

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// A call looks on after an answer if packets were missed before, and the less often the more often
// that was in vain.
func TestLinger(t *testing.T) {
	var l linger
	require.False(t, l.begins(), "nothing was missed")
	l.missed()
	require.True(t, l.begins())
	for _, want := range []int{1, 3, 7, 15} {
		l.ends(false)
		for range want {
			require.False(t, l.begins())
		}
		require.True(t, l.begins(), "after %d", want)
	}
	l.ends(true)
	require.True(t, l.begins())
	for range 20 {
		l.ends(false)
	}
	require.EqualValues(t, maxLingerSkip, l.skip)
}

func TestOnlyAnswers(t *testing.T) {
	of := func(ops ...ib.Opcode) bool {
		var rx []transport.RxPacket
		for _, op := range ops {
			rx = append(rx, transport.RxPacket{Data: []byte{byte(op)}})
		}
		return onlyAnswers(rx)
	}
	require.False(t, of())
	require.True(t, of(ib.RCAcknowledge))
	require.True(t, of(ib.RCAcknowledge, ib.RCReadRespOnly))
	require.False(t, of(ib.RCAcknowledge, ib.RCWriteOnly))
	require.False(t, of(ib.RCSendOnly))
	require.False(t, onlyAnswers([]transport.RxPacket{{}}), "none at all")
}

// Who looks in vain for more packets does so ever more rarely, until it finds one.
func TestSpin(t *testing.T) {
	var v spin
	require.True(t, v.begins())
	for _, want := range []int{1, 3, 7} {
		v.inVain()
		for range want {
			require.False(t, v.begins())
		}
		require.True(t, v.begins(), "after %d", want)
	}
	v.worth()
	require.True(t, v.begins())
	for range 20 {
		v.inVain()
	}
	require.EqualValues(t, maxSpinSkip, v.skip)
}

// A program rests that has neither called, nor polled, nor posted for a while.
func TestSpinRests(t *testing.T) {
	const long = int64(patience) + 1
	var v spin
	now := 10 * long
	require.True(t, v.rests(now, 0, 0, 0), "it has never done anything")
	require.False(t, v.rests(now, 1, 0, 0), "it has polled")
	require.False(t, v.rests(now+long-1, 1, 0, 0))
	require.True(t, v.rests(now+long, 1, 0, 0))
	require.False(t, v.rests(now+long, 1, 1, 0), "it has posted")
	require.True(t, v.rests(now+2*long, 1, 1, 0))
	require.False(t, v.rests(now+2*long, 1, 1, now+2*long-1), "it has called")
	require.True(t, v.rests(now+3*long, 1, 1, now+2*long-1))
}
