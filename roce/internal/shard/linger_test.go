package shard

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// A call looks on after an answer if packets were missed before, and the less often the more looks
// have found nothing.
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
	require.EqualValues(t, maxBackOff-1, l.skip)
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
