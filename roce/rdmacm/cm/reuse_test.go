package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// dropped is the answer of a peer that does not know what a DREQ is about.
func (r *rig) dropped() *mad.DREP { return &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()} }

// TestRestartedPeer: a peer that restarted, and uses the numbers of a connection that
// we think is up, is refused and asked once; it does not know the old connection, which ends,
// and then it gets in.
func TestRestartedPeer(t *testing.T) {
	r := newRig(t)
	_, err := r.n.Listen(service, r.n.addr, 0)
	require.NoError(t, err)
	require.Equal(t, "[request]", r.in(mad.AttrREQ, r.req()))
	require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
	require.Equal(t, "REP", r.out())
	require.Equal(t, "[established]", r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()}))
	r.tid++
	require.Equal(t, "DREQ REJ(0 stale connection)", r.in(mad.AttrREQ, r.req()))
	require.Empty(t, r.in(mad.AttrDREP, r.dropped()), "an answer to nothing that was asked")
	r.tid = r.c.askedTID
	require.Equal(t, "[disconnected]", r.in(mad.AttrDREP, r.dropped()))
	require.EqualValues(t, 1, r.n.Stats().Stale)
	r.now += 10e9
	r.n.HandleTimeout(r.now)
	require.Equal(t, "[timewait exit]", r.out())
	require.Equal(t, "[request]", r.in(mad.AttrREQ, r.req()))
}

// TestPeerReusesQPN: the queue pair of a connection that is over may be the peer's
// choice for the next one at once, from either side.
func TestPeerReusesQPN(t *testing.T) {
	r := newRig(t)
	_, err := r.n.Listen(service, r.n.addr, 0)
	require.NoError(t, err)
	r.reach(Timewait)
	old := r.c
	r.c, r.id = nil, r.id+1
	require.Equal(t, "[request]", r.in(mad.AttrREQ, r.req()))
	require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
	require.Equal(t, "REP", r.out())
	require.Equal(t, "[established]", r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()}))
	r.n.HandleTimeout(old.deadline)
	require.Equal(t, "[timewait exit]", r.out())
	r.id++
	require.Equal(t, "DREQ REJ(0 stale connection)", r.in(mad.AttrREQ, r.req()), "the number is in use now")

	r = newRig(t)
	r.reach(Timewait)
	r.id++
	r.c = r.n.connect(&node{addr: r.pu.addr}, "")
	require.Equal(t, "REQ", r.out())
	require.Equal(t, "[reply]", r.in(mad.AttrREP, r.rep()))
}

// TestLookupNumberReused: a lookup with the number of an earlier one that was
// answered is another one, unless it is the same in all.
func TestLookupNumberReused(t *testing.T) {
	for name, change := range map[string]func(r *rig, m *mad.SIDRReq){
		"transaction": func(r *rig, _ *mad.SIDRReq) { r.tid++ },
		"service":     func(_ *rig, m *mad.SIDRReq) { m.ServiceID++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.reach(SIDRRepSent)
			_, err := r.n.Listen(sidrService+1, netip.Addr{}, 0)
			require.NoError(t, err)
			require.Equal(t, "SIDR_REP(valid)", r.in(mad.AttrSIDRReq, r.sidrReq()))
			m := r.sidrReq()
			change(r, m)
			require.Equal(t, "[request]", r.in(mad.AttrSIDRReq, m))
			require.Empty(t, r.in(mad.AttrSIDRReq, m), "a duplicate of this one")
			require.Equal(t, 1, r.n.Counts().Conns)
		})
	}
}

// TestTransactionIDs: answers repeat the TID of the REQ; a DREQ has its own,
// which the DREP repeats.
func TestTransactionIDs(t *testing.T) {
	w := newWorld(t, 1)
	tids := map[mad.Attribute]mad.TID{}
	w.fault = func(p *Packet, at mad.Attribute, _ int) []int64 {
		var h mad.Header
		_, _ = mad.Parse(p.Data[:], &h)
		tids[at] = h.TID
		return []int64{0}
	}
	scenarios[0].start(w, w.node(1, Limits{}), w.node(2, Limits{}))
	w.run()
	require.Equal(t, tids[mad.AttrREQ], tids[mad.AttrREP])
	require.Equal(t, tids[mad.AttrREQ], tids[mad.AttrRTU])
	require.Equal(t, tids[mad.AttrDREQ], tids[mad.AttrDREP])
	require.NotEqual(t, tids[mad.AttrREQ], tids[mad.AttrDREQ])
}

// TestDuplicateREQAfterDREQ: the duplicate of a REQ that comes when the connection is over, and the
// peer has never answered the DREQ, is refused; it is no reason to send the DREQ again.
func TestDuplicateREQAfterDREQ(t *testing.T) {
	r := newRig(t)
	r.reach(RepSent)
	tid := r.tid
	r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()})
	require.Equal(t, Established, r.c.State())
	require.NoError(t, r.c.Disconnect(r.now, nil))
	for r.c.State() == DReqSent {
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		r.now = at
		r.n.HandleTimeout(at)
	}
	r.out()
	require.Equal(t, Timewait, r.c.State())
	r.tid = tid
	out := r.in(mad.AttrREQ, r.req())
	require.Contains(t, out, "REJ")
	require.NotContains(t, out, "DREQ")
}
