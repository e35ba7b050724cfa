package cm

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// A peer that refuses a connection which is established has none, and what was written on it may be lost: that is no orderly
// end, unless its program said no.
func TestRefusedWhenEstablished(t *testing.T) {
	for _, c := range []struct {
		reason mad.RejectReason
		gone   bool
	}{{mad.RejectTimeout, true}, {mad.RejectInvalidCommID, true}, {mad.RejectConsumer, false}} {
		r := newRig(t)
		r.reach(Established)
		r.out()
		m := &mad.REJ{LocalCommID: r.id, RemoteCommID: r.local(), Rejected: mad.SubjectREP, Reason: c.reason}
		var b [mad.Bytes]byte
		require.NoError(t, encode(&b, mad.AttrREJ, 1, m))
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		e, ok := r.n.PollEvent()
		require.True(t, ok)
		require.Equal(t, EventDisconnected, e.Type)
		require.Equal(t, c.gone, e.Gone, c.reason)
	}
}
