package captures

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/roce/analyse"
)

const data = "testdata"

// Each capture is explained right: what was injected is found at the right packet, and nothing else
// is.
func TestExplained(t *testing.T) {
	records, err := load(data)
	require.NoError(t, err)
	faulty := 0
	for _, r := range records {
		for view := range viewNames {
			v, err := r.Explain(data, view)
			require.NoError(t, err, r.name())
			require.Empty(t, v.Wrong, "%s, at the %s: found %v", r.name(), viewNames[view], v.Found)
			require.Zero(t, v.Report.Malformed, r.name())
			require.NotZero(t, v.Report.Packets, r.name())
			if len(r.Want[view]) > 0 {
				faulty++
			}
		}
	}
	require.Greater(t, faulty, 200)
}

// The scenes have all kinds that there are, but those of the note.
func TestAllKinds(t *testing.T) {
	records, err := load(data)
	require.NoError(t, err)
	wanted := map[string]bool{"cm-slow": true} // of roce/analyse's own scenes
	for _, r := range records {
		for _, view := range r.Want {
			for _, k := range view {
				wanted[k] = true
			}
		}
	}
	for _, k := range analyse.Kinds() {
		require.True(t, wanted[string(k.Kind)], "no capture has %s", k.Kind)
	}
}

// The table is that of the captures, and lacks no scene.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	_, wrong, err := Table(&b, data)
	require.NoError(t, err)
	require.Zero(t, wrong)
	require.NotContains(t, b.String(), "missing")
	want, err := os.ReadFile("CAPTURES.md")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "go run ./conformance/cmd/lab captures -table makes it anew")
}

// The judge finds what is missing, what is at the wrong packet, and what nobody has injected.
func TestJudge(t *testing.T) {
	r := &Record{
		Want: [2][]string{{"lost-request"}, {"lost-request"}},
		Injected: []Injected{{What: "drop", Opcode: ether.OpWriteMiddle, PSN: 7,
			At: [2]Place{{Frames: []int{4}}, {Next: 5}}}},
	}
	f := func(k analyse.Kind, psn int, frame int, or ...analyse.Kind) *analyse.Finding {
		x := &analyse.Finding{Kind: k, Or: or, Frames: []int{frame, 9}}
		x.PSN = x.PSN.Add(psn)
		return x
	}
	for name, c := range map[string]struct {
		view  int
		found []*analyse.Finding
		wrong int
	}{
		"right":               {AtRequester, []*analyse.Finding{f(analyse.LostRequest, 7, 4)}, 0},
		"right, among others": {AtRequester, []*analyse.Finding{f(analyse.LateAck, 7, 4, analyse.LostRequest)}, 0},
		"the next one":        {AtResponder, []*analyse.Finding{f(analyse.LostRequest, 7, 5)}, 0},
		"nothing":             {AtRequester, nil, 1},
		"wrong kind":          {AtRequester, []*analyse.Finding{f(analyse.LostAck, 7, 4)}, 2},
		"wrong packet":        {AtRequester, []*analyse.Finding{f(analyse.LostRequest, 7, 5)}, 2},
		"wrong PSN":           {AtRequester, []*analyse.Finding{f(analyse.LostRequest, 8, 4)}, 2},
		"twice": {AtRequester,
			[]*analyse.Finding{f(analyse.LostRequest, 7, 4), f(analyse.LostRequest, 7, 4)}, 1},
		"one that nobody injected": {AtRequester,
			[]*analyse.Finding{f(analyse.LostRequest, 7, 4), f(analyse.RNR, 9, 8)}, 1},
	} {
		require.Len(t, r.Judge(c.view, &analyse.Report{Findings: c.found}).Wrong, c.wrong, name)
	}
}

// What nobody can know is not wanted.
func TestSees(t *testing.T) {
	drop := func(op uint8, psn uint32, next Place) *Injected {
		return &Injected{What: "drop", Opcode: op, PSN: psn, Sender: AtRequester,
			At: [2]Place{{Frames: []int{1}}, next}}
	}
	require.True(t, drop(ether.OpWriteMiddle, 7, Place{}).sees(AtRequester, 0))
	require.True(t, drop(ether.OpWriteMiddle, 7, Place{Next: 2, NextPSN: 8}).sees(AtResponder, 0))
	require.False(t, drop(ether.OpWriteOnly, 7, Place{Next: 2, NextPSN: 7}).sees(AtResponder, 0),
		"it comes, and that is all")
	require.False(t, drop(ether.OpWriteOnly, 7, Place{}).sees(AtResponder, 0))
	require.False(t, drop(ether.OpUDSendOnly, 0, Place{Next: 2}).sees(AtResponder, ether.CMREQ))
	require.True(t, drop(ether.OpUDSendOnly, 0, Place{Next: 2}).sees(AtResponder, ether.CMRTU))
	require.False(t, drop(ether.OpUDSendOnly, 0, Place{Next: 2}).sees(AtResponder, ether.CMREP))
	require.True(t, drop(ether.OpUDSendOnly, 0, Place{Again: 2}).sees(AtResponder, ether.CMREP))
}
