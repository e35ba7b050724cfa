package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestStrangerGetsFewAnswers: the host that a forged REQ names as its sender gets no more than
// four REPs and the REJ at the end, whatever the REQ says about timeouts.
func TestStrangerGetsFewAnswers(t *testing.T) {
	for _, timeout := range []ib.TimeoutCode{0, 18, 20, 31} {
		r := newRig(t)
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		require.NoError(t, err)
		m := r.req()
		m.LocalCMTimeout = timeout
		require.Equal(t, "[request]", r.in(mad.AttrREQ, m))
		require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
		sent := map[string]int{}
		for {
			var p Packet
			for r.n.PollTransmit(&p) {
				sent[attribute(&p).String()]++
			}
			at, ok := r.n.NextTimeout()
			if !ok {
				break
			}
			r.n.HandleTimeout(at)
		}
		require.Equal(t, map[string]int{mad.AttrREP.String(): quietTries, mad.AttrREJ.String(): 1}, sent)
	}
}

// TestMRABound: a peer that answers each REP with an MRA gets what one MRA can ask for at most, and
// the usual tries.
func TestMRABound(t *testing.T) {
	r := newRig(t)
	r.reach(RepSent)
	mra := &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP, ServiceTimeout: 31}
	for r.c.State().halfOpen() {
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		r.now = at
		r.n.HandleTimeout(at)
		if r.out() != "" && r.c.State().halfOpen() {
			r.in(mad.AttrMRA, mra)
		}
	}
	tries := int64(DefaultTries * maxPeerAnswerNs)
	require.LessOrEqual(t, r.now, maxServiceTimeout.Ns()+tries)
	require.GreaterOrEqual(t, r.now, maxServiceTimeout.Ns(), "an MRA is heard")
	require.NotZero(t, r.n.Stats().DropMRA)
}

// TestMRABoundOfREQ: a server that answers each REQ with an MRA, because its application never
// takes the request, does not keep a client waiting for ever.
func TestMRABoundOfREQ(t *testing.T) {
	r := newRig(t)
	r.reach(ReqSent)
	mra := &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ, ServiceTimeout: 19}
	told := ""
	for told == "" {
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		r.now = at
		r.n.HandleTimeout(at)
		switch out := r.out(); out {
		case "REQ":
			r.in(mad.AttrMRA, mra)
		default:
			told = out
		}
	}
	require.Contains(t, told, "[unreachable]")
	require.Equal(t, Idle, r.c.State())
	tries := int64(DefaultTries) * reqRemoteTimeout.Ns()
	require.LessOrEqual(t, r.now, maxServiceTimeout.Ns()+tries)
	require.GreaterOrEqual(t, r.now, maxServiceTimeout.Ns(), "MRAs are heard")
	require.NotZero(t, r.n.Stats().DropMRA)
}

// TestHeardPeer: the REP for a peer that has shown that it is there is repeated as
// often as any message.
func TestHeardPeer(t *testing.T) {
	r := newRig(t)
	r.reach(MRARepRcvd)
	n := 0
	for r.c.State().halfOpen() {
		at, _ := r.n.NextTimeout()
		r.now = at
		r.n.HandleTimeout(at)
		if r.out() == "REP" {
			n++
		}
	}
	require.Equal(t, DefaultTries-1, n, "and one before the MRA")
}
