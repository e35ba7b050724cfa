package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

var qpTypes = []ib.Transport{ib.RC, ib.UC, ib.UD}

// allAttrs are the attributes that Modify knows, apart from the state.
func allAttrs() (all AttrMask) {
	for _, c := range attrChecks {
		all |= c.bit
	}
	return all &^ AttrState
}

// The full matrix, written out, so that a change shows in review. It is found
// by calling Modify, not by printing the table: an attribute is required if
// Modify refuses without it, optional if it may be left out, else refused.
func TestTransitionMatrix(t *testing.T) {
	b := newBench(t)
	var out strings.Builder
	for _, typ := range qpTypes {
		for from := StateReset; from < numQPStates; from++ {
			if typ == ib.RC && from == StateSQE {
				continue // RC has no such state
			}
			for to := StateReset; to < numQPStates; to++ {
				fmt.Fprintf(&out, "%v %v->%v: %s\n", typ, from, to, probeTransition(t, b, typ, from, to))
			}
		}
	}
	path := filepath.Join("testdata", "transitions.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

func probeTransition(t *testing.T, b *bench, typ ib.Transport, from, to QPState) string {
	try := func(mask AttrMask) bool {
		qp := b.qp(t, typ, nil)
		defer qp.Destroy()
		moveTo(t, qp, from)
		qp.sqDrained(0)
		a := goodAttr(from)
		a.State = to
		err := qp.Modify(0, a, mask|AttrState)
		if err != nil {
			require.Equal(t, from, qp.State(), "a refused transition changes nothing")
			return false
		}
		require.Equal(t, to, qp.State())
		return true
	}
	// The full mask is refused almost everywhere; grow from what the error messages ask for.
	var required AttrMask
	for {
		qp := b.qp(t, typ, nil)
		moveTo(t, qp, from)
		qp.sqDrained(0)
		a := goodAttr(from)
		a.State = to
		err := qp.Modify(0, a, required|AttrState)
		require.NoError(t, qp.Destroy())
		if err == nil {
			break
		}
		ae := err.(*ArgError)
		if ae.Why != "required" {
			return "no"
		}
		grown := required
		for _, c := range attrChecks {
			if strings.Contains(", "+ae.Arg+",", ", "+c.name+",") {
				grown |= c.bit
			}
		}
		require.NotEqual(t, required, grown, err)
		required = grown
	}
	var optional AttrMask
	for _, c := range attrChecks {
		switch {
		case c.bit == AttrState:
		case required&c.bit != 0:
			require.False(t, try(required&^c.bit), "%s is required", c.name)
		case try(required | c.bit):
			optional |= c.bit
		}
	}
	require.True(t, try(required|optional), "all optional attributes at once")
	s := "ok"
	if required != 0 {
		s += " required(" + attrName(required) + ")"
	}
	if optional != 0 {
		s += " optional(" + attrName(optional) + ")"
	}
	return s
}

func TestModifyBadValues(t *testing.T) {
	b := newBench(t)
	for _, tc := range []struct {
		attr   string
		from   QPState
		to     QPState
		change func(*QPAttr)
	}{
		{"qp_access_flags", StateReset, StateInit, func(a *QPAttr) { a.Access = 0x10 }},
		{"pkey_index", StateReset, StateInit, func(a *QPAttr) { a.PKeyIndex = 1 }},
		{"port_num", StateReset, StateInit, func(a *QPAttr) { a.PortNum = 2 }},
		{"port_num", StateReset, StateInit, func(a *QPAttr) { a.PortNum = 0 }},
		{"path_mtu", StateInit, StateRTR, func(a *QPAttr) { a.PathMTU = 0 }},
		{"path_mtu", StateInit, StateRTR, func(a *QPAttr) { a.PathMTU = 6 }},
		{"path_mtu", StateInit, StateRTR, func(a *QPAttr) { a.PathMTU = ib.MTU2048 }}, // the port has 1024
		{"dest_qp_num", StateInit, StateRTR, func(a *QPAttr) { a.DestQPN = 0 }},
		{"dest_qp_num", StateInit, StateRTR, func(a *QPAttr) { a.DestQPN = ib.QPNMulticast }},
		{"dest_qp_num", StateInit, StateRTR, func(a *QPAttr) { a.DestQPN = 1 << 24 }},
		{"rq_psn", StateInit, StateRTR, func(a *QPAttr) { a.RQPSN = 1 << 24 }},
		{"max_dest_rd_atomic", StateInit, StateRTR, func(a *QPAttr) { a.MaxDestRdAtomic = 129 }},
		{"min_rnr_timer", StateInit, StateRTR, func(a *QPAttr) { a.MinRNRTimer = 32 }},
		{"ah_attr.dgid", StateInit, StateRTR, func(a *QPAttr) { a.AV.DGID = gid("239.0.0.1") }},
		{"ah_attr.dgid", StateInit, StateRTR, func(a *QPAttr) { a.AV.DGID = ib.GID{} }},
		{"ah_attr.sgid_index", StateInit, StateRTR, func(a *QPAttr) { a.AV.SGIDIndex = 7 }},
		{"ah_attr.flow_label", StateInit, StateRTR, func(a *QPAttr) { a.AV.FlowLabel = 1 << 20 }},
		{"sq_psn", StateRTR, StateRTS, func(a *QPAttr) { a.SQPSN = 1 << 24 }},
		{"timeout", StateRTR, StateRTS, func(a *QPAttr) { a.Timeout = 32 }},
		{"retry_cnt", StateRTR, StateRTS, func(a *QPAttr) { a.RetryCnt = 8 }},
		{"rnr_retry", StateRTR, StateRTS, func(a *QPAttr) { a.RNRRetry = 8 }},
		{"max_rd_atomic", StateRTR, StateRTS, func(a *QPAttr) { a.MaxRdAtomic = 129 }},
		{"cur_qp_state", StateRTR, StateRTS, func(a *QPAttr) { a.CurState = StateSQD }},
		{"max_unacked_packets", StateRTS, StateRTS, func(a *QPAttr) { a.MaxUnackedPackets = -1 }},
		{"max_unacked_packets", StateRTS, StateRTS, func(a *QPAttr) { a.MaxUnackedPackets = ib.MaxPSNSpan }},
		{"qp_state", StateRTS, 7, func(a *QPAttr) {}},
		{"qp_state", StateRTS, StateInit, func(a *QPAttr) {}},
	} {
		qp := b.qp(t, ib.RC, nil)
		moveTo(t, qp, tc.from)
		before, _ := qp.Query()
		path := qp.path
		a := goodAttr(tc.from)
		tc.change(&a)
		a.State = tc.to
		mask := AttrState
		if tc.to < numQPStates {
			tr := transitions[ib.RC][tc.from][tc.to]
			mask |= tr.required | tr.optional
		}
		requireAttr(t, qp.Modify(0, a, mask), tc.attr)
		after, _ := qp.Query()
		require.Equal(t, before, after, tc.attr)
		require.Equal(t, path, qp.path, tc.attr)
		require.NoError(t, qp.Destroy())
	}
	qp := b.qp(t, ib.RC, nil)
	err := qp.Modify(0, QPAttr{}, 1<<29|AttrQKey)
	requireAttr(t, err, "qkey, mask 0x20000000")
	require.EqualError(t, err, "roce: modify RC QP RESET->RESET: qkey, mask 0x20000000: not allowed")
}

// IBTA 10.3.1.6: in SQD the send queue drains; only then may attributes change or the QP go on.
func TestSQD(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateRTS)
	require.NoError(t, qp.Modify(0, QPAttr{State: StateSQD, EnSQDAsyncNotify: true}, AttrState|AttrEnSQDNotify))
	require.Equal(t, []EventType{EventSQDrained}, drainEvents(b.e), "an idle queue is drained at once")
	a, _ := qp.Query()
	require.False(t, a.SQDraining)
	require.NoError(t, qp.Modify(0, QPAttr{Timeout: 3, MaxRdAtomic: 1}, AttrTimeout|AttrMaxRdAtomic))
	a, _ = qp.Query()
	require.EqualValues(t, 3, a.Timeout)
	av := AddressVector{DGID: gid("192.0.2.77"), FlowLabel: 1}
	require.NoError(t, qp.Modify(0, QPAttr{AV: av}, AttrAV))
	require.Equal(t, "192.0.2.77", qp.path.Dst.String())
	require.Equal(t, ib.SourcePort(1), qp.path.SrcPort)
	require.NoError(t, qp.Modify(0, QPAttr{State: StateRTS}, AttrState))
	require.Equal(t, StateRTS, qp.State())
	require.NoError(t, qp.Modify(0, QPAttr{State: StateSQD}, AttrState))
	require.Empty(t, drainEvents(b.e), "the wish for the event is asked again each time")
}

func TestSQDWhileDraining(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateSQD)
	qp.sqDraining = true // as long as something is outstanding
	a, _ := qp.Query()
	require.True(t, a.SQDraining)
	requireAttr(t, qp.Modify(0, QPAttr{Timeout: 3}, AttrTimeout), "qp_state")
	requireAttr(t, qp.Modify(0, QPAttr{State: StateRTS}, AttrState), "qp_state")
	require.NoError(t, qp.Modify(0, QPAttr{State: StateErr}, AttrState))
	qp.sqDrained(0)
	require.Empty(t, drainEvents(b.e))
}

// IBTA 10.3.1.5: a failed send of an unreliable QP stops its send queue only.
func TestSQE(t *testing.T) {
	b := newBench(t)
	for _, typ := range []ib.Transport{ib.UC, ib.UD} {
		qp := b.qp(t, typ, nil)
		moveTo(t, qp, StateSQE)
		require.NoError(t, qp.PostRecv(&RecvWR{}))
		require.Empty(t, pollAll(b.cq), "receives go on")
		require.Empty(t, drainEvents(b.e))
		require.NoError(t, qp.Modify(0, QPAttr{State: StateRTS, CurState: StateSQE}, AttrState|AttrCurState))
		require.Equal(t, StateRTS, qp.State())
	}
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateRTS)
	qp.sqError(0)
	require.Equal(t, StateErr, qp.State(), "RC has no SQE")
}

// Every attribute of the API is in the table of checks, once.
func TestAttrTableIsComplete(t *testing.T) {
	var all AttrMask
	for _, c := range attrChecks {
		require.Zero(t, all&c.bit, c.name)
		all |= c.bit
	}
	require.Equal(t, allAttrs()|AttrState, all)
	for _, typ := range qpTypes {
		for _, row := range transitions[typ] {
			for _, tr := range row {
				require.Zero(t, (tr.required|tr.optional)&^all)
				require.Zero(t, tr.required&tr.optional)
			}
		}
	}
}

type stateTrace struct{ details []string }

func (s *stateTrace) Trace(ev TraceEvent) {
	if ev.Kind == TraceState {
		s.details = append(s.details, ev.Detail)
	}
}

func TestStateTrace(t *testing.T) {
	b := newBench(t)
	tr := &stateTrace{}
	b.e.cfg.Tracer = tr
	qp := b.qp(t, ib.UD, nil)
	moveTo(t, qp, StateSQE)
	qp.fatal(0, EventQPFatal)
	require.NoError(t, qp.Modify(0, QPAttr{State: StateReset}, AttrState))
	require.Equal(t, []string{
		"RESET->INIT", "INIT->RTR", "RTR->RTS", "RTS->SQE", "SQE->ERR", "ERR->RESET",
	}, tr.details)
}
