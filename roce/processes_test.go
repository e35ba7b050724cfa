package roce_test

import (
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// progress waits until n more messages have come back from another process.
func (p *process) progress(to *process, n int) {
	p.t.Helper()
	count := func() int {
		k, err := strconv.Atoi(p.say("count", to.port))
		require.NoError(p.t, err)
		return k
	}
	for end := count() + n; count() < end; {
	}
}

// A server and its clients, each a process of its own, have one address. The test is one of
// the clients, with two devices.
func TestProcessesAtOneAddress(t *testing.T) {
	addr := processAddr()
	server := startProcess(t, addr, 0)
	server.say("open")
	server.port = server.say("listen", "0")
	for range 3 {
		c := startProcess(t, addr, 0)
		c.say("open")
		c.say("dial", server.port)
		c.progress(server, 20)
	}
	for range 2 {
		d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
		require.NoError(t, err)
		defer d.Close()
		dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}}
		c, err := dialer.Dial(t.Context(), addr.String()+":"+server.port)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Send(t.Context(), []byte("hello")))
		b := make([]byte, 10)
		n, err := c.Recv(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b[:n]))

		// A port belongs to one process.
		lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}
		_, err = lc.Listen(t.Context(), addr.String()+":"+server.port)
		require.ErrorIs(t, err, roce.ErrAddrInUse)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		// Nobody listens on this one, and any process may say so.
		_, err = dialer.Dial(t.Context(), addr.String()+":1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	other := startProcess(t, addr, 0)
	other.say("open")
	s, err := other.ask("listen", server.port)
	require.NoError(t, err)
	require.Contains(t, s, "listens for the service")
	server.kill()
	require.Equal(t, server.port, other.say("listen", server.port), "the port is free with its process")
	c := startProcess(t, addr, 0)
	c.say("open")
	c.say("dial", server.port)
	c.progress(server, 20)
}

// all runs f for each process at once.
func all(ps []*process, f func(*process)) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { f(p) })
	}
	wg.Wait()
}

// Eight processes listen and dial each other at once. Some are killed with messages under way, the
// first one, which has made the sockets, too: nobody else notices, and others take their place.
func TestProcessesDie(t *testing.T) {
	n, few := 8, 4
	switch {
	case testing.Short():
		n = 3
	case seeds.Race: // each exchanges messages with each other one all the time
		n, few = 4, 3
	}
	t.Run("udp", func(t *testing.T) { processesDie(t, "udp", n) })
	t.Run("packet", func(t *testing.T) {
		seeds.Slow(t)
		l, err := packet.Open(packet.Options{Addrs: []netip.Addr{processAddr()}})
		if err != nil {
			t.Skip(err)
		}
		require.NoError(t, l.Close())
		processesDie(t, "packet", few)
	})
}

func processesDie(t *testing.T, link string, n int) {
	addr := processAddr()
	ps := make([]*process, n)
	for i := range ps {
		ps[i] = startProcess(t, addr, 0)
	}
	ps[0].say("open", link) // the first
	all(ps[1:], func(p *process) { p.say("open", link) })
	all(ps, func(p *process) { p.port = p.say("listen", "0") })
	all(ps, func(p *process) {
		for _, to := range ps {
			if to != p {
				p.say("dial", to.port)
			}
		}
	})
	everyone := func(ps []*process) {
		t.Helper()
		all(ps, func(p *process) {
			for _, to := range ps {
				if to != p {
					p.progress(to, 5)
				}
			}
		})
	}
	everyone(ps)
	for _, k := range []int{0, 2, 0} {
		ps[k].kill()
		ps = append(ps[:k:k], ps[k+1:]...)
		everyone(ps)
		fresh := startProcess(t, addr, 0)
		fresh.say("open", link)
		fresh.port = fresh.say("listen", "0")
		for _, p := range ps {
			p.say("dial", fresh.port)
			fresh.say("dial", p.port)
		}
		ps = append(ps, fresh)
		everyone(ps)
	}
	ps[1].say("close")
	everyone(append(ps[:1:1], ps[2:]...))
}

// Datagrams come to the process of their queue pair, and those to a group to all that are
// in it, the sender's among them.
func TestProcessesDatagrams(t *testing.T) {
	addr := processAddr()
	a4 := addr.As4()
	group := netip.AddrFrom4([4]byte{239, a4[1], a4[2], a4[3]})
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err)
	defer d.Close()
	own, err := newDatagrams(d, ib.GIDFromAddr(group))
	if err != nil {
		t.Skipf("no multicast on the loopback interface: %v", err)
	}
	ps := []*process{startProcess(t, addr, 0), startProcess(t, addr, 0)}
	var qpns []ib.QPN
	for _, p := range ps {
		p.say("open")
		n, err := strconv.ParseUint(p.say("ud", group.String()), 10, 32)
		require.NoError(t, err)
		qpns = append(qpns, ib.QPN(n))
	}
	toAddr, err := own.pd.CreateAHTo(ib.GIDFromAddr(addr))
	require.NoError(t, err)
	toGroup, err := own.pd.CreateAHTo(ib.GIDFromAddr(group))
	require.NoError(t, err)
	for i, p := range ps {
		own.send(t, toAddr, qpns[i], "for-"+strconv.Itoa(i))
		require.Equal(t, "for-"+strconv.Itoa(i), p.say("recv"))
	}
	own.send(t, toAddr, own.qp.Num(), "for-me")
	s, err := own.recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, "for-me", s)
	own.send(t, toGroup, ib.QPNMulticast, "for-all")
	for _, p := range ps {
		require.Equal(t, "for-all", p.say("recv"))
	}
	s, err = own.recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, "for-all", s)
}

// Another user's process is told whose the address is, and what to do.
func TestProcessOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	addr := processAddr()
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err)
	defer d.Close()
	s, err := startProcess(t, addr, 65534).ask("open")
	require.NoError(t, err)
	require.Contains(t, s, "error")
	require.Contains(t, s, "user 0")
	require.Contains(t, s, "as the same user")
}

// Two devices of one process at one address connect to each other.
func TestTwoDevicesAtOneAddress(t *testing.T) {
	addr := processAddr()
	open := func() *verbs.Device {
		d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: open()}}
	l, err := lc.Listen(t.Context(), addr.String()+":0")
	require.NoError(t, err)
	defer l.Close()
	go func() { _ = l.Serve(t.Context(), echo) }()
	dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: open()}}
	c, err := dialer.Dial(t.Context(), l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send(t.Context(), []byte("hello")))
	b := make([]byte, 10)
	n, err := c.Recv(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
	require.Equal(t, addr, c.LocalAddr().Addr())
	require.Equal(t, addr, c.RemoteAddr().Addr())
}
