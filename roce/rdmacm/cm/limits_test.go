package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestLimits: what is bounded stays bounded.
func TestLimits(t *testing.T) {
	w := newWorld(t, 1)
	n := w.node(1, Limits{Conns: 5, Timewait: 3, TxBacklog: 4})
	s := w.node(2, Limits{})
	for range 5 {
		n.connect(s, "")
	}
	_, err := n.Connect(0, n.request(s, ""), nil)
	require.ErrorIs(t, err, ErrLimit)
	_, err = n.Resolve(0, Lookup{Local: n.addr, Remote: s.addr, Service: sidrService}, nil)
	require.ErrorIs(t, err, ErrLimit)
	require.EqualValues(t, 1, n.Stats().DropTx)

	w = newWorld(t, 2)
	c, s := w.node(1, Limits{}), w.node(2, Limits{Timewait: 3})
	s.serve(0)
	c.client(func(x *Conn, e *Event) {
		if e.Type == EventReply {
			w.after(1, func() { x.Destroy(w.now) })
		}
	})
	for range 20 {
		c.connect(s, "")
	}
	w.runFor(1e8)
	require.Equal(t, 3, s.Counts().Timewait)
	w.run()
	w.checkEmpty()
}

// TestListeners: the listener of an address comes before that of all; a service has one of each.
func TestListeners(t *testing.T) {
	w := newWorld(t, 1)
	n := w.node(1, Limits{})
	elsewhere := netip.MustParseAddr("10.9.9.9")
	listenerAt := func(a netip.Addr) *Listener { return n.match(&message{dst: a}, service, &mad.CMAHeader{}) }
	any, err := n.Listen(service, netip.IPv4Unspecified(), 0)
	require.NoError(t, err)
	_, err = n.Listen(service, netip.Addr{}, 0)
	require.ErrorIs(t, err, ErrInUse)
	one, err := n.Listen(service, n.addr, 0)
	require.NoError(t, err)
	require.Equal(t, one, listenerAt(n.addr))
	require.Equal(t, any, listenerAt(elsewhere))
	require.Nil(t, n.match(&message{dst: elsewhere}, service, &mad.CMAHeader{Dst: n.addr}),
		"the header names another address")
	require.Equal(t, one, n.match(&message{dst: n.addr}, service, &mad.CMAHeader{Dst: n.addr}))
	one.Close()
	one.Close()
	require.Equal(t, any, listenerAt(n.addr))
	any.Close()
	require.Nil(t, listenerAt(n.addr))
	require.Equal(t, Counts{}, n.Counts())
}
