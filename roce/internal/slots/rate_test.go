//go:build linux

package slots

import (
	"testing"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Messages to queue pair 1 are handed on at a bounded rate, and those beyond it are counted as
// lost; packets of queue pairs are not bounded.
func TestHandOnIsBounded(t *testing.T) {
	a := address()
	l, m := lease(t, a), lease(t, a)
	now := int64(time.Hour)
	l.now = func() int64 { return now }
	require.NoError(t, m.Announce(0, 0x0106_0007))
	req := &edge.RxPacket{Data: messages(0)[mad.AttrREQ], Src: a.Addr, Dst: a.Addr}
	require.Equal(t, m.slot, l.For(0, req))
	handed := 0
	for _, c := range []struct {
		after time.Duration
		want  int
	}{
		{0, handBurst}, {0, 0}, {time.Millisecond, handRate / 1000}, {10 * time.Millisecond, handRate / 100},
		{-time.Second, 0}, {time.Second + time.Millisecond, handBurst}, {time.Hour, handBurst},
	} {
		now += int64(c.after)
		lost := 0
		for range 2 * handBurst {
			n, ok := l.HandOn(0, m.slot, req)
			require.True(t, ok)
			lost += n
			require.Zero(t, l.Flush())
			received(t, m.Inbox(0))
		}
		require.Equal(t, c.want, 2*handBurst-lost, "%v later", c.after)
		handed += c.want
	}
	data := &edge.RxPacket{Data: make([]byte, 100), Src: a.Addr, Dst: a.Addr}
	for range 2 * handBurst {
		n, ok := l.HandOn(0, m.slot, data)
		require.True(t, ok)
		require.Zero(t, n)
		require.Zero(t, l.Flush())
		received(t, m.Inbox(0))
	}
}
