package cm

import (
	"math"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// Who wants to wait for a listener asks until there is one, or until its time is over; who does not
// is refused at once.
func TestAwaitListener(t *testing.T) {
	const patience = 1e9
	for name, ask := range map[string]struct {
		service mad.ServiceID
		send    func(n, s *node, ns int64) (*Conn, error)
		refused func(e *Event) bool
	}{
		"request": {
			service,
			func(n, s *node, ns int64) (*Conn, error) {
				r := n.request(s, "")
				r.ListenNs = ns
				return n.Connect(n.w.now, r, nil)
			},
			func(e *Event) bool {
				return e.Type == EventRejected && e.Reason == mad.RejectInvalidServiceID
			},
		},
		"lookup": {
			sidrService,
			func(n, s *node, ns int64) (*Conn, error) {
				return n.Resolve(n.w.now, Lookup{Local: n.addr, Remote: s.addr, Service: sidrService,
					Private: n.private(s, 1, ""), ListenNs: ns}, nil)
			},
			func(e *Event) bool {
				return e.Type == EventResolved && e.SIDRRep.Status == mad.SIDRUnsupportedService
			},
		},
	} {
		begin := func(t *testing.T, ns int64) (*world, *node, *node) {
			w := newWorld(t, 1)
			n, s := w.node(1, Limits{}), w.node(2, Limits{})
			_, err := ask.send(n, s, ns)
			require.NoError(t, err)
			return w, n, s
		}
		t.Run(name+", it comes", func(t *testing.T) {
			w, n, s := begin(t, patience)
			w.runFor(patience / 2)
			require.Empty(t, n.seen)
			require.Empty(t, s.seen)
			_, err := s.Listen(ask.service, netip.Addr{}, 0)
			require.NoError(t, err)
			w.runFor(listenAgainNs + 4*w.delay)
			require.Len(t, s.seen, 1)
			require.Empty(t, n.seen)
		})
		t.Run(name+", none comes", func(t *testing.T) {
			w, n, s := begin(t, patience)
			w.runFor(patience)
			require.Empty(t, n.seen)
			w.runFor(listenAgainNs + 4*w.delay)
			require.Len(t, n.seen, 1)
			require.True(t, ask.refused(&n.seen[0]), "%+v", n.seen[0])
			require.Less(t, w.sent[mad.AttrREQ]+w.sent[mad.AttrSIDRReq], int(patience/listenAgainNs)+2)
			w.checkEmpty()
			require.Empty(t, s.seen)
		})
		t.Run(name+", not wanted", func(t *testing.T) {
			w, n, _ := begin(t, 0)
			w.runFor(4 * w.delay)
			require.Len(t, n.seen, 1)
			require.True(t, ask.refused(&n.seen[0]), "%+v", n.seen[0])
		})
		t.Run(name+", given up", func(t *testing.T) {
			w, n, s := begin(t, patience)
			w.runFor(4 * w.delay)
			for _, c := range n.byID {
				c.Destroy(w.now)
			}
			w.run()
			require.Empty(t, n.seen)
			_, err := s.Listen(ask.service, netip.Addr{}, 0)
			require.NoError(t, err)
			w.runFor(patience)
			require.Empty(t, s.seen)
		})
	}
}

// To wait for ever is not to wait not at all.
func TestListenUntil(t *testing.T) {
	require.EqualValues(t, 15, listenUntil(5, 10))
	require.EqualValues(t, 5, listenUntil(5, 0))
	require.Equal(t, int64(math.MaxInt64), listenUntil(5, math.MaxInt64))
}
