package cm

import (
	"net/netip"
	"sort"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestRejectReasons: every REQ that cannot be accepted is refused for the right reason.
func TestRejectReasons(t *testing.T) {
	cases := map[string]struct {
		change func(r *rig, m *mad.REQ)
		want   string
	}{
		"good":        {func(*rig, *mad.REQ) {}, "[request]"},
		"no listener": {func(_ *rig, m *mad.REQ) { m.ServiceID++ }, "REJ(0 invalid service ID)"},
		"transport": {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportRD },
			"REJ(0 invalid transport service type)"},
		"extended transport": {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportExtended },
			"REJ(0 invalid transport service type)"},
		"UC":                {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportUC }, "[request]"},
		"no ID":             {func(_ *rig, m *mad.REQ) { m.LocalCommID = 0 }, "REJ(0 invalid communication ID)"},
		"QPN 1":             {func(_ *rig, m *mad.REQ) { m.QPN = 1 }, "REJ(0 unsupported request)"},
		"multicast QPN":     {func(_ *rig, m *mad.REQ) { m.QPN = ib.QPNMulticast }, "REJ(0 unsupported request)"},
		"partition":         {func(_ *rig, m *mad.REQ) { m.PKey = 0x8001 }, "REJ(0 unsupported request)"},
		"limited partition": {func(_ *rig, m *mad.REQ) { m.PKey = 0x7FFF }, "[request]"},
		"MTU 0":             {func(_ *rig, m *mad.REQ) { m.MTU = 0 }, "REJ(0 path MTU refused)"},
		"MTU 6":             {func(_ *rig, m *mad.REQ) { m.MTU = 6 }, "REJ(0 path MTU refused)"},
		"our GID": {func(_ *rig, m *mad.REQ) { m.Primary.RemoteGID[15]++ },
			"REJ(0 primary port GID refused)"},
		"a victim's GID": {func(_ *rig, m *mad.REQ) { m.Primary.LocalGID[15]++ },
			"REJ(0 primary port GID refused)"},
		"no GID": {func(_ *rig, m *mad.REQ) { m.Primary.LocalGID = ib.GID{} },
			"REJ(0 primary port GID refused)"},
		"alternate path": {func(_ *rig, m *mad.REQ) { m.Alternate = m.Primary },
			"REJ(0 alternate port GID refused)"},
		"depth":              {func(_ *rig, m *mad.REQ) { m.InitiatorDepth = 255 }, "[request]"}, // the REP says less
		"header version":     {func(_ *rig, m *mad.REQ) { m.Private[0] = 1 }, "REJ(0 rejected by the application)"},
		"header family":      {func(_ *rig, m *mad.REQ) { m.Private[1] = 0x50 }, "REJ(0 rejected by the application)"},
		"header for another": {func(_ *rig, m *mad.REQ) { m.Private[35]++ }, "REJ(0 invalid service ID)"},
	}
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, err := r.n.Listen(service, r.n.addr, 0)
			require.NoError(t, err)
			m := r.req()
			cases[name].change(r, m)
			require.Equal(t, cases[name].want, r.in(mad.AttrREQ, m))
			if name != "good" && cases[name].want[0] == 'R' {
				c := r.n.Counts()
				c.Listeners = 0
				require.Equal(t, Counts{}, c, "a refused REQ leaves nothing")
			}
		})
	}
}

// TestPrivateDataTooLong: nothing is sent, and nothing is left.
func TestPrivateDataTooLong(t *testing.T) {
	w := newWorld(t, 1)
	n, s := w.node(1, Limits{}), w.node(2, Limits{})
	r := n.request(s, "")
	r.Private = make([]byte, mad.REQPrivateBytes+1)
	_, err := n.Connect(0, r, nil)
	var fe *mad.FieldError
	require.ErrorAs(t, err, &fe)
	require.Equal(t, Counts{}, n.Counts())
}

// TestRefusedREPs: a REP that cannot be used ends the connection, and the peer is told why.
func TestRefusedREPs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *mad.REP)
		want   string
	}{
		"good": {func(*mad.REP) {}, "[reply]"},
		"no ID": {func(m *mad.REP) { m.LocalCommID = 0 },
			"[rejected: invalid communication ID] REJ(1 invalid communication ID)"},
		"QPN 1": {func(m *mad.REP) { m.QPN = 1 }, "[rejected: unsupported request] REJ(1 unsupported request)"},
		"multicast QPN": {func(m *mad.REP) { m.QPN = ib.QPNMulticast },
			"[rejected: unsupported request] REJ(1 unsupported request)"},
		"depth": {func(m *mad.REP) { m.InitiatorDepth = maxRdAtomic + 1 },
			"[rejected: insufficient responder resources] REJ(1 insufficient responder resources)"},
		"QPN in use": {func(m *mad.REP) { m.QPN-- },
			"[disconnected] [rejected: stale connection] DREQ REJ(1 stale connection)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.reach(Established)
			r.c = r.n.connect(&node{addr: r.pu.addr}, "")
			require.Equal(t, "REQ", r.out())
			r.id++
			r.qpn++
			m := r.rep()
			c.change(m)
			require.Equal(t, c.want, r.in(mad.AttrREP, m))
			if name != "good" {
				require.Equal(t, Idle, r.c.State())
			}
		})
	}
}

// TestNotCM: datagrams that are not the business of the CM are counted and not answered.
func TestNotCM(t *testing.T) {
	for name, change := range map[string]func(h *mad.Header){
		"class":           func(h *mad.Header) { h.Class = 4 },
		"class version":   func(h *mad.Header) { h.ClassVersion = 1 },
		"method":          func(h *mad.Header) { h.Method = 1 },
		"attribute below": func(h *mad.Header) { h.Attribute = mad.AttrREQ - 1 },
		"attribute above": func(h *mad.Header) { h.Attribute = mad.AttrAPR + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, err := r.n.Listen(service, netip.Addr{}, 0)
			require.NoError(t, err)
			var b [mad.Bytes]byte
			h := mad.CMHeader(mad.AttrREQ, r.tid)
			change(&h)
			require.NoError(t, r.req().Put(h.Put(&b)))
			r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
			require.Empty(t, r.out())
			require.EqualValues(t, 1, r.n.Stats().DropClass)
		})
	}
}

// TestRefusalThatComesLate: nobody listened for the first REQ, and somebody accepted the second. If
// the REP overtakes the REJ of the first, the REJ ends nothing.
func TestRefusalThatComesLate(t *testing.T) {
	r := newRig(t)
	r.reach(RepRcvd)
	require.Empty(t, r.in(mad.AttrREJ,
		&mad.REJ{RemoteCommID: r.local(), Rejected: mad.SubjectREQ, Reason: mad.RejectInvalidServiceID}))
	require.Equal(t, RepRcvd, r.c.State())
	require.NoError(t, r.c.Ready(r.now, nil))
	require.Equal(t, "RTU", r.out())
}

// TestAnswersOfAnotherLife: a process that died may have asked with the communication ID that this
// one has drawn. What is answered to it is no answer to this one.
func TestAnswersOfAnotherLife(t *testing.T) {
	for _, s := range []State{ReqSent, MRAReqRcvd, SIDRReqSent} {
		r := newRig(t)
		r.reach(s)
		late := func(at mad.Attribute, m putter) string {
			var b [mad.Bytes]byte
			require.NoError(t, encode(&b, at, r.c.tid+1, m))
			r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
			return r.out()
		}
		require.Empty(t, late(mad.AttrREJ, &mad.REJ{RemoteCommID: r.local(), Reason: mad.RejectConsumer}))
		require.Empty(t, late(mad.AttrREJ, &mad.REJ{
			LocalCommID: 5, RemoteCommID: r.local(), Rejected: mad.SubjectOther, Reason: mad.RejectTimeout,
		}))
		require.Empty(t, late(mad.AttrMRA, &mad.MRA{LocalCommID: 5, RemoteCommID: r.local(), ServiceTimeout: 20}))
		require.Empty(t, late(mad.AttrSIDRRep, &mad.SIDRRep{RequestID: uint32(r.local()), QPN: 5}))
		require.Equal(t, "REJ(1 invalid communication ID)", late(mad.AttrREP, r.rep()))
		require.Equal(t, s, r.c.State())
		switch s {
		case SIDRReqSent:
			require.Equal(t, "[resolved]", r.in(mad.AttrSIDRRep, &mad.SIDRRep{RequestID: uint32(r.local()), QPN: 5}))
		default:
			require.Equal(t, "[reply]", r.in(mad.AttrREP, r.rep()))
		}
	}
}
