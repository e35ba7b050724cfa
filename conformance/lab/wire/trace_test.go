package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceLastKeepsTheLast(t *testing.T) {
	const n = 10
	s := New()
	defer s.Close()
	tr := s.TraceLast(n, nil)
	for psn := range uint32(95) {
		s.trace(nil, &Packet{PSN: psn}, "")
	}
	ev := tr.Events()
	require.GreaterOrEqual(t, len(ev), n)
	require.LessOrEqual(t, len(ev), 2*n)
	for i, e := range ev {
		require.EqualValues(t, 95-len(ev)+i, e.Pkt.PSN)
	}
}
