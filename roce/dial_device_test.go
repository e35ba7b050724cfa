package roce

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Ports have names, as with package net, and what is none is an error of its own.
func TestServiceNames(t *testing.T) {
	got, err := resolveHostPort(t.Context(), "10.0.0.1:http")
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}, got)
	got, err = resolveHostPort(t.Context(), ":https")
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, 443)}, got)
	for _, addr := range []string{"10.0.0.1:no-such-service", "10.0.0.1:65536", "10.0.0.1:-1"} {
		_, err = Dial(t.Context(), addr)
		var op *OpError
		require.ErrorAs(t, err, &op, addr)
		_, err = Listen(t.Context(), addr)
		require.ErrorAs(t, err, &op, addr)
	}
	_, err = resolveHostPort(t.Context(), "10.0.0.1:no-such-service")
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
}

// Default devices are opened with DefaultDeviceConfig.
func TestDefaultDeviceConfig(t *testing.T) {
	defer func(c verbs.Config) { DefaultDeviceConfig = c }(DefaultDeviceConfig)
	addr := rocetest.Loopback4()
	var log lockedBuffer
	DefaultDeviceConfig = verbs.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Spin: -1 * time.Nanosecond, Shards: 1}
	l, err := Listen(t.Context(), net.JoinHostPort(addr.String(), "0"))
	require.NoError(t, err)
	require.Contains(t, log.String(), addr.String(), "the device is logged")
	d, err := DefaultDevice(addr)
	require.NoError(t, err)
	require.Equal(t, 1, d.CompletionVectors())
	require.NoError(t, Shutdown(context.Background(), d))
	require.NoError(t, l.Close())

	for arg, cfg := range map[string]verbs.Config{
		"DefaultDeviceConfig.Addrs": {Addrs: []netip.Addr{addr}},
		"DefaultDeviceConfig.Link":  {Link: &sim.Link{}},
	} {
		DefaultDeviceConfig = cfg
		_, err := DefaultDevice(rocetest.Loopback4())
		var wrong *ArgError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, arg, wrong.Arg)
	}
}

// A peer that takes the numbers of a request for those of an older connection is asked again, with
// new ones, once.
func TestDialAgainAfterStale(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	s := rocetest.PeerOn(t, ds[1])
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	done := make(chan error)
	go func() {
		dialer := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
		_, err := dialer.DialAddr(ctx, lid.LocalAddr())
		done <- err
	}()
	first := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.NoError(t, first.ID.RejectReason(mad.RejectStaleConnection, nil))
	second := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.NotEqual(t, first.Conn.QPN, second.Conn.QPN)
	require.NoError(t, second.ID.Reject(nil))
	var refused *RejectedError
	require.ErrorAs(t, <-done, &refused)
	require.Equal(t, mad.RejectConsumer, refused.Reason)
}
