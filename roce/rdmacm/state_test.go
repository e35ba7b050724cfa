package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// What an ID is by what its connection is, in full: a state that is new in package cm fails here.
func TestStateOfConnection(t *testing.T) {
	want := map[cm.State][2]idState{ // without and with an answer to a lookup
		cm.Idle: {idOver, idConnected}, cm.SIDRRepSent: {idOver, idConnected},
		cm.ReqRcvd: {idRequested, idRequested}, cm.SIDRReqRcvd: {idRequested, idRequested},
		cm.ReqSent: {idConnecting, idConnecting}, cm.MRAReqRcvd: {idConnecting, idConnecting},
		cm.RepSent: {idConnecting, idConnecting}, cm.MRARepRcvd: {idConnecting, idConnecting},
		cm.SIDRReqSent: {idConnecting, idConnecting}, cm.RepRcvd: {idResponded, idResponded},
		cm.Established: {idConnected, idConnected}, cm.DReqSent: {idOver, idOver}, cm.Timewait: {idOver, idOver},
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

// A process without a free descriptor cannot ask the kernel for a route, which says nothing about
// routes: the error says what is missing.
func TestSourceError(t *testing.T) {
	dst := netip.MustParseAddr("192.0.2.1")
	for _, tt := range []struct {
		call  string
		errno syscall.Errno
		route bool
	}{
		{"socket", syscall.EMFILE, false},
		{"connect", syscall.ENETUNREACH, true},
	} {
		err := sourceError(dst, &net.OpError{Op: "dial", Err: os.NewSyscallError(tt.call, tt.errno)})
		require.ErrorIs(t, err, tt.errno)
		require.Equal(t, tt.route, errors.Is(err, syscall.ENETUNREACH), err)
		require.Equal(t, tt.route, errors.Is(err, verbs.ErrNoLocalGID), err)
		require.Contains(t, err.Error(), "192.0.2.1")
	}
}

// A link-local address without a zone has a way by the interface that the link knows.
func TestRouteWithoutAZone(t *testing.T) {
	near, far := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::1")
	require.NoError(t, checkRoute(near, netip.MustParseAddr("fe80::2")))
	require.NoError(t, checkRoute(near, far))
	require.NoError(t, checkRoute(far, near))
}
