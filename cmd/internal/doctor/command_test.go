package doctor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// patient is a machine with a finding of each level.
func patient() *host {
	h := healthy()
	h.ifaces[1].MTU = 1500
	h.open = map[string]error{"10.0.0.1": &link.OpenError{Err: unix.EADDRINUSE, Hint: "something else uses it"}}
	h.features = map[uint32]error{unix.ETHTOOL_GGRO: errOff}
	delete(h.files, "sys/kernel/mm/transparent_hugepage/enabled")
	h.commands = nil
	return h
}

func runOn(t *testing.T, h *host, s tool.Screen, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(t.Context(), &tool.Env{Stdout: &out, Stderr: &out, Screen: s}, h.system(), args)
	return out.String(), err
}

func TestText(t *testing.T) {
	var exit *tool.Exit
	for name, s := range map[string]tool.Screen{
		"testdata/pipe.txt": {}, "testdata/narrow.txt": {Width: 60}, "testdata/colour.txt": {Width: 100,
			Colour: true, UTF8: true},
	} {
		out, err := runOn(t, patient(), s)
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitFail, exit.Status)
		golden(t, name, out)
		require.Equal(t, s.Colour, strings.Contains(out, "\x1b["))
	}
}

func TestExitStatus(t *testing.T) {
	_, err := runOn(t, healthy(), tool.Screen{})
	require.NoError(t, err)
	noted := healthy()
	noted.ifaces[1].MTU = 1500
	noted.commands = nil // and something unknown
	_, err = runOn(t, noted, tool.Screen{})
	require.NoError(t, err)
	worse := healthy()
	worse.ifaces[1].MTU = 600
	_, err = runOn(t, worse, tool.Screen{})
	var exit *tool.Exit
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitWarn, exit.Status)
	_, err = runOn(t, worse, tool.Screen{}, "--only", "port,rxe")
	require.NoError(t, err)
}

func TestJSON(t *testing.T) {
	out, err := runOn(t, patient(), tool.Screen{Colour: true, Width: 40}, "--json")
	var exit *tool.Exit
	require.ErrorAs(t, err, &exit)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, exitFail, r.Status)
	require.Equal(t, Fail, r.Verdict)
	all, err := examine(t.Context(), patient().system(), target{}, nil)
	require.NoError(t, err)
	require.Equal(t, all, r.Findings)
	require.NotContains(t, out, "\x1b")
	require.Error(t, new(Level).UnmarshalText([]byte("dead")))
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--only nonsense": "no check", "-z": "unknown", "a b": "one host at most",
		"--serve host": "do not go together", "--path-only": "needs a host",
		"--path-only --only mtu host": "do not go together", "-p 0": "not within", "-D x": "not a number",
	} {
		_, err := runOn(t, healthy(), tool.Screen{}, strings.Fields(args)...)
		var misuse *getopt.Error
		require.ErrorAs(t, err, &misuse)
		require.ErrorContains(t, err, want)
	}
	_, err := runOn(t, healthy(), tool.Screen{}, "-d", "eth9")
	require.ErrorContains(t, err, "no interface")
	_, err = runOn(t, healthy(), tool.Screen{}, "-h")
	var text *tool.Text
	require.ErrorAs(t, err, &text)
	require.Contains(t, text.Text, "Exit status: 0 nothing is wrong")
}

// A name of a process or an interface that holds escape sequences does not reach the terminal.
func TestHostileNames(t *testing.T) {
	h := healthy()
	h.ifaces[1].Name = "e\x1b[2Jx"
	out, _ := runOn(t, h, tool.Screen{Width: 80})
	require.NotContains(t, out, "\x1b")
}
