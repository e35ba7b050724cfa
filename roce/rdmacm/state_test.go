package rdmacm

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/stretchr/testify/require"
)

// What an ID is by what its connection is, in full: a state that is new in package cm fails here.
func TestStateOfConnection(t *testing.T) {
	want := map[cm.State][2]idState{ // without and with an answer to a lookup
		cm.Idle: {idOver, idConnected}, cm.SIDRRepSent: {idOver, idConnected},
		cm.ReqRcvd: {idRequested, idRequested}, cm.SIDRReqRcvd: {idRequested, idRequested},
		cm.ReqSent: {idConnecting, idConnecting}, cm.MRAReqRcvd: {idConnecting, idConnecting},
		cm.RepSent: {idConnecting, idConnecting}, cm.MRARepRcvd: {idConnecting, idConnecting}, cm.SIDRReqSent: {idConnecting, idConnecting},
		cm.RepRcvd: {idResponded, idResponded}, cm.Established: {idConnected, idConnected},
		cm.DReqSent: {idOver, idOver}, cm.Timewait: {idOver, idOver},
	}
	n := 0
	for c := cm.State(0); !strings.HasPrefix(c.String(), "State("); c++ {
		w, ok := want[c]
		require.True(t, ok, "%v is in no row", c)
		require.Equal(t, w, [2]idState{stateOf(c, false), stateOf(c, true)}, "%v", c)
		n++
	}
	require.Len(t, want, n)
}

// What an ID is before there is a connection.
func TestStateBeforeConnection(t *testing.T) {
	to := netip.MustParseAddrPort("10.0.0.2:7471")
	for want, id := range map[idState]*ID{
		idIdle: {}, idBound: {bound: true}, idAddrResolved: {bound: true, remote: to},
		idRouteResolved: {bound: true, remote: to, routed: true}, idListening: {bound: true, listener: &cm.Listener{}},
	} {
		require.Equal(t, want, id.state())
	}
}
