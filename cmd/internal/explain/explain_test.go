package explain

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected texts anew")

const captures = "../../../ib/testdata/captures/"

// explained runs the command.
func explained(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = Command().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &errs}, args)
	return out.String(), errs.String(), err
}

// The text of a clean capture and of one with losses. No colours: this is no terminal.
func TestText(t *testing.T) {
	for _, name := range []string{"rping", "rc_pingpong_loss"} {
		got, _, err := explained(t, captures+name+".pcap")
		require.NoError(t, err)
		require.NotContains(t, got, "\x1b")
		for line := range strings.SplitSeq(got, "\n") {
			require.LessOrEqual(t, len(line), defaultWidth+len(captures), line)
		}
		path := filepath.Join("testdata", name+".txt")
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
}

// The JSON has the fields that scripts use.
func TestJSON(t *testing.T) {
	got, _, err := explained(t, "--json", captures+"rc_pingpong_loss.pcap")
	require.NoError(t, err)
	var v struct {
		Packets     int
		Connections []map[string]any
		Findings    []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got), &v))
	require.Equal(t, 677, v.Packets)
	require.Len(t, v.Connections, 1)
	require.NotEmpty(t, v.Findings)
	f := v.Findings[0]
	require.Equal(t, "lost-request", f["kind"])
	require.Equal(t, []any{4.0, 5.0, 6.0}, f["frames"])
	require.Equal(t, []any{float64(0x25), 6042660.0, false}, []any{f["qpn"], f["psn"], f["certain"]})
	require.NotEmpty(t, f["text"])
	require.NotEmpty(t, f["advice"])
}

// --check is for scripts.
func TestCheck(t *testing.T) {
	_, _, err := explained(t, "--check", captures+"rping.pcap")
	require.NoError(t, err)
	_, _, err = explained(t, "--check", captures+"rc_pingpong_loss.pcap")
	require.Error(t, err)
}

// A file that is cut is explained as far as it goes; what is no capture is refused with the place.
func TestBadFiles(t *testing.T) {
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	dir := t.TempDir()
	cut, none, empty := filepath.Join(dir, "cut"), filepath.Join(dir, "none"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(cut, b[:len(b)-100], 0o644))
	require.NoError(t, os.WriteFile(none, []byte("GIF89a, not a capture"), 0o644))
	require.NoError(t, os.WriteFile(empty, b[:24], 0o644))
	out, errs, err := explained(t, cut)
	require.NoError(t, err)
	require.Contains(t, out, "40 packets")
	require.Contains(t, errs, "at byte")
	_, _, err = explained(t, none)
	require.ErrorContains(t, err, "at byte 0")
	out, _, err = explained(t, empty)
	require.NoError(t, err)
	require.Contains(t, out, "nothing to explain")
	_, _, err = explained(t, filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStyle(t *testing.T) {
	s := textStyle{width: 19, color: true}
	require.Equal(t, "\x1b[1mx\x1b[0m", s.bold("x"))
	require.Equal(t, "  one two three\n  four\n", s.wrap("  ", "one two three four"))
	require.Contains(t, kindsText(), "pmtu-blackhole")
}
