//go:build linux

package slots

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// What takes a request back goes to the device that got it, and to no other; what was never asked
// for goes to nobody.
func TestWithdrawnRequest(t *testing.T) {
	a := address()
	l, m, n := lease(t, a), lease(t, a), lease(t, a)
	const service = mad.ServiceID(0x0106_0007)
	peerOf := func(src string, b []byte) *edge.RxPacket {
		return &edge.RxPacket{Data: b, Src: netip.MustParseAddr(src), Dst: a.Addr}
	}
	req, rej := peerOf("10.0.0.1", messages(0)[mad.AttrREQ]), peerOf("10.0.0.1", messages(0)[mad.AttrREJ])
	require.Equal(t, Nobody, l.For(0, rej))
	require.Equal(t, Anyone, l.For(0, req), "nobody has the service: anyone can refuse")
	require.Equal(t, Nobody, l.For(0, rej))

	require.NoError(t, m.Announce(0, service))
	require.Equal(t, m.slot, n.For(0, req), "n reads it")
	for _, any := range []*Lease{l, m, n} {
		require.Equal(t, m.slot, any.For(0, rej))
	}
	require.Equal(t, Nobody, l.For(0, peerOf("10.0.0.2", rej.Data)), "somebody else")
	other := messages(0)[mad.AttrREJ]
	other[dataAt]++
	require.Equal(t, Nobody, l.For(0, peerOf("10.0.0.1", other)), "another request")
	require.Equal(t, Nobody, lease(t, address()).For(0, rej), "another address")

	require.Equal(t, m.slot, l.For(0, peerOf("::ffff:10.0.0.1", messages(0)[mad.AttrREQ])))
	m.Withdraw(0, service)
	require.NoError(t, n.Announce(0, service))
	require.Equal(t, n.slot, l.For(0, req), "sent again, to who has the service now")
	require.Equal(t, n.slot, m.For(0, rej))
	for at, b := range messages(0) {
		if at != mad.AttrREQ && at != mad.AttrSIDRReq && at != mad.AttrREJ {
			require.Equal(t, Anyone, l.For(0, peerOf("10.0.0.1", b)), "%v", at)
		}
	}
	for at, b := range messages(mad.CommID(m.Slot().CommID(5))) {
		if at != mad.AttrREQ && at != mad.AttrSIDRReq {
			require.Equal(t, m.slot, l.For(0, peerOf("10.0.0.1", b)), "%v", at)
		}
	}
}

// A flood of requests costs notes, and each that is there is right.
func TestNotes(t *testing.T) {
	l := lease(t, address())
	s := l.sets[0]
	for h := uint64(0); h < 3<<askedBits; h++ {
		s.note(mix(h), int(h%Count))
	}
	kept := 0
	for h := uint64(0); h < 3<<askedBits; h++ {
		if got := s.noted(mix(h)); got != Nobody {
			require.EqualValues(t, h%Count, got)
			kept++
		}
	}
	require.Greater(t, kept, 1<<askedBits/2)
	require.LessOrEqual(t, kept, 1<<askedBits)
}

func TestForAllocatesNothing(t *testing.T) {
	if seeds.Race {
		t.Skip("the race detector has what is passed to the kernel allocated")
	}
	a := address()
	l, m := lease(t, a), lease(t, a)
	require.NoError(t, m.Announce(0, 0x0106_0007))
	for _, at := range []mad.Attribute{mad.AttrREQ, mad.AttrREJ} {
		p := &edge.RxPacket{Data: messages(0)[at], Src: a.Addr, Dst: a.Addr}
		require.Zero(t, testing.AllocsPerRun(100, func() { l.For(0, p) }), at)
	}
}
