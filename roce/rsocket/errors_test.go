package rsocket

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A context that is over before the call sends nothing: neither its peer nor anybody else
// hears of it.
func TestDialContextOver(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 50})
	l, err := (&ListenConfig{Device: n.b}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 80))
	require.NoError(t, err)
	defer l.Close()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-1))
	defer cancel()
	d := &Dialer{Device: n.a}
	for _, tt := range []struct {
		ctx     context.Context
		targets []error
		timeout bool
	}{
		{canceled, []error{context.Canceled}, false},
		{late, []error{context.DeadlineExceeded, os.ErrDeadlineExceeded}, true},
	} {
		for _, dial := range []func() error{
			func() error { _, err := d.DialAddr(tt.ctx, l.addr.AddrPort); return err },
			func() error { _, err := d.DialContext(tt.ctx, "tcp", l.Addr().String()); return err },
			func() error { _, err := d.DialContext(tt.ctx, "tcp", "localhost:http"); return err },
			func() error {
				_, err := d.begin(tt.ctx, l.addr.AddrPort)
				return opError("dial", Addr{}, Addr{}, dialError(err))
			},
		} {
			err := dial()
			for _, target := range tt.targets {
				requireOp(t, err, "dial", target)
			}
			require.Equal(t, tt.timeout, err.(net.Error).Timeout())
		}
	}
	for n.fabric.Step() {
	}
	require.Zero(t, n.fabric.Stats().Sent)
}

// A context that ends while the peer does not answer.
func TestDialTimeout(t *testing.T) {
	n := udpNetwork(t) // whose hosts do not know of each other yet
	nobody := netip.AddrPortFrom(rocetest.Silent(t), 80)
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	_, err := (&Dialer{Device: n.a}).DialAddr(ctx, nobody)
	requireOp(t, err, "dial", os.ErrDeadlineExceeded)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, err.(net.Error).Timeout())
	var o *net.OpError
	require.ErrorAs(t, err, &o)
	require.Equal(t, Addr{nobody}, o.Addr)
}

// Errors match what net returns in the same case, and name what they are about.
func TestErrorsLikeNet(t *testing.T) {
	cfg := verbs.Config{Addrs: []netip.Addr{netip.IPv6Loopback()}}
	var six *verbs.Device
	var err error
	for range 50 { // not port 4791, on which other tests may have a device
		a := rocetest.Loopback4().As4()
		cfg.UDP.Port = 20000 + (uint16(a[1])<<8+uint16(a[2]))%30000
		if six, err = verbs.Open(cfg); err == nil {
			break
		}
	}
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	defer six.Close()
	ctx := testContext(t)

	// All addresses of a device that speaks IPv6 only.
	l, err := (&ListenConfig{Device: six}).ListenAddr(netip.AddrPort{})
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, netip.IPv6Unspecified(), l.Addr().(Addr).Addr())
	c, err := (&Dialer{Device: six}).DialAddr(ctx, netip.AddrPortFrom(netip.IPv6Loopback(), l.addr.Port()))
	require.NoError(t, err)
	require.NoError(t, c.Close())

	// Nobody listens; the error names both ends.
	_, err = (&Dialer{Device: six}).DialAddr(ctx, netip.MustParseAddrPort("[::1]:9"))
	requireOp(t, err, "dial", syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "[::1]:9")

	// No way to the address.
	_, err = (&Dialer{Device: six}).DialAddr(ctx, netip.MustParseAddrPort("192.0.2.1:80"))
	requireOp(t, err, "dial", syscall.ENETUNREACH)
	_, err = (&Dialer{Device: six}).DialContext(ctx, "tcp", "192.0.2.1:80")
	requireOp(t, err, "dial", syscall.ENETUNREACH)

	// A zone that does not exist.
	for _, d := range []*Dialer{{Device: six}, {}} {
		_, err = d.DialContext(ctx, "tcp", "[fe80::1%nosuch0]:80")
		requireOp(t, err, "dial", roce.ErrNoLocalGID)
		require.ErrorContains(t, err, "nosuch0")
	}

	// A family that the network does not have.
	for network, host := range map[string]string{"tcp4": "[::1]:80", "tcp6": "127.0.0.1:80"} {
		_, err = (&Dialer{Device: six}).DialContext(ctx, network, host)
		var bad *net.AddrError
		require.ErrorAs(t, err, &bad)
	}

	// Addresses that are taken, and that are somebody else's.
	_, err = (&ListenConfig{Device: six}).ListenAddr(netip.AddrPortFrom(netip.IPv6Loopback(), l.addr.Port()))
	requireOp(t, err, "listen", syscall.EADDRINUSE)
	_, err = (&ListenConfig{Device: six}).ListenAddr(netip.MustParseAddrPort("192.0.2.1:80"))
	requireOp(t, err, "listen", syscall.EADDRNOTAVAIL)
}

// The error of a stream that the peer has reset reads as that of TCP does: the same text for each
// connection, so that a log can count it.
func TestBrokenText(t *testing.T) {
	err := broken(&verbs.WC{ID: 7, QPN: 9, Status: verbs.WCFlushErr})
	require.EqualError(t, err, syscall.ECONNRESET.Error())
	var status *verbs.StatusError
	require.ErrorAs(t, err, &status)
	require.ErrorContains(t, broken(&verbs.WC{ID: 7, QPN: 9, Status: verbs.WCLocalLenErr}), "0x000009")
}

// An error names the operation, the addresses and the reason once, behind net's words for the case.
func TestErrorsSayOnce(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 51})
	ctx := testContext(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	at := func(d *verbs.Device, port uint16) netip.AddrPort { return netip.AddrPortFrom(d.Addrs()[0], port) }
	here, there := at(n.a, 80).String(), at(n.b, 80).String()
	l, err := (&ListenConfig{Device: n.b}).ListenAddr(at(n.b, 80))
	require.NoError(t, err)
	defer l.Close()
	d := &Dialer{Device: n.a}
	dial := func(ctx context.Context, to string) error { _, err := d.DialContext(ctx, "tcp", to); return err }
	listen := func(to netip.AddrPort) error { _, err := (&ListenConfig{Device: n.b}).ListenAddr(to); return err }
	refused := at(n.b, 81).String()
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"dial rsocket " + refused + ": connection refused: nobody listens there (CM reject", dial(ctx, refused)},
		{"dial rsocket " + there + ": context canceled", dial(over, there)},
		{"dial rsocket [2001:db8::1]:80: network is unreachable: no route: the peer has an IPv6 address, and",
			dial(ctx, "[2001:db8::1]:80")},
		{"listen rsocket " + there + ": address already in use", listen(at(n.b, 80))},
		{"listen rsocket " + here + ": cannot assign requested address: not an address of this device",
			listen(at(n.a, 80))},
	} {
		require.ErrorContains(t, tt.err, tt.want)
		rocetest.SaysOnce(t, tt.err)
	}
}

// A host that cannot be reached is EHOSTUNREACH, as with TCP, one that does not answer ETIMEDOUT.
func TestDialErrorUnreachable(t *testing.T) {
	for _, tt := range []struct{ cause, want error }{
		{access.NewKind("no route to host", roce.ErrUnreachable, syscall.EHOSTUNREACH), syscall.EHOSTUNREACH},
		{roce.ErrUnreachable, syscall.ETIMEDOUT},
	} {
		var broken *brokenError
		require.ErrorAs(t, dialError(tt.cause), &broken)
		require.Equal(t, tt.want, broken.errno)
	}
}
