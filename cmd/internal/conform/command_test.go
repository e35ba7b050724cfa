package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// asAgent in the environment makes the test binary the other process of --self.
const asAgent = "GOROCE_TEST_CONFORM_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	env := &tool.Env{Stdout: os.Stdout, Stderr: os.Stderr}
	if err := runAgent(context.Background(), env, os.Args[1:]); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func init() {
	selfCommand = func(ctx context.Context, args ...string) (*exec.Cmd, error) {
		exe, err := os.Executable()
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Env = append(os.Environ(), asAgent+"=1")
		return cmd, err
	}
}

// conformed runs the command.
func conformed(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = Command().Run(ctx, &tool.Env{Stdout: &out, Stderr: &errs}, args)
	return out.String(), errs.String(), err
}

func requireExit(t *testing.T, err error, status int) {
	t.Helper()
	var exit *tool.Exit
	require.ErrorAs(t, err, &exit)
	require.Equal(t, status, exit.Status)
}

// The whole command against another process: table, files, and the exit status. With -short, under
// the race detector and on 32 bits a few rows of each group: all of them take minutes. make
// conform-self has all, and make interop against a kernel.
func TestSelf(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"--self", "--pcap-dir", file("pcaps"), "--junit", file("junit.xml"), "--json",
		file("rows.json"), "--md", file("table.md"), "--html", file("report.html")}
	if testing.Short() || seeds.Race || strconv.IntSize == 32 {
		args = append(args, "--quick", "--only",
			"canaries,errors/success,errors/psn_retry,faults/reorder,operations/mtu 1024 size 257")
	}
	stdout, stderr, err := conformed(t.Context(), args...)
	require.NoError(t, err, stdout+stderr)
	require.Regexp(t, `\n[1-9]\d* passed, 0 failed, \d+ skipped\n$`, stdout)

	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suite    []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Case  []struct {
				Name    string    `xml:"name,attr"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	b, err := os.ReadFile(file("junit.xml"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(b, &suites))
	var rows struct {
		Passed, Failed, Skipped int
		Peer, Profile           string
		Rows                    []struct{ Result, Authority, Detail, Family string }
	}
	b, err = os.ReadFile(file("rows.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &rows))
	require.Equal(t, []string{"goroce", "goroce"}, []string{rows.Peer, rows.Profile})
	require.Len(t, rows.Rows, rows.Passed+rows.Skipped)
	six := 0
	for _, row := range rows.Rows {
		if row.Family == "ipv6" && row.Result == "pass" {
			six++
		}
	}
	if !strings.Contains(stderr, " and ::1 here") {
		t.Log("no IPv6 on loopback, or its port is taken")
		require.Zero(t, six)
	} else {
		require.Greater(t, six, 10)
		require.NotContains(t, stdout, "has no ipv6 address")
	}
	require.Equal(t, len(rows.Rows), suites.Tests)
	require.Zero(t, suites.Failures)
	n := 0
	for _, s := range suites.Suite {
		require.Len(t, s.Case, s.Tests)
		n += s.Tests
	}
	require.Equal(t, suites.Tests, n)
	md, err := os.ReadFile(file("table.md"))
	require.NoError(t, err)
	require.Contains(t, string(md), "# goroce and goroce\n")
	html, err := os.ReadFile(file("report.html"))
	require.NoError(t, err)
	require.Contains(t, string(html), "<title>RoCE v2 conformance of goroce</title>")

	// The file of a run is what reports are made of, of one run and of several.
	again := file("again.html")
	_, stderr, err = conformed(t.Context(), "--merge", "--html", again, "--md", file("again.md"), file("rows.json"))
	require.NoError(t, err, stderr)
	same, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, string(html), string(same))
	same, err = os.ReadFile(file("again.md"))
	require.NoError(t, err)
	require.Equal(t, string(md), string(same))
	stdout, stderr, err = conformed(t.Context(), "--merge", "--md", "-", file("rows.json"), file("rows.json"))
	require.NoError(t, err, stderr)
	require.Contains(t, stdout, "| peer | RC SEND")
	require.Equal(t, 2, strings.Count(stdout, "\n# goroce and goroce\n"))
	for _, args := range [][]string{{"--merge", "--md", "-", file("junit.xml")}, {"--merge", "--md", "-",
		file("missing.json"), file("rows.json")}} {
		stdout, stderr, err = conformed(t.Context(), args...)
		requireExit(t, err, exitNoRun)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "--merge: "+args[3]+":")
	}
}

// With an expectation that this module does not meet a row fails: exit status 1; its packets, what
// they say, and a report are there.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "report.html")
	script := filepath.Join(dir, "gap.drill")
	require.NoError(t, os.WriteFile(script,
		[]byte("title A gap makes no NAK\nclause of my own\nqp rc\nmr a 64\n> WRITE ONLY psn=1\n< ACK psn=1\n"), 0o600))
	_, stderr, err := conformed(t.Context(), "--self", "--drill", script, "--html", page)
	requireExit(t, err, exitFailed)
	require.Contains(t, stderr, "--pcap-dir DIR keeps the packets")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"A gap makes no NAK", "&lt; ACK psn=1", "got NAK sequence psn=0",
		"of my own", "├──▶ WRITE ONLY psn=1", "nobody is known to do this", "--drill &#39;gap.drill&#39;"} {
		require.Contains(t, string(html), want)
	}

	stdout, stderr, err := conformed(t.Context(), "--self", "--drill", script, "--pcap-dir", dir, "--md", "-")
	requireExit(t, err, exitFailed)
	require.Contains(t, stdout, "FAIL goroce udp drills gap as peer")
	require.Contains(t, stdout, "- packets: 001-drills-gap-peer-0-0.pcapng")
	require.Contains(t, stderr, "fail")
	pcaps, err := filepath.Glob(filepath.Join(dir, "*.pcapng"))
	require.NoError(t, err)
	require.Len(t, pcaps, 1)
	text, err := os.ReadFile(strings.TrimSuffix(pcaps[0], ".pcapng") + ".txt")
	require.NoError(t, err)
	require.Contains(t, string(text), "A gap makes no NAK")
	require.Contains(t, string(text), "sequence", "the explanation names the NAK")
}

// Scripts of a user's own are played instead of all else. What is wrong with them is said with file
// and line before anything is run.
func TestOwnDrills(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := file("good.drill",
		"title A gap is answered with a NAK\nclause of my own\nqp rc\nmr a 64\n> WRITE ONLY psn=1\n< NAK sequence psn=0\n")
	bad := file("bad.drill", "qp rc\nmr a 64\n> WRITE ONLY psn=1\n< ACK psn=1\n")
	stdout, stderr, err := conformed(t.Context(), "--self", "--drill", good)
	require.NoError(t, err, stdout+stderr)
	require.Contains(t, stdout, "\n1 passed, 0 failed, 0 skipped\n")
	stdout, _, err = conformed(t.Context(), "--self", "--drill", dir, "--quick")
	requireExit(t, err, exitFailed)
	require.Contains(t, stdout, "FAIL goroce udp drills bad as peer\n     "+bad+":4:1: got NAK sequence psn=0")
	require.Contains(t, stdout, "\n1 passed, 1 failed, 0 skipped\n")
	stdout, _, err = conformed(t.Context(), "--list", "--drill", good, "--drill", bad, "--only", "drills/good")
	require.NoError(t, err)
	require.Equal(t, "peer udp drills good as peer\tof my own\n", stdout)

	broken := file("broken.drill", "qp rc\njump\n")
	for _, args := range [][]string{{"--self", "--drill", broken}, {"--list", "--drill", dir}} {
		_, stderr, err = conformed(t.Context(), args...)
		requireExit(t, err, exitNoRun)
		require.Contains(t, stderr, "roce conform: --drill: "+broken+`:2:1: "jump" is no step`)
	}
	var misuse *getopt.Error
	_, _, err = conformed(t.Context(), "--self", "--drill", good, "--only", "errors")
	require.ErrorAs(t, err, &misuse)
}

func TestUsage(t *testing.T) {
	var misuse *getopt.Error
	for _, args := range [][]string{
		{}, {"--nonsense"}, {"operand"}, {"--self", "--agent", "h:1"}, {"--agent", "host"},
		{"--agent", "a:1,b:2,c:3"}, {"--self", "--only", "zebra"}, {"--self", "--only", "errors,zebra/x"},
		{"--self", "--profile", "zebra"}, {"--self", "--link", "zebra"}, {"--self", "--timeout", "x"},
		{"--self", "--timeout", "-1s"}, {"--self", "--addr", "x"}, {"--self", "--seed", "-1"},
		{"--self", "--cable", "a,b"}, {"--agent", "h:1", "--cable", "a,b"}, {"--agent", "h:1,g:1", "--cable", "a"},
		{"--merge", "x.json"}, {"--merge", "--html", "x"},
		{"agent", "operand"}, {"agent", "--nonsense"},
	} {
		_, _, err := conformed(t.Context(), args...)
		require.ErrorAs(t, err, &misuse, "%q", args)
	}
	for _, args := range [][]string{{"-h"}, {"agent", "-h"}} {
		var text *tool.Text
		_, _, err := conformed(t.Context(), args...)
		require.ErrorAs(t, err, &text)
		require.Contains(t, text.Text, "Usage:")
	}
}

// --list needs no peer, and each row says what it rests on.
func TestList(t *testing.T) {
	all, _, err := conformed(t.Context(), "--list")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(all), "\n")
	require.Greater(t, len(lines), 3000)
	seen := map[string]bool{}
	for _, l := range lines {
		label, authority, ok := strings.Cut(l, "\t")
		require.True(t, ok && authority != "", l)
		require.False(t, seen[label], "twice: %s", label)
		seen[label] = true
	}
	some, _, err := conformed(t.Context(), "--list", "--quick", "--only", "faults/corrupt")
	require.NoError(t, err)
	for l := range strings.SplitSeq(strings.TrimSpace(some), "\n") {
		require.Contains(t, l, "corrupt")
		require.True(t, seen[strings.SplitN(l, "\t", 2)[0]])
	}
}

// Where there is no agent, and when the run is interrupted, the status is 2; the table so far is
// there.
func TestNoRun(t *testing.T) {
	_, stderr, err := conformed(t.Context(), "--agent", "127.0.0.1:1")
	requireExit(t, err, exitNoRun)
	require.Contains(t, stderr, "connection refused")

	stdout, stderr, err := conformed(t.Context(), "--self", "--only", "operations/zebra")
	requireExit(t, err, exitNoRun)
	require.Contains(t, stderr, "no row was run")
	require.Contains(t, stdout, "0 passed, 0 failed, 0 skipped")

	ctx, cancel := context.WithCancelCause(t.Context())
	env := &tool.Env{Stdout: new(bytes.Buffer), Stderr: &watcher{"pass", func() { cancel(errors.New("enough")) }}}
	err = Command().Run(ctx, env, []string{"--self", "-v", "--lanes", "1", "--only", "operations"})
	requireExit(t, err, exitNoRun)
	require.Regexp(t, `\n[1-9]\d* passed, 0 failed, 0 skipped\n$`, env.Stdout.(*bytes.Buffer).String())
}

// watcher calls f when a word is written.
type watcher struct {
	word string
	f    func()
}

func (w *watcher) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.word) {
		w.f()
	}
	return len(b), nil
}

// The agent as a program for other machines: it prints its token, and where it listens.
func TestAgent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	here, there := selfAddrs(os.Getpid() + 1<<13)
	at := make(chan netip.AddrPort, 1)
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		env := &tool.Env{Stdout: &out, Stderr: new(bytes.Buffer), Listening: func(a netip.AddrPort) { at <- a }}
		done <- Command().Run(ctx, env, []string{"agent", "--addr", there.String(), "--listen", "127.0.0.1:0"})
	}()
	addr := <-at
	_, token, ok := strings.Cut(strings.TrimSpace(out.String()), "--token ")
	require.True(t, ok, out.String())
	stdout, stderr, err := conformed(t.Context(), "--agent", addr.String(), "--token", token, "--addr",
		here.String(), "--only", "canaries")
	require.NoError(t, err, stdout+stderr)
	_, stderr, err = conformed(t.Context(), "--agent", addr.String(), "--token", "x"+token, "--addr", here.String())
	requireExit(t, err, exitNoRun)
	require.Contains(t, stderr, "the token is wrong")
	cancel()
	require.NoError(t, <-done)
}

// Processes have addresses of their own, far from each other.
func TestSelfAddrs(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for pid := 1; pid < 1<<20; pid += 997 {
		here, there := selfAddrs(pid)
		require.True(t, here.IsLoopback() && there.IsLoopback())
		require.NotEqual(t, here, there)
		require.False(t, seen[here] || seen[there])
		seen[here], seen[there] = true, true
	}
}

// What the other process says comes between the lines of this one, and not beside them.
func TestLocked(t *testing.T) {
	var out bytes.Buffer
	l := &locked{w: &out}
	var wg sync.WaitGroup
	for _, line := range []string{"one line\n", "another line\n"} {
		wg.Go(func() {
			for range 1000 {
				_, _ = (&prefixed{w: l}).Write([]byte(line))
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1000, strings.Count(out.String(), "the other process: one line\n"))
	require.Equal(t, 1000, strings.Count(out.String(), "the other process: another line\n"))
}
