package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// willsOf takes the changes.
func (r *rig) willsOf() (all []Will) {
	for w, ok := r.n.PollWill(); ok; w, ok = r.n.PollWill() {
		all = append(all, w)
	}
	return all
}

// requireWill checks that a will is the DREQ that the peer believes.
func (r *rig) requireWill(w Will) {
	require.True(r.t, w.Live)
	require.Equal(r.t, r.c.LocalID(), w.ID)
	require.Equal(r.t, r.n.addr, w.Src)
	require.Equal(r.t, r.pu.addr, w.Dst)
	var h mad.Header
	data, err := mad.Parse(w.Data[:], &h)
	require.Equal(r.t, mad.OK, err)
	require.Equal(r.t, mad.AttrDREQ, h.Attribute)
	var m mad.DREQ
	m.Decode(data)
	m.Private = nil
	require.Equal(r.t, mad.DREQ{LocalCommID: r.local(), RemoteCommID: r.id, RemoteQPN: r.qpn}, m)
}

// A connection has a will while its peer may think that it is connected.
func TestWillOfEachState(t *testing.T) {
	for s := range numStates {
		t.Run(s.String(), func(t *testing.T) {
			for _, before := range []bool{true, false} {
				r := newRig(t)
				if before {
					r.n.KeepWills()
				}
				r.reach(s)
				if !before {
					r.n.KeepWills()
				}
				all := r.willsOf()
				live := len(all) > 0 && all[len(all)-1].Live
				want := s == RepRcvd || s == RepSent || s == MRARepRcvd || s == Established || s == DReqSent
				require.Equal(t, want, live, "asked for before: %v", before)
				if len(all) > 0 {
					r.requireWill(all[0])
				}
				if !want {
					require.True(t, len(all) == 0 || len(all) == 2 && all[1].ID == all[0].ID && !all[1].Live, "%v", all)
					continue
				}
				require.Len(t, all, 1)
				r.n.Shutdown()
				all = r.willsOf()
				require.Equal(t, []Will{{ID: r.local()}}, all)
			}
		})
	}
}

// A will is taken back when both ends know, and only then: a DREQ gets lost.
func TestWillUntilPeerKnows(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"peer leaves": func(r *rig) { r.in(mad.AttrDREQ, r.dreq(0)) },
		"destroyed": func(r *rig) {
			r.c.Destroy(r.now)
			require.Empty(r.t, r.willsOf())
			r.in(mad.AttrDREP, &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.n.KeepWills()
			r.reach(Established)
			require.Len(t, r.willsOf(), 1)
			end(r)
			require.Equal(t, []Will{{ID: r.local()}}, r.willsOf())
		})
	}
}

// Who has not asked for them gets none.
func TestNoWills(t *testing.T) {
	r := newRig(t)
	r.reach(Established)
	require.Empty(t, r.willsOf())
}

// Another node at the address tells the peer: the connection is over, and that was no orderly end.
// What a node says itself is one.
func TestTell(t *testing.T) {
	for name, c := range map[string]struct {
		gone  bool
		tell  func(w *world, s *node, will *Will)
		state State
	}{
		"told": {true, func(_ *world, s *node, will *Will) { s.Tell(will) }, Timewait},
		"says so itself": {false, func(w *world, s *node, _ *Will) {
			require.NoError(t, s.Agent.byID[w.order[0].seen[0].Conn.remoteID].Disconnect(w.now, nil))
		}, Timewait},
		"of another connection": {false, func(_ *world, s *node, will *Will) {
			for _, change := range []func(*Will){
				func(w *Will) { w.ID++ }, func(w *Will) { w.RemoteID++ }, func(w *Will) { w.RemoteQPN++ },
				func(w *Will) { w.Src = netip.MustParseAddr("10.9.9.9") },
			} {
				forged := *will
				change(&forged)
				s.Tell(&forged)
			}
		}, Established},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, s, conns := lookers(t, 1)
			s.KeepWills()
			will, ok := s.PollWill()
			require.True(t, ok)
			require.Equal(t, conns[0].localQPN, will.RemoteQPN)
			c.tell(w, s, &will)
			if c.gone {
				require.Equal(t, 1, s.Untold())
				for end := w.now + 1e9; s.Untold() > 0 && w.now < end; {
					w.runFor(1e3)
				}
				require.Zero(t, s.Untold())
				require.Equal(t, Timewait, conns[0].State(), "who has answered has been told")
			}
			w.runFor(1e6)
			require.Equal(t, c.state, conns[0].State())
			for _, e := range w.order[0].seen {
				if e.Type == EventDisconnected {
					require.Equal(t, c.gone, e.Gone)
				}
			}
		})
	}
}

// A second one who keeps them gets what there is.
func TestKeepWillsAgain(t *testing.T) {
	r := newRig(t)
	r.n.KeepWills()
	r.reach(Established)
	first := r.willsOf()
	r.n.KeepWills()
	require.Equal(t, first, r.willsOf())
	require.Len(t, first, 1)
}
