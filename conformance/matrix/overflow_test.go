package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/peer"
)

// overflowing is a peer that counts what its link had no room for.
type overflowing struct {
	peer.Peer
	n uint64
}

func (o *overflowing) Overflows() uint64 { return o.n }

// A message of UC or UD that this machine had no room for says nothing of the peer, and is tried
// again; one of RC is the requester's to send again.
func TestOverflow(t *testing.T) {
	here := &overflowing{n: 7}
	p := &pair{req: &side{p: peer.Peer(nil)}, rsp: &side{p: here}}
	before := p.overflows()
	require.EqualValues(t, 7, before)
	var s starvedError
	for _, typ := range []peer.Type{peer.RC, peer.UC, peer.UD} {
		require.NotErrorAs(t, p.excuseOverflow(errNoCompletion, typ, before), &s, "nothing was lost here")
	}
	here.n += 3
	require.NotErrorAs(t, p.excuseOverflow(errNoCompletion, peer.RC, before), &s)
	for _, typ := range []peer.Type{peer.UC, peer.UD} {
		err := p.excuseOverflow(errNoCompletion, typ, before)
		require.ErrorIs(t, err, errNoCompletion)
		require.ErrorAs(t, err, &s)
		require.Equal(t, "this machine was too slow to take 3 packets that had come", s.what)
	}
}
