package rdmacm

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Where a filter forbids the question for a socket's address, the route is unknown, and no request
// for a connection is kept from trying. Package net then has no address, which was a panic.
func TestSourceForbidden(t *testing.T) {
	var unfit, way, source error
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends with its filter
		call := linktest.SystemCall{Name: "getsockname", Number: syscall.SYS_GETSOCKNAME}
		if unfit = linktest.Fail(call, syscall.EPERM); unfit != nil {
			return
		}
		a := netip.MustParseAddr("127.0.0.1")
		way = checkRoute(a, a)
		_, source = RouteSource(a)
	}()
	<-done
	if unfit != nil {
		t.Skip("no seccomp filters here:", unfit)
	}
	require.NoError(t, way)
	var none *verbs.NoRouteError
	require.NotErrorAs(t, source, &none)
	require.ErrorContains(t, source, "getsockname")
}
