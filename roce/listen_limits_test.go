package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// spoofed is the n-th of many addresses that nobody has.
func spoofed(n uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0B000000+n)
	return netip.AddrFrom4(a)
}

// forgeWithdrawal takes the n-th forged request back, as its sender would.
func forgeWithdrawal(t *testing.T, d *verbs.Device, from netip.Addr, n uint32, to netip.AddrPort) {
	h := mad.CMHeader(mad.AttrREJ, mad.TID(n))
	m := mad.REJ{
		LocalCommID: mad.CommID(n), Rejected: mad.SubjectOther, Reason: mad.RejectTimeout,
		Info: binary.BigEndian.AppendUint64(nil, uint64(n)), InfoLen: 8,
	}
	var b [mad.Bytes]byte
	require.NoError(t, m.Put(h.Put(&b)))
	rocetest.Deliver(t, d, from, to.Addr(), &b)
}

// Requests that are taken back while nobody accepts leave nothing behind: no event, no
// memory, and no connection for a later Accept to make.
func TestWithdrawnRequestsLeaveNothing(t *testing.T) {
	const pairs = 5000
	f := sim.New(sim.Config{Seed: 3})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{})
	for n := range uint32(pairs) {
		rocetest.Forge(t, ds[1], spoofed(n+1), n+1, l.Addr())
		forgeWithdrawal(t, ds[1], spoofed(n+1), n+1, l.Addr())
	}
	require.Nil(t, core.Open(l.ch).PollEvent())
	st := rdmacm.CountersOf(ds[1])
	require.EqualValues(t, pairs, st.Withdrawn)
	require.Zero(t, st.Now.Conns)
	require.Zero(t, st.Now.Timewait)
	require.Zero(t, st.DropBacklog)
	clients(t, rocetest.PeerOn(t, ds[0]), 1, l.Addr())
	var server *Conn
	for server == nil {
		f.RunFor(1e6)
		var err error
		server, err = l.advance()
		require.NoError(t, err)
	}
	require.NoError(t, server.Close())
	st = rdmacm.CountersOf(ds[1])
	_, sent := st.Message(mad.AttrREP)
	require.EqualValues(t, 1, sent, "for the only one that is there")
}

// The same while the application has the requests, and looks at none of the events: what waits
// is bounded by the backlog.
func TestWithdrawnRequestsOfApplication(t *testing.T) {
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 3}), 1)
	s := rocetest.PeerOn(t, ds[0])
	id, err := rdmacm.CreateID(s.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, id.BindAddr(netip.AddrPortFrom(s.D.Addrs()[0], 3)))
	require.NoError(t, id.Listen(rdmacm.ListenLimits{Backlog: 8}))
	for n := range uint32(100) {
		rocetest.Forge(t, ds[0], spoofed(n+1), n+1, id.LocalAddr())
	}
	require.EqualValues(t, 92, rdmacm.CountersOf(s.D).DropBacklog)
	first := s.Ch.Poll()
	require.Equal(t, rdmacm.EventConnectRequest, first.Type)
	for n := range uint32(8) {
		forgeWithdrawal(t, ds[0], spoofed(n+1), n+1, id.LocalAddr())
	}
	e := s.Ch.Poll()
	require.Equal(t, rdmacm.EventRejected, e.Type)
	require.Equal(t, first.ID, e.ID)
	require.Nil(t, s.Ch.Poll(), "nobody had the others")
}

// clients are requests for connections, all sent at once.
func clients(t *testing.T, c *rocetest.Peer, n int, to netip.AddrPort) {
	ctx := rocetest.Context(t)
	for range n {
		require.NoError(t, c.Resolve(t, ctx, rdmacm.PortSpaceTCP, to).Connect(nil))
	}
}

// established counts the clients that think they are connected.
func established(c *rocetest.Peer) (n int) {
	for e := c.Ch.Poll(); e != nil; e = c.Ch.Poll() {
		if e.Type == rdmacm.EventEstablished {
			n++
		}
	}
	return n
}

// A backlog of 4 is 4 connections that wait for Accept, however many ask and
// whether they ask at once or one after another.
func TestListenerBacklog(t *testing.T) {
	for _, atOnce := range []int{1, 12} {
		f := sim.New(sim.Config{Seed: 1})
		ds := rocetest.SimDevices(t, f, 2)
		l := listenOn(t, ds[1], ListenConfig{Backlog: 4})
		c := rocetest.PeerOn(t, ds[0])
		accept := func() *Conn {
			for range 1000 {
				x, err := l.advance()
				require.NoError(t, err)
				if x != nil {
					return x
				}
				f.RunFor(100e6)
			}
			t.Fatal("nobody comes")
			return nil
		}
		up := 0
		for asked := 0; asked < 12; asked += atOnce {
			clients(t, c, atOnce, l.Addr())
			f.RunFor(1e6)
			if asked == 0 {
				accept()
			}
			f.RunFor(1e9)
			up += established(c)
		}
		require.LessOrEqual(t, up, 1+4)
		require.Equal(t, 12-up, rdmacm.CountersOf(ds[1]).Now.Waiting, "the others wait for an answer")
		for range 11 {
			accept()
		}
		f.RunFor(10e9)
		require.Equal(t, 12, up+established(c), "all get in as there is room")
	}
}

// At MaxConns requests wait; a connection that is closed makes room for the next.
func TestListenerMaxConns(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{MaxConns: 2})
	c := rocetest.PeerOn(t, ds[0])
	clients(t, c, 4, l.Addr())
	var conns []*Conn
	look := func() {
		for range 100 {
			f.RunFor(100e6)
			x, err := l.advance()
			require.NoError(t, err)
			if x != nil {
				conns = append(conns, x)
			}
		}
	}
	look()
	require.Len(t, conns, 2)
	require.Equal(t, 2, established(c))
	require.Equal(t, 2, rdmacm.CountersOf(ds[1]).Now.Waiting)
	require.Zero(t, rdmacm.CountersOf(ds[1]).Expired, "who waits goes on asking")
	require.NoError(t, conns[0].Close())
	look()
	require.Len(t, conns, 3)
	require.Equal(t, 1, established(c))
	require.NoError(t, conns[1].Close())
	require.NoError(t, conns[2].Close())
	look()
	require.Len(t, conns, 4)
	require.NoError(t, conns[3].Close())
}

// Peers that ask and never answer do not keep others out of a listener with MaxConns.
func TestMaxConnsFlood(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{MaxConns: 4})
	c := rocetest.PeerOn(t, ds[0])
	clients(t, c, 1, l.Addr())
	var honest *Conn
	for n := uint32(0); honest == nil && n < 2000; n++ {
		rocetest.Forge(t, ds[1], spoofed(n+1), n+1, l.Addr())
		f.RunFor(100e6)
		var err error
		honest, err = l.advance()
		require.NoError(t, err)
		require.LessOrEqual(t, len(l.pending), 4)
	}
	require.NotNil(t, honest)
	require.NoError(t, honest.Close())
}

// Listener.Close refuses what waits, and leaves nothing.
func TestListenerCloseRefuses(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{})
	c := rocetest.PeerOn(t, ds[0])
	clients(t, c, 50, l.Addr())
	f.RunFor(1e6)
	require.Equal(t, 50, rdmacm.CountersOf(ds[1]).Now.Waiting)
	require.NoError(t, l.Close())
	f.RunFor(1e6)
	refused := 0
	for e := c.Ch.Poll(); e != nil; e = c.Ch.Poll() {
		require.Equal(t, rdmacm.EventRejected, e.Type)
		refused++
	}
	require.Equal(t, 50, refused)
	require.Zero(t, rdmacm.CountersOf(ds[1]).Now.Conns)
}

// What cannot be is refused by name.
func TestListenArguments(t *testing.T) {
	d := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 1)[0]
	ch, err := rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	id, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	for arg, f := range map[string]func() error{
		"Backlog":  func() error { return id.Listen(rdmacm.ListenLimits{Backlog: -1}) },
		"MaxConns": func() error { return id.Listen(rdmacm.ListenLimits{MaxConns: -1}) },
		"tries":    func() error { return id.SetRetries(-1, 0) },
		"interval": func() error { return id.SetRetries(0, -1) },
		"bytes":    func() error { return id.SetHalfOpenCost(-1) },
	} {
		var ae *ArgError
		require.ErrorAs(t, f(), &ae)
		require.Equal(t, arg, ae.Arg)
	}
	require.ErrorIs(t, id.SetRetries(rdmacm.MaxTries+1, 0), ErrInvalidAttr)
	require.ErrorIs(t, id.SetRetries(0, rdmacm.MaxRetryInterval+1), ErrInvalidAttr)
	require.NoError(t, id.SetRetries(rdmacm.MaxTries, rdmacm.MaxRetryInterval))
	for arg, lc := range map[string]ListenConfig{"Backlog": {Backlog: -1}, "MaxConns": {MaxConns: -1}} {
		lc.Device = d
		_, err := lc.ListenAddr(netip.AddrPortFrom(d.Addrs()[0], 0))
		var ae *ArgError
		require.ErrorAs(t, err, &ae)
		require.Equal(t, arg, ae.Arg)
	}
	for arg, dialer := range map[string]Dialer{
		"tries": {Tries: -1}, "interval": {RetryInterval: -1},
	} {
		dialer.Device = d
		_, err := dialer.DialAddr(rocetest.Context(t), netip.AddrPortFrom(d.Addrs()[0], 1))
		var ae *ArgError
		require.ErrorAs(t, err, &ae)
		require.Equal(t, arg, ae.Arg)
	}
}

// A REQ that comes to one address and names another in its CMA header, where alone somebody
// listens.
func TestListenerOfOtherAddress(t *testing.T) {
	a, b := netip.MustParseAddr("127.14.9.1"), netip.MustParseAddr("127.14.9.2")
	d := rocetest.OpenDevice(t, verbs.Config{Addrs: []netip.Addr{a, b}})
	l, err := (&ListenConfig{ConnConfig: ConnConfig{Device: d}}).ListenAddr(netip.AddrPortFrom(b, 7000))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	from := netip.MustParseAddr("127.14.9.9")
	rocetest.Forge(t, d, from, 1, netip.AddrPortFrom(a, 7000), func(m *mad.REQ) {
		cma := mad.CMAHeader{SrcPort: 4660, Src: from, Dst: b}
		require.NoError(t, cma.Put(m.Private))
	})
	require.Zero(t, rdmacm.CountersOf(d).Now.Conns)
	rocetest.Forge(t, d, from, 2, netip.AddrPortFrom(b, 7000))
	require.Equal(t, 1, rdmacm.CountersOf(d).Now.Conns)
}

// Backlog is how many connections wait for Accept: their clients are connected, though nobody is in
// Accept. The next one waits until Accept makes room.
func TestBacklogWithoutAccept(t *testing.T) {
	s, c := rocetest.OpenDevice(t, verbs.Config{}), rocetest.OpenDevice(t, verbs.Config{})
	l, err := (&ListenConfig{Backlog: 3, ConnConfig: ConnConfig{Device: s}}).ListenAddr(
		netip.AddrPortFrom(s.Addrs()[0], 0))
	require.NoError(t, err)
	dial := func() error {
		x, err := (&Dialer{ConnConfig: ConnConfig{Device: c}}).DialAddr(t.Context(), l.Addr())
		if err == nil {
			t.Cleanup(func() { require.NoError(t, x.Close()) })
		}
		return err
	}
	for range 3 {
		require.NoError(t, dial())
	}
	fourth := make(chan error)
	go func() { fourth <- dial() }()
	require.Eventually(t, func() bool { return rdmacm.CountersOf(s).Now.Waiting == 1 }, 5*time.Minute, time.Millisecond)
	select {
	case err := <-fourth:
		require.Fail(t, "beyond the backlog", err)
	default:
	}
	for i := range 4 {
		x, err := l.Accept(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, x.Close()) }()
		if i == 0 {
			require.NoError(t, <-fourth)
		}
	}
	// What nobody has accepted is closed with the listener.
	x, err := (&Dialer{ConnConfig: ConnConfig{Device: c}}).DialAddr(t.Context(), l.Addr())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = x.RecvMsg(t.Context())
	require.Error(t, err)
	require.NoError(t, x.Close())
}
