package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestDestroyLeavesOthers: the events of a connection that is destroyed are lost, and
// those of others are not.
func TestDestroyLeavesOthers(t *testing.T) {
	w := newWorld(t, 1)
	n := w.node(1, Limits{})
	var conns []*Conn
	for range 3 {
		conns = append(conns, n.connect(&node{addr: netip.MustParseAddr("10.0.0.9")}, ""))
	}
	for at, ok := n.NextTimeout(); ok; at, ok = n.NextTimeout() {
		n.HandleTimeout(at)
	}
	conns[1].Destroy(w.now)
	for _, want := range []*Conn{conns[0], conns[2]} {
		e, ok := n.PollEvent()
		require.True(t, ok)
		require.Equal(t, EventUnreachable, e.Type)
		require.Same(t, want, e.Conn)
	}
	_, ok := n.PollEvent()
	require.False(t, ok)
}

// TestEventsOwnTheirBytes: what an event carries does not change with the buffer that the
// datagram came in.
func TestEventsOwnTheirBytes(t *testing.T) {
	r := newRig(t)
	var events []Event
	deliver := func(at mad.Attribute, m putter) {
		var b [mad.Bytes]byte
		require.NoError(t, encode(&b, at, r.answerTID(), m))
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		clear(b[:])
		for e, ok := r.n.PollEvent(); ok; e, ok = r.n.PollEvent() {
			events = append(events, e)
		}
	}
	for _, s := range []mad.ServiceID{service, sidrService} {
		_, err := r.n.Listen(s, netip.Addr{}, 0)
		require.NoError(t, err)
	}
	deliver(mad.AttrREQ, r.req())
	lookup := r.sidrReq()
	lookup.Private = r.pu.private(r.n, 1, "hello")
	deliver(mad.AttrSIDRReq, lookup)
	require.Len(t, events, 2)
	for _, e := range events {
		require.Equal(t, "hello", string(e.Private[:5]))
	}
	require.Equal(t, "hello", string(events[0].REQ.Private[mad.CMAHeaderBytes:][:5]))

	var err error
	r.c, err = r.n.Resolve(r.now, Lookup{Local: r.n.addr, Remote: r.pu.addr, Service: sidrService}, nil)
	require.NoError(t, err)
	deliver(mad.AttrSIDRRep, &mad.SIDRRep{RequestID: uint32(r.local()), QPN: 5, Private: []byte("hello")})
	require.Len(t, events, 3)
	require.Equal(t, "hello", string(events[2].SIDRRep.Private[:5]))

	r.c, events = r.n.connect(&node{addr: r.pu.addr}, ""), nil
	rep := r.rep()
	rep.LocalCommID, rep.QPN = 0xEEEE, 888 // not that of the REQ above
	rep.Private = []byte("hello")
	deliver(mad.AttrREP, rep)
	require.NoError(t, r.c.Ready(r.now, nil))
	dreq := r.dreq(0)
	dreq.LocalCommID, dreq.Private = 0xEEEE, []byte("hello")
	deliver(mad.AttrDREQ, dreq)
	r.c = r.n.connect(&node{addr: r.pu.addr}, "")
	deliver(mad.AttrREJ, &mad.REJ{
		RemoteCommID: r.local(), Reason: mad.RejectConsumer, Private: []byte("hello"), InfoLen: 3, Info: []byte("why"),
	})
	require.Len(t, events, 3)
	for _, e := range events {
		require.Equal(t, "hello", string(e.Private[:5]), "%v", e.Type)
	}
	require.Equal(t, "hello", string(events[0].REP.Private[:5]))
	require.Equal(t, "why", string(events[2].Info))
}
