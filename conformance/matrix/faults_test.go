package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// profiled is a peer of which only its kind is known.
type profiled struct {
	peer.Peer
	profile peer.Profile
}

func (p profiled) Profile() peer.Profile { return p.profile }

func TestTimeoutOfFault(t *testing.T) {
	us, rxe, nic := profiled{profile: peer.ProfileGoroce}, profiled{profile: peer.ProfileRXE},
		profiled{profile: peer.ProfileConnectX}
	drop := fault{kind: ether.Drop, times: 1}
	for _, c := range []struct {
		name     string
		req, rsp peer.Peer
		op       peer.Opcode
		at       position
		want     int
	}{
		{"one that probes", us, rxe, peer.OpWrite, reqLast, probeTimeout},
		{"one that does not", rxe, us, peer.OpWrite, reqLast, faultTimeout},
		{"one that may not", nic, us, peer.OpWrite, reqLast, faultTimeout},
		{"what is never answered", us, rxe, peer.OpFlush, ack, faultTimeout},
		{"what another one answers", us, nic, peer.OpFlush, ack, probeTimeout},
	} {
		require.Equal(t, c.want, timeoutOfFault(c.req, c.rsp, c.op, c.at, drop), c.name)
	}
}
