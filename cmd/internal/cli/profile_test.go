package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A profile is a gzip file; the tool's status is its own, with a profile and without.
func TestProfile(t *testing.T) {
	var stderr bytes.Buffer
	seven := func() int { return 7 }
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	require.Equal(t, 7, profiled("", &stderr, seven))
	require.Equal(t, 7, profiled(file, &stderr, seven))
	require.Empty(t, stderr.String())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, []byte{0x1F, 0x8B}, b[:2])

	require.Equal(t, 7, profiled(filepath.Join(file, "x"), &stderr, seven), "no such folder")
	require.Contains(t, stderr.String(), "roce: GOROCE_CPUPROFILE: open ")
	stderr.Reset()
	require.Equal(t, 7, profiled(file, &stderr, func() int { return profiled(file+"2", &stderr, seven) }),
		"one at a time")
	require.Contains(t, stderr.String(), "GOROCE_CPUPROFILE: cpu profiling already in use")
}
