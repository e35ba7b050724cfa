package roce_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// alone runs the test once more as a process in a network namespace of its own, and reports whether
// this is that one. Goroutines of a listener are on any thread, so that the whole process has to be
// there. The namespace has 10.7.7.1, and veth interfaces v0 and v1 with link-local addresses.
func alone(t *testing.T) bool {
	const env = "GOROCE_TEST_NAMESPACE"
	if os.Getenv(env) != "" {
		return true
	}
	ns := linktest.NewNamespace(t)
	ns.IP("addr add 10.7.7.1/32 dev lo", "link add v0 type veth peer name v1")
	for _, v := range []string{"v0", "v1"} {
		ns.SetSysctl("ipv6/conf/"+v+"/accept_dad", 0)
		ns.IP("link set " + v + " up")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ns.Start(cmd)
	require.NoError(t, cmd.Wait(), "%s", out.String())
	require.Contains(t, out.String(), "--- PASS: "+t.Name())
	return false
}

// ip changes the addresses of the namespace that the process is in.
func ip(t *testing.T, commands ...string) {
	t.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// linkLocal returns the link-local address of an interface.
func linkLocal(t *testing.T, name string) netip.Addr {
	ifi, err := net.InterfaceByName(name)
	require.NoError(t, err)
	all, err := ifi.Addrs()
	require.NoError(t, err)
	for _, a := range all {
		if p := netip.MustParsePrefix(a.String()); p.Addr().IsLinkLocalUnicast() {
			return p.Addr().WithZone(name)
		}
	}
	t.Fatalf("%s has %v", name, all)
	return netip.Addr{}
}

// dialWhenThere connects as soon as the listener is at the address.
func dialWhenThere(t *testing.T, to netip.AddrPort) *roce.Conn {
	t.Helper()
	for {
		c, err := (&roce.Dialer{}).DialAddr(t.Context(), to)
		if err == nil {
			return c
		}
		require.True(t, errors.Is(err, roce.ErrConnRefused) || errors.Is(err, syscall.EADDRNOTAVAIL), "%v: %v", to, err)
		runtime.Gosched()
	}
}

// pass sends a message and takes it at the other end.
func pass(t *testing.T, from, to *roce.Conn) {
	t.Helper()
	require.NoError(t, from.Send(t.Context(), []byte("a message")))
	b := make([]byte, 32)
	n, err := to.Recv(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, "a message", string(b[:n]))
}

// A listener at all addresses is at those that come later, whatever their kind, and no longer at
// those that go. Connections end with the address, and say so; others do not.
func TestListenerFollowsAddresses(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	l, err := roce.Listen(ctx, ":0")
	require.NoError(t, err)
	require.Equal(t, netip.IPv4Unspecified(), l.Addr().Addr())
	at := func(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), l.Addr().Port()) }
	meet := func(to netip.AddrPort) (c, s *roce.Conn) {
		t.Helper()
		c = dialWhenThere(t, to)
		s, err := l.Accept(ctx)
		require.NoError(t, err)
		require.Equal(t, to.Addr().WithZone(""), s.LocalAddr().Addr().WithZone(""))
		pass(t, c, s)
		return c, s
	}
	c1, s1 := meet(at("10.7.7.1"))
	meet(netip.AddrPortFrom(linkLocal(t, "v0"), l.Addr().Port()))

	ip(t, "addr add 10.7.7.2/32 dev lo", "addr add fd77::2/128 dev lo nodad",
		"link add v2 type veth peer name v3", "link set v2 up", "link set v3 up")
	c2, s2 := meet(at("10.7.7.2"))
	meet(at("fd77::2"))
	meet(netip.AddrPortFrom(linkLocal(t, "v2"), l.Addr().Port())) // after the test for duplicates

	ip(t, "addr del 10.7.7.2/32 dev lo")
	for _, c := range []*roce.Conn{c2, s2} {
		_, err = c.Recv(ctx, make([]byte, 32))
		require.ErrorContains(t, err, "the address 10.7.7.2 is gone from this host")
		require.ErrorIs(t, err, roce.ErrAddrNotLocal)
		require.ErrorIs(t, err, roce.ErrClosed)
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, c.Close())
	}
	pass(t, s1, c1)

	ip(t, "addr add 10.7.7.2/32 dev lo")
	c2, s2 = meet(at("10.7.7.2"))
	pass(t, s2, c2)

	accepted := make(chan error)
	go func() {
		_, err := l.Accept(ctx)
		accepted <- err
	}()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-accepted, roce.ErrClosed)
	for _, a := range []string{"10.7.7.1", "10.7.7.2", "fd77::2"} {
		_, err = (&roce.Dialer{}).DialAddr(ctx, at(a))
		require.ErrorIs(t, err, roce.ErrConnRefused)
	}
	ip(t, "addr add 10.7.7.3/32 dev lo") // nobody follows any more
	pass(t, c1, s1)
	require.NoError(t, l.Close())
}

// An interface that is switched off has no IPv6 addresses until it is on again. Connections do not
// end for that.
func TestInterfaceSwitchedOff(t *testing.T) {
	if !alone(t) {
		return
	}
	l, err := roce.Listen(t.Context(), ":0")
	require.NoError(t, err)
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, l.Addr().Port()) }
	v0 := linkLocal(t, "v0")
	c := dialWhenThere(t, at(v0))
	s, err := l.Accept(t.Context())
	require.NoError(t, err)
	ip(t, "link set v0 down", "addr add 10.7.7.2/32 dev lo")
	dialWhenThere(t, at(netip.MustParseAddr("10.7.7.2"))) // so the listener has seen both
	ip(t, "link set v0 up")
	pass(t, c, s)
}

// An address that goes and is there again before anybody looks makes no difference, nor does one
// that another listener has seen go.
func TestTwoListenersFollow(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	l, err := roce.Listen(ctx, ":0")
	require.NoError(t, err)
	r, err := rsocket.Listen(ctx, "tcp", ":0")
	require.NoError(t, err)
	two := netip.MustParseAddr("10.7.7.2")
	for range 20 {
		ip(t, "addr add 10.7.7.2/32 dev lo")
		c := dialWhenThere(t, netip.AddrPortFrom(two, l.Addr().Port()))
		s, err := l.Accept(ctx)
		require.NoError(t, err)
		ip(t, "addr del 10.7.7.2/32 dev lo")
		_, err = s.Recv(ctx, make([]byte, 32))
		require.ErrorIs(t, err, roce.ErrAddrNotLocal)
		_ = c.Close()
	}
	ip(t, "addr add 10.7.7.2/32 dev lo")
	dialWhenThere(t, netip.AddrPortFrom(two, l.Addr().Port()))
	var c *rsocket.Conn
	for c == nil {
		c, err = (&rsocket.Dialer{}).DialAddr(ctx, netip.AddrPortFrom(two, r.Addr().(rsocket.Addr).Port()))
		if err != nil {
			require.True(t, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EADDRNOTAVAIL), "%v", err)
		}
	}
	s, err := r.AcceptConn()
	require.NoError(t, err)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(s, make([]byte, 1))
	require.NoError(t, err)
	ip(t, "addr del 10.7.7.2/32 dev lo")
	_, err = s.Read(make([]byte, 1))
	require.ErrorContains(t, err, "the address 10.7.7.2 is gone from this host")
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	require.NoError(t, s.Close())
	require.NoError(t, r.Close())
	_, err = r.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// Devices that are polled have no goroutine that would look at several: a listener at all addresses
// is on one of them.
func TestListenEverywherePolling(t *testing.T) {
	if !alone(t) {
		return
	}
	roce.DefaultDeviceConfig.Polling = true // of this process, which runs this test alone
	ctx := t.Context()
	l, err := roce.Listen(ctx, ":0")
	require.NoError(t, err)
	at := func(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), l.Addr().Port()) }
	accepted := make(chan error, 1)
	accept := func() {
		_, err := l.Accept(ctx)
		accepted <- err
	}
	for _, a := range []string{"127.0.0.1", "10.7.7.1"} {
		go accept()
		_, err = (&roce.Dialer{}).DialAddr(ctx, at(a))
		require.NoError(t, err)
		require.NoError(t, <-accepted)
	}
	both, err := roce.DefaultDevice(netip.MustParseAddr("127.0.0.1"))
	require.NoError(t, err)
	other, err := roce.DefaultDevice(netip.MustParseAddr("10.7.7.1"))
	require.NoError(t, err)
	require.Same(t, both, other)
	ip(t, "addr add 10.7.7.2/32 dev lo")
	_, err = (&roce.Dialer{}).DialAddr(ctx, at("10.7.7.2"))
	require.ErrorIs(t, err, roce.ErrConnRefused)
	require.NoError(t, l.Close())
}

// rsocket's "tcp4" and "tcp6" are one family, as with package net.
func TestListenOneFamily(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	for network, addrs := range map[string][2]string{"tcp4": {"127.0.0.1", "::1"}, "tcp6": {"::1", "127.0.0.1"}} {
		l, err := rsocket.Listen(ctx, network, ":0")
		require.NoError(t, err)
		port := l.Addr().(rsocket.Addr).Port()
		c, err := (&rsocket.Dialer{}).DialAddr(ctx, netip.AddrPortFrom(netip.MustParseAddr(addrs[0]), port))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = (&rsocket.Dialer{}).DialAddr(ctx, netip.AddrPortFrom(netip.MustParseAddr(addrs[1]), port))
		require.ErrorIs(t, err, syscall.ECONNREFUSED, network)
		require.NoError(t, l.Close())
	}
}

// MaxConns is of all addresses together.
func TestMaxConnsOfAllAddresses(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	l, err := (&roce.ListenConfig{MaxConns: 1}).Listen(ctx, ":0")
	require.NoError(t, err)
	r, err := (&rsocket.ListenConfig{MaxConns: 1}).Listen(ctx, "tcp", ":0")
	require.NoError(t, err)
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.7.7.1")
	d, err := roce.DefaultDevice(two)
	require.NoError(t, err)
	waits := func() {
		for rdmacm.CountersOf(d).Now.Waiting == 0 {
			runtime.Gosched()
		}
	}

	c := dialWhenThere(t, netip.AddrPortFrom(one, l.Addr().Port()))
	s, err := l.Accept(ctx)
	require.NoError(t, err)
	second := make(chan *roce.Conn, 1)
	go func() { second <- dialWhenThere(t, netip.AddrPortFrom(two, l.Addr().Port())) }()
	waits()
	require.Empty(t, second)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, (<-second).Close())
	s, err = l.Accept(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	rc, err := (&rsocket.Dialer{}).DialAddr(ctx, netip.AddrPortFrom(one, r.Addr().(rsocket.Addr).Port()))
	require.NoError(t, err)
	rs, err := r.AcceptConn()
	require.NoError(t, err)
	dialled := make(chan error, 1)
	go func() {
		c, err := (&rsocket.Dialer{}).DialAddr(ctx, netip.AddrPortFrom(two, r.Addr().(rsocket.Addr).Port()))
		if err == nil {
			defer c.Close()
		}
		dialled <- err
	}()
	waits()
	require.Empty(t, dialled)
	require.NoError(t, rc.Close())
	require.NoError(t, rs.Close())
	require.NoError(t, <-dialled)
}

// A port that is taken at one address cannot be listened at at all of them; at an address that
// comes later that is logged.
func TestPortTakenAtOneAddress(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	taken, err := roce.Listen(ctx, "10.7.7.1:7471")
	require.NoError(t, err)
	_, err = roce.Listen(ctx, ":7471")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = rsocket.Listen(ctx, "tcp", ":7471")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, taken.Close())

	log := &failedLog{Handler: slog.DiscardHandler, failed: make(chan string, 16)}
	l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Logger: slog.New(log)}}).Listen(ctx, ":7471")
	require.NoError(t, err)
	// 127.0.0.2 is there without having been added; another process may have it. So it is taken
	// before it comes.
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}})
	require.NoError(t, err)
	defer d.Close()
	taken, err = (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}).Listen(ctx, "127.0.0.2:7471")
	require.NoError(t, err)
	ip(t, "addr add 127.0.0.2/32 dev lo")
	require.Equal(t, "127.0.0.2", <-log.failed)
	require.NoError(t, taken.Close())
	require.NoError(t, l.Close())
}

// failedLog tells which addresses could not be listened at.
type failedLog struct {
	slog.Handler
	failed chan string
}

func (f *failedLog) Enabled(context.Context, slog.Level) bool { return true }
func (f *failedLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "addr" {
				f.failed <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

// Shutdown of a server, and of the device of one address, end a listener at all addresses in order.
func TestShutdownAtAllAddresses(t *testing.T) {
	if !alone(t) {
		return
	}
	ctx := t.Context()
	for _, end := range []string{"server", "device"} {
		var srv roce.Server
		var handlers sync.WaitGroup
		handlers.Add(2)
		srv.Handler = func(ctx context.Context, c *roce.Conn) error {
			handlers.Done()
			_, err := c.Recv(ctx, make([]byte, 32))
			if err != io.EOF { // see below
				require.ErrorIs(t, err, roce.ErrServerClosed)
			}
			return err
		}
		l, err := roce.Listen(ctx, ":0")
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx, l) }()
		one := dialWhenThere(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), l.Addr().Port()))
		two := dialWhenThere(t, netip.AddrPortFrom(netip.MustParseAddr("10.7.7.1"), l.Addr().Port()))
		handlers.Wait()
		if end == "server" {
			require.NoError(t, srv.Shutdown(ctx))
		} else {
			d, err := roce.DefaultDevice(netip.MustParseAddr("10.7.7.1"))
			require.NoError(t, err)
			require.NoError(t, two.Close()) // that of the client is on this device, too
			require.NoError(t, roce.Shutdown(ctx, d))
		}
		require.ErrorIs(t, <-served, roce.ErrServerClosed)
		_ = one.Close()
		_ = two.Close()
	}
}
