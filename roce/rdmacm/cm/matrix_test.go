package cm

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// inputs are all messages that a peer can send about a connection, what the application can
// call, and the timer.
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
		return r.in(mad.AttrREJ,
			&mad.REJ{LocalCommID: r.id, RemoteCommID: r.local(), Rejected: mad.SubjectREP, Reason: mad.RejectConsumer})
	}},
	{"REJ, timeout", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{
			LocalCommID: r.id, Rejected: mad.SubjectOther, Reason: mad.RejectTimeout, InfoLen: 8,
			Info: []byte{0, 0, 0, 0, 0, 0, 0, 99},
		})
	}},
	{"REJ of REP, other", func(r *rig) string {
		return r.in(mad.AttrREJ, &mad.REJ{LocalCommID: r.id + 1, RemoteCommID: r.local(),
			Rejected: mad.SubjectREP, Reason: mad.RejectConsumer})
	}},
	{"MRA of REQ", func(r *rig) string {
		return r.in(mad.AttrMRA,
			&mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREQ, ServiceTimeout: 20})
	}},
	{"MRA of REP", func(r *rig) string {
		return r.in(mad.AttrMRA,
			&mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), Acknowledged: mad.SubjectREP, ServiceTimeout: 20})
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
			if int64(b.Field(i).Uint()-a.Field(i).Uint()) < 0 {
				f.Name += " down"
			}
			s = append(s, f.Name)
		}
	}
	if s == nil {
		return ""
	}
	return "{" + strings.Join(s, " ") + "}"
}

// TestMatrix sends every message to every state, and lets the application call everything. The
// outcome, written down in testdata/matrix.txt, is to be read: state and message, then what is
// sent, [what the application is told], {counters that moved}, the time until something is due by
// itself if that has changed, and the state afterwards if it is another.
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

// TestWrongAddress: messages about a connection from another address than its
// peer's change nothing.
func TestWrongAddress(t *testing.T) {
	for s := ReqSent; s < numStates; s++ {
		for _, in := range inputs {
			if strings.HasPrefix(in.name, "REQ") || in.name == "SIDR_REQ" || in.name == "COMM_EST" ||
				strings.HasPrefix(in.name, "timer") || strings.HasPrefix(in.name, "call") {
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
