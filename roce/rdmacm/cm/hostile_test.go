package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// good returns each message that a peer can send about the connection of the rig.
func (r *rig) good() map[mad.Attribute]putter {
	return map[mad.Attribute]putter{
		mad.AttrREQ: r.req(), mad.AttrREP: r.rep(), mad.AttrDREQ: r.dreq(0), mad.AttrSIDRReq: r.sidrReq(),
		mad.AttrRTU: &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()},
		mad.AttrREJ: &mad.REJ{LocalCommID: r.id, RemoteCommID: r.local(), Rejected: mad.SubjectOther,
			Reason: mad.RejectConsumer},
		mad.AttrMRA: &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ,
			ServiceTimeout: 31},
		mad.AttrDREP:    &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()},
		mad.AttrLAP:     &mad.LAP{LocalCommID: r.id, RemoteCommID: r.local()},
		mad.AttrSIDRRep: &mad.SIDRRep{RequestID: uint32(r.local()), QPN: 5},
	}
}

// TestTruncated: no part of a message is one, nor is one with bytes behind it: it is
// counted, and neither answered nor believed, in any state.
func TestTruncated(t *testing.T) {
	for s := Idle; s < numStates; s++ {
		r := newRig(t)
		r.reach(s)
		drops := r.n.Stats().DropMalformed
		for at, m := range r.good() {
			var b [mad.Bytes + 1]byte
			require.NoError(t, encode((*[mad.Bytes]byte)(b[:]), at, r.tid, m))
			for n := range len(b) + 1 {
				if n == mad.Bytes {
					continue
				}
				r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:n])
				drops++
				require.Empty(t, r.out(), "%v: %d bytes of %v", s, n, at)
			}
		}
		require.Equal(t, drops, r.n.Stats().DropMalformed)
		if r.c != nil {
			require.Equal(t, s, r.c.State())
		}
	}
}

// TestDuplicateOfOtherContent: a REQ that has the numbers of an earlier one is that
// one, whatever else it says: the application hears of it once.
func TestDuplicateOfOtherContent(t *testing.T) {
	r := newRig(t)
	r.reach(ReqRcvd)
	m := r.req()
	m.Private = r.pu.private(r.n, 1, "something else")
	m.StartingPSN, m.MTU, m.InitiatorDepth, m.RetryCount = 99, 1, 200, 0
	require.Equal(t, "MRA(0)", r.in(mad.AttrREQ, m))
	require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
	require.Equal(t, "REP", r.out())
	require.Equal(t, "REP", r.in(mad.AttrREQ, m))
	require.Equal(t, 1, r.n.Counts().Conns)
}

// TestRandomFields: REQs whose fields are whatever 232 random bytes say, also behind
// a header that gets them past the first checks, make no connection with impossible
// parameters, and leave nothing but what the application was told of.
func TestRandomFields(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	r := newRig(t)
	_, err := r.n.Listen(service, netip.Addr{}, 0)
	require.NoError(t, err)
	told := 0
	r.n.app = func(e *Event) {
		if e.Type != EventRequest {
			return
		}
		told++
		m := e.REQ
		require.True(t, m.MTU.Valid())
		require.Greater(t, uint32(m.QPN), uint32(1))
		require.NotZero(t, m.LocalCommID)
		require.LessOrEqual(t, e.Conn.timewaitNs, int64(maxTimewaitNs))
		e.Conn.Destroy(r.now)
	}
	for range seeds.Fewer(20_000) {
		var b [mad.Bytes]byte
		r.tid++
		r.id++
		r.qpn++
		m := r.req()
		m.Primary.AckTimeout, m.LocalCMTimeout, m.RemoteCMTimeout = 31, 31, 31
		require.NoError(t, encode(&b, mad.AttrREQ, r.tid, m))
		for range 1 + rng.IntN(3) {
			b[mad.HeaderBytes+rng.IntN(140)] = byte(rng.Uint32()) // the fields, not the private data
		}
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		r.out()
	}
	require.NotZero(t, told)
	for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
		r.n.HandleTimeout(at)
		r.out()
	}
	c := r.n.Counts()
	c.Listeners = 0
	require.Equal(t, Counts{}, c, fmt.Sprint(told))
}
