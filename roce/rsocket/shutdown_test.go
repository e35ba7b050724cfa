package rsocket

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The clients of a web server vanish, as those that are killed do, while their connections
// are idle. Shutdown does not wait for them: one after the other they would take longer than
// its context lasts.
func TestShutdownDeadClients(t *testing.T) {
	var wire *fault.Link
	client := openDevice(t,
		verbs.Config{Addrs: []netip.Addr{rocetest.Loopback4()}, WrapLink: func(l link.Link) (link.Link, error) {
			wire = fault.New(l)
			return wire, nil
		}})
	server := openDevice(t, verbs.Config{})
	// What the last ones have not acknowledged yet is waited for, which is not what this is about.
	lc := ListenConfig{Device: server, Config: Config{SilenceTimeout: -1}}
	l, err := lc.ListenAddr(netip.AddrPortFrom(server.Addrs()[0], 0))
	require.NoError(t, err)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	for range 60 {
		tr := &http.Transport{DialContext: (&Dialer{Device: client}).DialContext}
		r, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String())
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		defer tr.CloseIdleConnections()
	}
	wire.Add(fault.Rule{Dir: fault.Send, Action: fault.Drop})
	wire.Add(fault.Rule{Dir: fault.Receive, Action: fault.Drop})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, srv.Shutdown(ctx))
	require.NoError(t, ctx.Err())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}
