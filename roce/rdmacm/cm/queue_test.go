package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// withdraw takes the last request of f back, as its sender does: by the numbers that it chose
// itself.
func (f *flooded) withdraw(from netip.Addr) {
	guid := [8]byte{4: byte(f.n >> 24), byte(f.n >> 16), byte(f.n >> 8), byte(f.n)}
	m := mad.REJ{LocalCommID: mad.CommID(f.n), Rejected: mad.SubjectOther, Reason: mad.RejectTimeout,
		Info: guid[:], InfoLen: 8}
	var b [mad.Bytes]byte
	require.NoError(f.t, encode(&b, mad.AttrREJ, mad.TID(f.n), &m))
	f.a.HandleMAD(f.now, from, f.addr, b[:])
}

// answers takes what the agent has sent, by message.
func (f *flooded) answers() map[mad.Attribute]int {
	n := map[mad.Attribute]int{}
	var p Packet
	for f.a.PollTransmit(&p) {
		n[attribute(&p)]++
	}
	return n
}

// next takes the oldest request.
func (f *flooded) next() *Conn {
	e, ok := f.a.PollEvent()
	require.True(f.t, ok)
	require.Equal(f.t, EventRequest, e.Type)
	return e.Conn
}

// TestWithdrawnRequest: a request that its sender takes back before the owner has it
// leaves nothing: no event, no record, no place that is taken.
func TestWithdrawnRequest(t *testing.T) {
	pairs := flood(20_000)
	f := newFlooded(t)
	_, err := f.a.Listen(service, netip.Addr{}, 4)
	require.NoError(t, err)
	f.request(attacker(0))
	for i := range uint32(pairs) {
		f.request(attacker(i + 1))
		f.withdraw(attacker(i + 1))
	}
	require.EqualValues(t, pairs, f.a.Stats().Withdrawn)
	require.Zero(t, f.a.Stats().DropBacklog)
	c := f.a.Counts()
	require.Equal(t, Counts{Conns: 1, Waiting: 1, Listeners: 1, Tables: 6}, c,
		"of the one that waits, and of nothing else")
	require.Equal(t, attacker(0), f.next().Remote())
	_, ok := f.a.PollEvent()
	require.False(t, ok)
}

// TestWithdrawnRequestOfOwner: the owner that has the request is told.
func TestWithdrawnRequestOfOwner(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, netip.Addr{}, 1)
	require.NoError(t, err)
	f.request(attacker(1))
	c := f.next()
	f.withdraw(attacker(1))
	e, ok := f.a.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventRejected, e.Type)
	require.Equal(t, c, e.Conn)
	require.Equal(t, Timewait, c.State())
	f.request(attacker(2))
	f.next()
}

// TestRequestsComeLast: what became of connections is told before there are new ones.
func TestRequestsComeLast(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	f.request(attacker(1))
	first := f.next()
	n := f.n
	f.request(attacker(2))
	f.request(attacker(3))
	f.n, n = n, f.n
	f.withdraw(attacker(1))
	f.n = n
	for i, want := range []EventType{EventRejected, EventRequest, EventRequest} {
		e, ok := f.a.PollEvent()
		require.True(t, ok)
		require.Equal(t, want, e.Type, i)
		require.Equal(t, i == 0, e.Conn == first)
	}
}

// TestListenerCloseRefuses: the requests that nobody has taken are refused, once each, and
// nothing is left of them; those that the owner has stay its own.
func TestListenerCloseRefuses(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	f.request(attacker(0))
	mine := f.next()
	for i := range uint32(500) {
		f.request(attacker(i + 1))
	}
	f.lookup(attacker(501))
	l.Close()
	l.Close()
	require.Equal(t, map[mad.Attribute]int{mad.AttrREJ: 500, mad.AttrSIDRRep: 1}, f.answers())
	require.Equal(t, ReqRcvd, mine.State())
	require.Equal(t, 1, f.a.Counts().Conns)
	_, ok := f.a.PollEvent()
	require.False(t, ok)
	mine.Destroy(f.now)
	f.a.HandleTimeout(1e12)
	f.answers()
	require.Equal(t, Counts{}, f.a.Counts())
}

// TestRequestExpires: a request that its sender does not repeat leaves the queue; one that comes
// again stays, and so does one that the owner has.
func TestRequestExpires(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	f.request(attacker(1))
	taken := f.next()
	f.request(attacker(2))
	f.lookup(attacker(3))
	n := f.n
	f.request(attacker(4))
	for range 5 {
		f.now += minQueueNs / 2
		f.a.HandleTimeout(f.now)
		f.n = n
		f.request(attacker(4))
	}
	require.EqualValues(t, 2, f.a.Stats().Expired)
	require.Equal(t, 2, f.a.Counts().Waiting)
	require.Equal(t, ReqRcvd, taken.State())
	require.Equal(t, attacker(4), f.next().Remote())
}

// TestRequestExpiresAsItsSenderSaid: a sender that repeats its request less often is
// waited for longer, within bounds.
func TestRequestExpiresAsItsSenderSaid(t *testing.T) {
	for timeout, want := range map[ib.TimeoutCode]int64{0: 30e9, 20: 30e9, 22: 4 * ib.TimeoutCode(22).Ns(), 31: 140e9} {
		r := newRig(t)
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		require.NoError(t, err)
		m := r.req()
		m.RemoteCMTimeout = timeout
		var b [mad.Bytes]byte
		require.NoError(t, encode(&b, mad.AttrREQ, r.tid, m))
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		require.Equal(t, want, at-r.now, "code %d", timeout)
	}
}

// TestMaxConns: at the bound requests wait; when the owner destroys a connection the
// next one comes.
func TestMaxConns(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 3)
	require.NoError(t, err)
	l.SetMaxConns(2)
	for i := range uint32(6) {
		f.request(attacker(i + 1))
	}
	require.EqualValues(t, 3, f.a.Stats().DropBacklog)
	var conns []*Conn
	for range 2 {
		c := f.next()
		require.NoError(t, c.Accept(f.now, Accept{QPN: 77}))
		c.CommEstablished()
		e, ok := f.a.PollEvent()
		require.True(t, ok)
		require.Equal(t, EventEstablished, e.Type)
		conns = append(conns, c)
	}
	_, ok := f.a.PollEvent()
	require.False(t, ok, "two are all")
	f.now += 1e9
	f.request(attacker(7))
	f.request(attacker(8))
	require.Equal(t, 3, f.a.Counts().Waiting)
	require.Equal(t, Established, conns[0].State(), "who is connected is not given up")
	dreq := &mad.DREQ{LocalCommID: conns[0].remoteID, RemoteCommID: conns[0].localID, RemoteQPN: 77}
	var b [mad.Bytes]byte
	require.NoError(t, encode(&b, mad.AttrDREQ, 1, dreq))
	f.a.HandleMAD(f.now, conns[0].remote, f.addr, b[:])
	require.Equal(t, Timewait, conns[0].State())
	e, _ := f.a.PollEvent()
	require.Equal(t, EventDisconnected, e.Type)
	_, ok = f.a.PollEvent()
	require.False(t, ok, "it is there until its owner lets go")
	conns[0].Destroy(f.now)
	conns[0].Destroy(f.now)
	require.Equal(t, attacker(3), f.next().Remote())
	_, ok = f.a.PollEvent()
	require.False(t, ok)
}

// TestMaxConnsOfSilentPeers: peers that do not confirm their connections lose them to others
// that wait, and not before half a second.
func TestMaxConnsOfSilentPeers(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	l.SetMaxConns(1)
	f.request(attacker(1))
	silent := f.next()
	require.NoError(t, silent.Accept(f.now, Accept{QPN: 77}))
	f.request(attacker(2))
	_, ok := f.a.PollEvent()
	require.False(t, ok, "the first one may still answer")
	given := func(c *Conn) {
		e, ok := f.a.PollEvent()
		require.True(t, ok)
		require.Equal(t, EventUnreachable, e.Type)
		require.Equal(t, c, e.Conn)
	}
	f.now = DefaultRetryNs
	f.a.HandleTimeout(f.now)
	given(silent)
	second := f.next()
	require.NoError(t, second.Accept(f.now, Accept{QPN: 78}))
	f.now += DefaultRetryNs
	f.a.HandleTimeout(f.now)
	require.Equal(t, RepSent, second.State(), "nobody waits for its place")
	f.request(attacker(3))
	given(second)
	require.Equal(t, attacker(3), f.next().Remote())
	require.EqualValues(t, 2, f.a.Stats().Evicted)
}

// TestMaxUntaken: no more connections than that are got ready for the application; further
// requests wait, and are not dropped.
func TestMaxUntaken(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	l.SetMaxUntaken(2)
	for i := range uint32(20) {
		f.request(attacker(i))
	}
	accept := func() *Conn {
		c := f.next()
		require.NoError(t, c.Accept(f.now, Accept{QPN: ib.QPN(f.n)}))
		return c
	}
	full := func() {
		t.Helper()
		_, ok := f.a.PollEvent()
		require.False(t, ok)
	}
	a, b := accept(), accept()
	full()
	a.CommEstablished()
	b.CommEstablished()
	f.a.PollEvent()
	f.a.PollEvent()
	full()
	b.Taken()
	b.Taken()
	c := accept()
	full()
	require.NoError(t, a.Disconnect(f.now, nil))
	full()
	a.Destroy(f.now)
	d := accept()
	full()
	// c and d are slow, and no longer count; then c comes after all.
	f.now += lateNs
	f.a.HandleTimeout(f.now)
	e := accept()
	c.CommEstablished()
	f.a.PollEvent()
	full()
	e.Destroy(f.now)
	// One that asks for time does not count either.
	slow := accept()
	full()
	var b8 [mad.Bytes]byte
	require.NoError(t, encode(&b8, mad.AttrMRA, 1, &mad.MRA{
		LocalCommID: slow.remoteID, RemoteCommID: slow.localID, Acknowledged: mad.SubjectREP, ServiceTimeout: 25,
	}))
	f.a.HandleMAD(f.now, slow.remote, f.addr, b8[:])
	require.Equal(t, MRARepRcvd, slow.State())
	accept()
	full()
	d.Destroy(f.now)
	full()
	c.Taken()
	accept()
	full()
	require.Zero(t, f.a.Stats().DropBacklog)
	n := f.answers()[mad.AttrREP]
	for _, f.now = range []int64{DefaultRetryNs, DefaultRetryNs + lateNs} {
		f.a.HandleTimeout(f.now)
	}
	require.Equal(t, 8, n)
	require.Positive(t, f.answers()[mad.AttrREP], "REPs are repeated when they would have been without a bound")
}

// TestFullListenerMakesRoom: a connection whose peer has let a REP go unanswered gives its
// place to the next request at once, not when its REP would be repeated; one whose
// peer has had one REP so far keeps it.
func TestFullListenerMakesRoom(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	l.SetMaxConns(1)
	f.request(attacker(1))
	silent := f.next()
	require.NoError(t, silent.Accept(f.now, Accept{QPN: 7}))
	f.request(attacker(2))
	_, ok := f.a.PollEvent()
	require.False(t, ok, "the first REP may still be answered")
	require.Zero(t, f.a.Stats().Evicted)

	f = newFlooded(t)
	l, err = f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	l.SetMaxConns(1)
	f.request(attacker(1))
	silent = f.next()
	require.NoError(t, silent.Accept(f.now, Accept{QPN: 7}))
	f.now += DefaultRetryNs
	f.a.HandleTimeout(f.now)
	require.Equal(t, RepSent, silent.State(), "nobody else wants its place")
	require.Equal(t, 2, f.answers()[mad.AttrREP])
	f.request(attacker(2))
	e, ok := f.a.PollEvent()
	require.True(t, ok)
	require.Equal(t, silent, e.Conn, "it is told that it is over")
	require.Equal(t, attacker(2), f.next().remote)
	require.EqualValues(t, 1, f.a.Stats().Evicted)
}

// TestBacklogArgument: a negative backlog is an error.
func TestBacklogArgument(t *testing.T) {
	f := newFlooded(t)
	_, err := f.a.Listen(service, netip.Addr{}, -1)
	require.ErrorContains(t, err, "-1")
	require.Zero(t, f.a.Counts().Listeners)
}

// TestDropReasons: each bound on requests has its own counter.
func TestDropReasons(t *testing.T) {
	f := newFlooded(t)
	f.a.cfg.Limits.PerPeer, f.a.cfg.Limits.Conns = 2, 3
	_, err := f.a.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	for _, from := range []uint32{1, 1, 1, 2, 3, 4} {
		f.request(attacker(from))
	}
	st := f.a.Stats()
	require.Equal(t, []uint64{0, 1, 2}, []uint64{st.DropBacklog, st.DropPeer, st.DropConns})

	f = newFlooded(t)
	l, err := f.a.Listen(service, netip.Addr{}, 2)
	require.NoError(t, err)
	for from := range uint32(5) {
		f.request(attacker(from))
	}
	st = f.a.Stats()
	require.Equal(t, []uint64{3, 0, 0}, []uint64{st.DropBacklog, st.DropPeer, st.DropConns})
	require.Equal(t, 2, l.queued)
}
