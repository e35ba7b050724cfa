package programs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	r := &Report{}
	for _, row := range []Row{
		{Suite: "bookworm", Group: groupPyverbs, Program: "tests.test_a.A.test_1", Result: Skip, Detail: "no ODP"},
		{Suite: "bookworm", Group: groupPerftest, Program: "ib_write_bw", Label: "-a",
			Where: twoAddresses, Result: Pass},
		{Suite: "trixie", Group: groupPerftest, Program: "ib_write_bw", Label: "-a", Where: oneAddress,
			Result: Fail, Detail: "client: exit status 1\nmore"},
		{Suite: "trixie", Group: groupPyverbs, Program: "tests.test_a.A.test_2", Result: Pass},
		{Suite: "trixie", Group: groupCM, Program: "cmtime", Where: twoAddresses, Result: Skip,
			Detail: "not in this suite"},
	} {
		r.Add(row)
	}
	stages := []*Stage{
		{&lab.Root{Suite: "bookworm", Versions: map[string]string{
			"perftest": "4.5+0.17-1", "python3-pyverbs": "44.0-2",
		}}},
		{&lab.Root{Suite: "trixie", Versions: map[string]string{"perftest": "24.07.0+0.44-1"}}},
	}
	var b strings.Builder
	require.NoError(t, r.WriteTable(&b, stages))
	require.Contains(t, b.String(), "| perftest | `ib_write_bw` | 4.5+0.17 | 1 | 0 | 0 | 24.07.0+0.44 | 0 | 1 | 0 |\n")
	require.Contains(t, b.String(), "| pyverbs | its test suite | 44.0 | 0 | 0 | 1 | | 1 | 0 | 0 |\n")
	require.Contains(t, b.String(), "- trixie, perftest, one address: ib_write_bw -a: client: exit status 1\n")
	require.Contains(t, b.String(), "- trixie, librdmacm, two addresses: cmtime: not in this suite\n")
	require.True(t, strings.HasSuffix(b.String(), "\n2 passed, 1 failed, 2 skipped\n"))
	require.Equal(t, 1, r.Failed())

	file := filepath.Join(t.TempDir(), "rows.json")
	require.NoError(t, r.WriteJSON(file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []Row
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Equal(t, r.Rows(), rows)
}
