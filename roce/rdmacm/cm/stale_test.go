package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestForgedStaleREQ: a REQ with the address, GUID and queue pair of a connected peer ends nothing
// if the peer knows better, from whichever side the connection was made; and it does not make the
// agent ask the peer at any rate.
func TestForgedStaleREQ(t *testing.T) {
	for _, of := range []string{"client", "server"} {
		w := newWorld(t, 1)
		c, s := w.node(1, Limits{}), w.node(2, Limits{})
		s.serve(0)
		_, err := c.Listen(service, netip.Addr{}, 0)
		require.NoError(t, err)
		c.client()
		x := c.connect(s, "")
		w.runFor(1e9)
		y := s.byRemote[remoteKey{c.addr, c.guid, x.localID}]
		require.Equal(t, Established, y.State())
		victim, vconn, peer := c, x, s
		if of == "server" {
			victim, vconn, peer = s, y, c
		}
		asked := w.sent[mad.AttrDREQ]
		const forged = 1000
		for i := range forged {
			m := mad.REQ{
				LocalCommID: mad.CommID(0x1000 + i), ServiceID: service, CAGUID: peer.guid,
				QPN: vconn.remoteQPN, PKey: 0xFFFF, Private: make([]byte, mad.REQPrivateBytes),
			}
			var b [mad.Bytes]byte
			require.NoError(t, encode(&b, mad.AttrREQ, 99, &m))
			victim.HandleMAD(w.now, peer.addr, victim.addr, b[:])
			w.runFor(1e6)
		}
		require.Equal(t, Established, x.State(), of)
		require.Equal(t, Established, y.State(), of)
		require.EqualValues(t, forged, victim.Stats().StaleClaims)
		require.LessOrEqual(t, w.sent[mad.AttrDREQ]-asked, 3, "in a second")
		require.Zero(t, w.sent[mad.AttrDREP])
		require.NoError(t, x.Disconnect(w.now, nil))
		w.run()
		w.checkEmpty()
	}
}

// TestForgottenConnection: a node that lost all it knew, and comes back with the numbers of an
// earlier connection, is refused once; the old connection ends, from whichever side it was made,
// and the next try gets in.
func TestForgottenConnection(t *testing.T) {
	for _, of := range []string{"client", "server"} {
		w := newWorld(t, 1)
		c, s := w.node(1, Limits{}), w.node(2, Limits{})
		s.serve(0)
		c.client()
		x := c.connect(s, "")
		w.runFor(1e9)
		y := s.byRemote[remoteKey{c.addr, c.guid, x.localID}]
		lost, left, old := c, s, y
		var ended *Event
		if of == "server" {
			lost, left, old = s, c, x
			_, err := left.Listen(service, netip.Addr{}, 0)
			require.NoError(t, err)
			server := left.app
			left.app = func(e *Event) {
				server(e)
				if e.Type == EventRequest {
					require.NoError(t, e.Conn.Accept(w.now, left.accept("")))
				}
			}
		}
		app := left.app
		left.app = func(e *Event) {
			if e.Conn == old && e.Type == EventDisconnected {
				ended = e
			}
			if app != nil {
				app(e)
			}
		}
		again, err := New(Config{GUID: lost.guid, Addrs: []netip.Addr{lost.addr}, Rand: source{w.rng}})
		require.NoError(t, err)
		lost.Agent = again
		lost.client()
		try := func() *Conn {
			r := lost.request(left, "")
			r.QPN = old.remoteQPN
			n, err := lost.Connect(w.now, r, nil)
			require.NoError(t, err)
			w.runFor(1e9)
			return n
		}
		require.Equal(t, Idle, try().State(), "refused")
		require.Contains(t, []State{Timewait, Idle}, old.State(), of)
		require.EqualValues(t, 1, left.Stats().Stale)
		require.NotNil(t, ended)
		require.True(t, ended.Gone, "nobody has said that it is the end")
		require.Equal(t, Established, try().State(), of)
	}
}

// TestREJWithoutOurID: who gave up before it knew our communication ID cannot have
// confirmed the connection, so that such a REJ about one that is up is not its peer's.
func TestREJWithoutOurID(t *testing.T) {
	r := newRig(t)
	r.reach(RepSent)
	r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()})
	m := mad.REJ{LocalCommID: r.id, Rejected: mad.SubjectOther, Reason: mad.RejectTimeout,
		Info: []byte{7: byte(r.pu.guid)}, InfoLen: 8}
	require.Empty(t, r.in(mad.AttrREJ, &m))
	require.Equal(t, Established, r.c.State())
}
