package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab"
)

// The stand-ins have the names of the originals without their prefix, and those with retries have
// patience.
func TestLocalCommand(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "roce")
	require.NoError(t, os.WriteFile(bin,
		[]byte("#!/bin/sh\nprintf '  rc_pingpong  x\\n  srq_pingpong  x\\n  uc_pingpong  x\\n  write_bw  x\\n'\n"),
		0o700))
	h := Local{At: &lab.Host{}, Bin: bin, Link: "udp"}
	for tool, patient := range map[string]bool{"ibv_rc_pingpong": true, "ibv_srq_pingpong": true,
		"ibv_uc_pingpong": false, "ib_write_bw": false} {
		argv, ok := h.Command(tool, []string{"-n", "1"})
		require.True(t, ok, tool)
		require.Equal(t, patient, slices.Contains(argv, patience), argv)
		require.Equal(t, []string{"-n", "1"}, argv[len(argv)-2:])
	}
	_, ok := h.Command("ib_read_bw", nil)
	require.False(t, ok)
}
