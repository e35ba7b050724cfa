package cm

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

func netipFrom(b [4]byte) netip.Addr { return netip.AddrFrom4(b) }

var update = flag.Bool("update", false, "rewrite golden files")

// rig is a world of one node and a puppet that sends what it is told.
type rig struct {
	*world
	t  *testing.T
	n  *node
	pu *node // address and GUID only
	c  *Conn
	// what the puppet says about itself
	id  mad.CommID
	qpn ib.QPN
	tid mad.TID
}

func newRig(t *testing.T) *rig {
	w := newWorld(t, 11)
	r := &rig{world: w, t: t, n: w.node(1, Limits{}), id: 0xABCD, qpn: 777, tid: 42}
	r.pu = &node{w: w, addr: netip.MustParseAddr("10.0.0.9"), guid: 99}
	r.n.app = func(e *Event) {
		if r.c == nil {
			r.c = e.Conn
		}
	}
	return r
}

// in delivers a message of the puppet and returns what comes back.
func (r *rig) in(at mad.Attribute, m putter) string {
	var b [mad.Bytes]byte
	require.NoError(r.t, encode(&b, at, r.tid, m))
	r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
	return r.out()
}

// out returns what the node has done since the last call: messages and events.
func (r *rig) out() string {
	var s []string
	for e, ok := r.n.PollEvent(); ok; e, ok = r.n.PollEvent() {
		what := fmt.Sprintf("[%v]", e.Type)
		if e.Type == EventRejected {
			what = fmt.Sprintf("[%v: %v]", e.Type, e.Reason)
		}
		s = append(s, what)
		r.n.app(&e)
	}
	var p Packet
	for r.n.PollTransmit(&p) {
		s = append(s, describe(&p))
	}
	return strings.Join(s, " ")
}

func describe(p *Packet) string {
	var h mad.Header
	data, _ := mad.Parse(p.Data[:], &h)
	switch h.Attribute {
	case mad.AttrREJ:
		var m mad.REJ
		m.Decode(data)
		return fmt.Sprintf("REJ(%d %v)", m.Rejected, m.Reason)
	case mad.AttrMRA:
		var m mad.MRA
		m.Decode(data)
		return fmt.Sprintf("MRA(%d)", m.Acknowledged)
	case mad.AttrSIDRRep:
		var m mad.SIDRRep
		m.Decode(data)
		return fmt.Sprintf("SIDR_REP(%v)", m.Status)
	case mad.AttrAPR:
		var m mad.APR
		m.Decode(data)
		return fmt.Sprintf("APR(%d)", m.Status)
	}
	return h.Attribute.String()
}

func (r *rig) req() *mad.REQ {
	return &mad.REQ{
		LocalCommID: r.id, ServiceID: service, CAGUID: r.pu.guid, QPN: r.qpn, MTU: ib.MTU1024, PKey: ib.PKeyDefault,
		Private: r.pu.private(r.n, 1, "hello"), InitiatorDepth: 1, ResponderResources: 1, RemoteCMTimeout: 20,
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(r.pu.addr), RemoteGID: ib.GIDFromAddr(r.n.addr), AckTimeout: 14},
	}
}

func (r *rig) rep() *mad.REP {
	return &mad.REP{LocalCommID: r.id, RemoteCommID: r.local(), QPN: r.qpn, CAGUID: r.pu.guid, ResponderResources: 1}
}

// local is the ID of the node's connection, or one that nobody has.
func (r *rig) local() mad.CommID {
	if r.c == nil {
		return 0x12121212
	}
	return r.c.LocalID()
}

// reach brings the node's connection to a state.
func (r *rig) reach(s State) {
	must := func(err error) { require.NoError(r.t, err) }
	listen := func() {
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		must(err)
		r.in(mad.AttrREQ, r.req())
	}
	switch s {
	case Idle:
	case ReqSent, MRAReqRcvd, RepRcvd:
		r.c = r.n.connect(&node{addr: r.pu.addr}, "")
		r.tid = r.c.tid
		r.out()
		switch s {
		case MRAReqRcvd:
			r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ, ServiceTimeout: 20})
		case RepRcvd:
			r.in(mad.AttrREP, r.rep())
		}
	case ReqRcvd:
		listen()
	case RepSent, MRARepRcvd:
		listen()
		must(r.c.Accept(r.now, Accept{QPN: 555}))
		r.out()
		if s == MRARepRcvd {
			r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP, ServiceTimeout: 20})
		}
	case Established, DReqSent, Timewait:
		r.reach(RepRcvd)
		must(r.c.Ready(r.now, nil))
		if s != Established {
			must(r.c.Disconnect(r.now, nil))
		}
		if s == Timewait {
			r.in(mad.AttrDREP, &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()})
		}
		r.out()
	case SIDRReqSent:
		var err error
		r.c, err = r.n.Resolve(r.now, Lookup{Local: r.n.addr, Remote: r.pu.addr, Service: sidrService}, nil)
		must(err)
		r.out()
	case SIDRReqRcvd, SIDRRepSent:
		_, err := r.n.Listen(sidrService, netip.Addr{}, 0)
		must(err)
		r.in(mad.AttrSIDRReq, r.sidrReq())
		if s == SIDRRepSent {
			must(r.c.AnswerLookup(r.now, LookupAnswer{QPN: 5}))
			r.out()
		}
	}
	if s != Idle {
		require.Equal(r.t, s, r.c.State())
	}
}

func (r *rig) sidrReq() *mad.SIDRReq {
	return &mad.SIDRReq{RequestID: 31337, PKey: ib.PKeyDefault, ServiceID: sidrService, Private: r.pu.private(r.n, 1, "")}
}

// inputs are all messages that a peer can send about a connection.
var inputs = []struct {
	name string
	in   func(r *rig) string
}{
	{"REQ", func(r *rig) string { return r.in(mad.AttrREQ, r.req()) }},
	{"REQ, other TID", func(r *rig) string { r.tid++; return r.in(mad.AttrREQ, r.req()) }},
	{"REQ, same QPN", func(r *rig) string { r.id++; return r.in(mad.AttrREQ, r.req()) }},
	{"REP", func(r *rig) string { return r.in(mad.AttrREP, r.rep()) }},
	{"REP, other ID", func(r *rig) string { r.id++; return r.in(mad.AttrREP, r.rep()) }},
	{"RTU", func(r *rig) string { return r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()}) }},
	{"RTU, other ID", func(r *rig) string {
		return r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id + 1, RemoteCommID: r.local()})
	}},
	{"REJ of REQ", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{RemoteCommID: r.local(), Reason: mad.RejectConsumer})
	}},
	{"REJ of REP", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{LocalCommID: r.id, RemoteCommID: r.local(), Rejected: mad.SubjectREP, Reason: mad.RejectConsumer})
	}},
	{"REJ, timeout", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{
			LocalCommID: r.id, Rejected: mad.SubjectOther, Reason: mad.RejectTimeout, InfoLen: 8, Info: []byte{0, 0, 0, 0, 0, 0, 0, 99},
		})
	}},
	{"REJ of REP, other", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{LocalCommID: r.id + 1, RemoteCommID: r.local(), Rejected: mad.SubjectREP, Reason: mad.RejectConsumer})
	}},
	{"MRA of REQ", func(r *rig) string {
		return r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ, ServiceTimeout: 20})
	}},
	{"MRA of REP", func(r *rig) string {
		return r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP, ServiceTimeout: 20})
	}},
	{"DREQ", func(r *rig) string { return r.in(mad.AttrDREQ, r.dreq(0)) }},
	{"DREQ, other QPN", func(r *rig) string { return r.in(mad.AttrDREQ, r.dreq(1)) }},
	{"DREP", func(r *rig) string {
		return r.in(mad.AttrDREP, &mad.DREP{LocalCommID: r.id, RemoteCommID: r.local()})
	}},
	{"LAP", func(r *rig) string { return r.in(mad.AttrLAP, &mad.LAP{LocalCommID: r.id, RemoteCommID: r.local()}) }},
	{"APR", func(r *rig) string { return r.in(mad.AttrAPR, &mad.APR{LocalCommID: r.id, RemoteCommID: r.local()}) }},
	{"SIDR_REQ", func(r *rig) string { return r.in(mad.AttrSIDRReq, r.sidrReq()) }},
	{"SIDR_REP", func(r *rig) string {
		return r.in(mad.AttrSIDRRep, &mad.SIDRRep{RequestID: uint32(r.local()), QPN: 5})
	}},
	{"call Accept", func(r *rig) string {
		return r.call(func(c *Conn) error { return c.Accept(r.now, Accept{QPN: 555}) })
	}},
	{"call Reject", func(r *rig) string {
		return r.call(func(c *Conn) error { return c.Reject(r.now, mad.RejectConsumer, nil, nil) })
	}},
	{"call Ready", func(r *rig) string { return r.call(func(c *Conn) error { return c.Ready(r.now, nil) }) }},
	{"call Disconnect", func(r *rig) string { return r.call(func(c *Conn) error { return c.Disconnect(r.now, nil) }) }},
	{"call AnswerLookup", func(r *rig) string {
		return r.call(func(c *Conn) error { return c.AnswerLookup(r.now, LookupAnswer{QPN: 5}) })
	}},
	{"call Destroy", func(r *rig) string {
		return r.call(func(c *Conn) error { c.Destroy(r.now); return nil })
	}},
	{"COMM_EST", func(r *rig) string {
		if r.c != nil {
			r.c.CommEstablished()
		}
		return r.out()
	}},
	{"timer", func(r *rig) string {
		if at, ok := r.n.NextTimeout(); ok {
			r.now = at
			r.n.HandleTimeout(r.now)
		}
		return r.out()
	}},
	{"timer, last", func(r *rig) string {
		s := ""
		for range 20 {
			if at, ok := r.n.NextTimeout(); ok && r.c.state != Timewait {
				r.now = at
				r.n.HandleTimeout(r.now)
				s = r.out()
			}
		}
		return s
	}},
}

// call lets the application call something, and returns the error if that is its state's,
// and what comes of it.
func (r *rig) call(f func(*Conn) error) string {
	if r.c == nil {
		return ""
	}
	err := f(r.c)
	if err == nil {
		return r.out()
	}
	require.ErrorIs(r.t, err, ErrState)
	require.Empty(r.t, r.out())
	return err.Error()
}

// due is when something happens by itself.
type due struct {
	now, at int64
	ever    bool
}

func (r *rig) due() due {
	at, ever := r.n.NextTimeout()
	return due{r.now, at, ever}
}

// change says what has become of it, if it is not the same.
func (d due) change(to due) string {
	switch {
	case d.at == to.at && d.ever == to.ever:
		return ""
	case !to.ever:
		return "nothing due"
	}
	return fmt.Sprintf("due in %d ms", (to.at-to.now)/1e6)
}

// counted names the counters that moved, but for those of messages.
func counted(before, after Stats) string {
	var s []string
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range a.NumField() {
		if f := a.Type().Field(i); f.Type.Kind() == reflect.Uint64 && a.Field(i).Uint() != b.Field(i).Uint() {
			s = append(s, f.Name)
		}
	}
	if s == nil {
		return ""
	}
	return "{" + strings.Join(s, " ") + "}"
}

func (r *rig) dreq(off ib.QPN) *mad.DREQ {
	qpn := ib.QPN(1)
	if r.c != nil {
		qpn = r.c.localQPN + off
	}
	return &mad.DREQ{LocalCommID: r.id, RemoteCommID: r.local(), RemoteQPN: qpn}
}

// TestMatrix sends every message to every state, and lets the application call everything.
// The outcome, written down in testdata/matrix.txt, is to be read: state and message,
// then what is sent, [what the application is told], {counters that moved}, the time
// until something is due by itself if that has changed, and the state afterwards if it is
// another.
func TestMatrix(t *testing.T) {
	var lines []string
	for s := State(0); s < numStates; s++ {
		for _, in := range inputs {
			r := newRig(t)
			r.reach(s)
			before, due := r.n.Stats(), r.due()
			out := in.in(r)
			for _, more := range []string{counted(before, r.n.Stats()), due.change(r.due())} {
				out = strings.TrimSpace(out + " " + more)
			}
			if r.c != nil && r.c.State() != s && s != Idle {
				out += " -> " + r.c.State().String()
			}
			if out == "" {
				out = "-"
			}
			lines = append(lines, fmt.Sprintf("%-14v %-17s %s", s, in.name, strings.TrimSpace(out)))
		}
		lines = append(lines, "")
	}
	got := strings.Join(lines, "\n")
	const file = "testdata/matrix.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run with -update, and read the difference")
}

// TestRejectReasons: every REQ that cannot be accepted is refused for the right reason.
func TestRejectReasons(t *testing.T) {
	cases := map[string]struct {
		change func(r *rig, m *mad.REQ)
		want   string
	}{
		"good":               {func(*rig, *mad.REQ) {}, "[request]"},
		"no listener":        {func(_ *rig, m *mad.REQ) { m.ServiceID++ }, "REJ(0 invalid service ID)"},
		"transport":          {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportRD }, "REJ(0 invalid transport service type)"},
		"extended transport": {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportExtended }, "REJ(0 invalid transport service type)"},
		"UC":                 {func(_ *rig, m *mad.REQ) { m.Transport = mad.TransportUC }, "[request]"},
		"no ID":              {func(_ *rig, m *mad.REQ) { m.LocalCommID = 0 }, "REJ(0 invalid communication ID)"},
		"QPN 1":              {func(_ *rig, m *mad.REQ) { m.QPN = 1 }, "REJ(0 unsupported request)"},
		"multicast QPN":      {func(_ *rig, m *mad.REQ) { m.QPN = ib.QPNMulticast }, "REJ(0 unsupported request)"},
		"partition":          {func(_ *rig, m *mad.REQ) { m.PKey = 0x8001 }, "REJ(0 unsupported request)"},
		"limited partition":  {func(_ *rig, m *mad.REQ) { m.PKey = 0x7FFF }, "[request]"},
		"MTU 0":              {func(_ *rig, m *mad.REQ) { m.MTU = 0 }, "REJ(0 path MTU refused)"},
		"MTU 6":              {func(_ *rig, m *mad.REQ) { m.MTU = 6 }, "REJ(0 path MTU refused)"},
		"our GID":            {func(_ *rig, m *mad.REQ) { m.Primary.RemoteGID[15]++ }, "REJ(0 primary port GID refused)"},
		"a victim's GID":     {func(_ *rig, m *mad.REQ) { m.Primary.LocalGID[15]++ }, "REJ(0 primary port GID refused)"},
		"no GID":             {func(_ *rig, m *mad.REQ) { m.Primary.LocalGID = ib.GID{} }, "REJ(0 primary port GID refused)"},
		"alternate path":     {func(_ *rig, m *mad.REQ) { m.Alternate = m.Primary }, "REJ(0 alternate port GID refused)"},
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

// TestWrongAddress: messages about a connection from another address than its
// peer's change nothing.
func TestWrongAddress(t *testing.T) {
	for s := ReqSent; s < numStates; s++ {
		for _, in := range inputs {
			if strings.HasPrefix(in.name, "REQ") || in.name == "SIDR_REQ" || in.name == "COMM_EST" || strings.HasPrefix(in.name, "timer") || strings.HasPrefix(in.name, "call") {
				continue
			}
			r := newRig(t)
			r.reach(s)
			r.pu.addr = netip.MustParseAddr("10.0.0.66")
			out := in.in(r)
			require.Equal(t, s, r.c.State(), "%v: %s", s, in.name)
			require.NotContains(t, out, "[", "%v: %s", s, in.name)
		}
	}
}

// TestRetrySchedule: a REQ goes out 10 times, after 500 ms and then twice as long
// from try to try, up to what the REQ grants the peer; an MRA postpones the next one
// by its service time, and the tries begin anew.
func TestRetrySchedule(t *testing.T) {
	r := newRig(t)
	r.reach(ReqSent)
	times := []int64{}
	step := func() string {
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		times = append(times, at/1e6)
		r.now = at
		r.n.HandleTimeout(at)
		return r.out()
	}
	require.Equal(t, "REQ", step())
	require.Equal(t, "REQ", step())
	r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), ServiceTimeout: 18}) // 1073 ms
	for range DefaultTries - 1 {
		require.Equal(t, "REQ", step())
	}
	require.Equal(t, "[unreachable] REJ(2 timeout)", step())
	require.Equal(t, []int64{500, 1500, 3073, 4073, 6073, 10073, 14073, 18073, 22073, 26073, 30073, 34073}, times)
	require.Equal(t, Counts{}, r.n.Counts())
}

// TestRetryInterval: an interval that the owner asks for stays what it is, for a
// REQ and for a SIDR_REQ.
func TestRetryInterval(t *testing.T) {
	for _, ask := range []func(r *rig) error{
		func(r *rig) error {
			_, err := r.n.Connect(r.now, Request{
				Local: r.n.addr, Remote: r.pu.addr, Service: service, QPN: 5, MTU: ib.MTU1024, Tries: 4, RetryNs: 100e6,
			}, nil)
			return err
		},
		func(r *rig) error {
			_, err := r.n.Resolve(r.now, Lookup{Local: r.n.addr, Remote: r.pu.addr, Service: sidrService, Tries: 4, RetryNs: 100e6}, nil)
			return err
		},
	} {
		r := newRig(t)
		require.NoError(t, ask(r))
		r.out()
		var times []int64
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			times = append(times, at/1e6)
			r.now = at
			r.n.HandleTimeout(at)
		}
		require.Contains(t, r.out(), "[unreachable]")
		require.Equal(t, []int64{100, 200, 300, 400}, times)
	}
}

// TestRestartedPeer: a peer that restarted, and uses the numbers of a connection that
// we think is up, is refused once, the old connection ends, and then it gets in.
func TestRestartedPeer(t *testing.T) {
	r := newRig(t)
	_, err := r.n.Listen(service, r.n.addr, 0)
	require.NoError(t, err)
	require.Equal(t, "[request]", r.in(mad.AttrREQ, r.req()))
	require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
	require.Equal(t, "REP", r.out())
	require.Equal(t, "[established]", r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()}))
	r.tid++
	require.Equal(t, "[disconnected] DREQ REJ(0 stale connection)", r.in(mad.AttrREQ, r.req()))
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
	require.Equal(t, "[disconnected] DREQ REJ(0 stale connection)", r.in(mad.AttrREQ, r.req()), "the number is in use now")

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

// TestListeners: the listener of an address comes before that of all; a service
// has one of each.
func TestListeners(t *testing.T) {
	w := newWorld(t, 1)
	n := w.node(1, Limits{})
	any, err := n.Listen(service, netip.IPv4Unspecified(), 0)
	require.NoError(t, err)
	_, err = n.Listen(service, netip.Addr{}, 0)
	require.ErrorIs(t, err, ErrInUse)
	one, err := n.Listen(service, n.addr, 0)
	require.NoError(t, err)
	require.Equal(t, one, n.match(service, n.addr))
	require.Equal(t, any, n.match(service, netip.MustParseAddr("10.9.9.9")))
	one.Close()
	one.Close()
	require.Equal(t, any, n.match(service, n.addr))
	any.Close()
	require.Nil(t, n.match(service, n.addr))
	require.Equal(t, Counts{}, n.Counts())
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

// FuzzHandleMAD sends arbitrary datagrams to connections in all states: no panic,
// and the accounts stay right.
func FuzzHandleMAD(f *testing.F) {
	f.Add(uint8(mad.AttrREQ), uint8(3), []byte("seed"))
	f.Add(uint8(mad.AttrREJ), uint8(5), make([]byte, 232))
	f.Fuzz(func(t *testing.T, at, state uint8, body []byte) {
		r := newRig(t)
		r.reach(State(state % uint8(numStates)))
		var b [mad.Bytes]byte
		h := mad.CMHeader(mad.Attribute(at), r.tid)
		data := h.Put(&b)
		copy(data[:], body)
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, body)
		r.out()
		for range 100 {
			at, ok := r.n.NextTimeout()
			if !ok {
				break
			}
			r.n.HandleTimeout(at)
			r.out()
		}
		for _, c := range r.n.byID {
			c.Destroy(r.now)
		}
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			r.n.HandleTimeout(at)
			r.out()
		}
		r.out()
		c := r.n.Counts()
		c.Listeners = 0
		require.Equal(t, Counts{}, c)
	})
}

// TestAnswerTimeout: the peer repeats its REP about as often as we our REQ, but
// neither more often than by default nor less often than Linux.
func TestAnswerTimeout(t *testing.T) {
	for _, c := range []struct {
		retryNs int64
		want    ib.TimeoutCode
	}{{1, 17}, {DefaultRetryNs, 17}, {6e8, 18}, {2e9, 19}, {3e9, 20}, {1e12, 20}} {
		require.Equal(t, c.want, (&Conn{retryNs: c.retryNs}).answerTimeout(), "%d ns", c.retryNs)
	}
}

// TestREPSchedule: a REP is repeated less and less often, down to the interval in which
// the REQ says that the peer answers.
func TestREPSchedule(t *testing.T) {
	for timeout, want := range map[ib.TimeoutCode][]int64{
		0:  {500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000},
		18: {500, 1500, 2500, 3500, 4500, 5500, 6500, 7500, 8500, 9500}, // 1.07 s
		31: {500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500},
	} {
		r := newRig(t)
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		require.NoError(t, err)
		m := r.req()
		m.LocalCMTimeout = timeout
		require.Equal(t, "[request]", r.in(mad.AttrREQ, m))
		require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
		require.Equal(t, "REP", r.out())
		times := []int64{}
		for out := ""; !strings.Contains(out, "[unreachable]"); out = r.out() {
			at, ok := r.n.NextTimeout()
			require.True(t, ok)
			times = append(times, at/1e6)
			r.now = at
			r.n.HandleTimeout(at)
		}
		require.Equal(t, want, times, "timeout code %d", timeout)
	}
}

// TestTimewaitLasts: it lasts for as long as a packet of the connection may be on its way, by
// the ACK timeout of whoever made it.
func TestTimewaitLasts(t *testing.T) {
	for code, wantMs := range map[ib.TimeoutCode]int64{0: 1000, 14: 1000, 18: 2147, 31: 60_000} {
		for _, active := range []bool{true, false} {
			r := newRig(t)
			if active {
				c, err := r.n.Connect(r.now, Request{
					Local: r.n.addr, Remote: r.pu.addr, Service: service, QPN: 5, MTU: ib.MTU1024, AckTimeout: code,
				}, nil)
				require.NoError(t, err)
				r.c = c
				r.in(mad.AttrREP, r.rep())
				require.NoError(t, c.Ready(r.now, nil))
			} else {
				_, err := r.n.Listen(service, netip.Addr{}, 0)
				require.NoError(t, err)
				m := r.req()
				m.Primary.AckTimeout = code
				r.in(mad.AttrREQ, m)
				require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
				r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()})
			}
			require.Equal(t, Established, r.c.State())
			r.in(mad.AttrDREQ, r.dreq(0))
			require.Equal(t, Timewait, r.c.State())
			at, ok := r.n.NextTimeout()
			require.True(t, ok)
			require.Equal(t, wantMs, (at-r.now)/1e6, "code %d, active %t", code, active)
		}
	}
}

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
		require.NoError(t, encode(&b, at, r.tid, m))
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

// TestRefusedREPs: a REP that cannot be used ends the connection, and the peer is
// told why.
func TestRefusedREPs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *mad.REP)
		want   string
	}{
		"good":          {func(*mad.REP) {}, "[reply]"},
		"no ID":         {func(m *mad.REP) { m.LocalCommID = 0 }, "[rejected: invalid communication ID] REJ(1 invalid communication ID)"},
		"QPN 1":         {func(m *mad.REP) { m.QPN = 1 }, "[rejected: unsupported request] REJ(1 unsupported request)"},
		"multicast QPN": {func(m *mad.REP) { m.QPN = ib.QPNMulticast }, "[rejected: unsupported request] REJ(1 unsupported request)"},
		"depth":         {func(m *mad.REP) { m.InitiatorDepth = maxRdAtomic + 1 }, "[rejected: insufficient responder resources] REJ(1 insufficient responder resources)"},
		"QPN in use":    {func(m *mad.REP) { m.QPN-- }, "[disconnected] [rejected: stale connection] DREQ REJ(1 stale connection)"},
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
