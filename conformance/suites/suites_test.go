package suites

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKnown(t *testing.T) {
	known, err := parseKnown("# a comment\n\nucx | goroce | rc/test_x.* | they want what is not there\nfabtests | goroce | sometimes verbs: fi_a -v | a race of its own\n")
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.True(t, known[1].Sometimes)
	for _, bad := range []string{"ucx | goroce | x", "ucx | goroce | x | ", "ucx goroce x cause"} {
		_, err := parseKnown(bad)
		require.Error(t, err, bad)
	}
	r := func(suite, test string, o Outcome) Result {
		return Result{Suite: suite, On: OnGoroce, Test: test, Outcome: o}
	}
	whole := map[[2]string]bool{{"ucx", OnGoroce}: true, {"fabtests", OnGoroce}: true}
	for _, c := range []struct {
		name           string
		results        []Result
		whole          map[[2]string]bool
		unknown, stale int
	}{
		{"as known", []Result{r("ucx", "rc/test_x.a/0", Fail), r("fabtests", "verbs: fi_a -v", Fail)}, whole, 0, 0},
		{"one that may pass does",
			[]Result{r("ucx", "rc/test_x.a/0", Fail), r("fabtests", "verbs: fi_a -v", Pass)}, whole, 0, 0},
		{"a failure that is not known", []Result{r("ucx", "rc/test_x.a/0", Fail),
			r("ucx", "rc/test_y.a/0", Fail), r("fabtests", "verbs: fi_a -v", Pass)}, whole, 1, 0},
		{"one that fails no more", []Result{r("ucx", "rc/test_x.a/0", Pass)}, nil, 0, 1},
		{"one that is not run", []Result{r("ucx", "rc/test_y.a/0", Pass)}, nil, 0, 0},
		{"one that is no more", []Result{r("ucx", "rc/test_y.a/0", Pass)}, whole, 0, 2},
		{"without a device", []Result{{Suite: "ucx", On: OnNothing, Test: "z", Outcome: Fail}}, nil, 0, 0},
	} {
		unknown, stale := Judge(known, c.results, c.whole)
		require.Len(t, unknown, c.unknown, c.name)
		require.Len(t, stale, c.stale, c.name)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true},
		{"a*c*e", "abcde", true}, {"a*c*e", "abcd", false}, {"*", "", true}, {"", "a", false},
	} {
		require.Equal(t, c.want, glob(c.pattern, c.s), "%q %q", c.pattern, c.s)
	}
}

func TestMerge(t *testing.T) {
	old := []Result{{"a", OnGoroce, "1", Pass, ""}, {"a", OnGoroce, "2", Pass, ""},
		{"a", OnNothing, "1", Fail, "x"}, {"b", OnGoroce, "1", Pass, ""}}
	fresh := []Result{{"a", OnGoroce, "1", Fail, "y"}}
	require.Equal(t, []Result{{"a", OnGoroce, "1", Fail, "y"}, {"a", OnNothing, "1", Fail, "x"}, {"a",
		OnGoroce, "2", Pass, ""}, {"b", OnGoroce, "1", Pass, ""}}, Merge(old, fresh, nil))
	require.Len(t, Merge(old, fresh, map[[2]string]bool{{"a", OnGoroce}: true}), 3)
}

func TestResultsFile(t *testing.T) {
	all := []Result{{"a", OnGoroce, "x | y", Pass, ""}, {"a", OnGoroce, "z", Skip, oneLine("not\there\n")}}
	var b bytes.Buffer
	require.NoError(t, WriteResults(&b, all))
	got, err := ReadResults(&b)
	require.NoError(t, err)
	require.Equal(t, all, got)
	for _, bad := range []string{"a\tb\tc\td\te\n", "a\tgoroce\tpass\tx\n"} {
		_, err := ReadResults(strings.NewReader(bad))
		require.Error(t, err, bad)
	}
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b c", oneLine(" a\n\x1b[31mb\x1b[0m\tc"))
	require.LessOrEqual(t, len(oneLine(strings.Repeat("x ", 1000))), detailLimit+len("…"))
}

func TestCombinations(t *testing.T) {
	all := combinations("ib_send_bw", `Usage:
  ib_send_bw <host>     connect to server at <host>
Options:
  -a, --all  Run sizes from 2 till 2^23
  -c, --connection=<RC/XRC/UC/UD/DC/SRD>  Connection type
  -D, --duration  Run test for a customized period of seconds.
      --no_lock  Do not lock IB resources
      --retry_count=<value>  Set retry count value
      --something_new=<value>  of a later version
`)
	var names []string
	for _, c := range all {
		names = append(names, c.name())
	}
	require.Equal(t, []string{
		"ib_send_bw: --all -n 10", "ib_send_bw: --connection=RC", "ib_send_bw: --connection=UC",
		"ib_send_bw: --connection=UD", "ib_send_bw: --connection=XRC",
		"ib_send_bw: --connection=DC", "ib_send_bw: --connection=SRD", "ib_send_bw: --duration=1",
		"ib_send_bw: --no_lock", "ib_send_bw: --retry_count=7", "ib_send_bw: --something_new=1",
	}, names)
	for said, want := range map[string]string{
		"---\n* Waiting for client to connect... *\n---\n Couldn't allocate TD\n Couldn't allocate TD\n": "Couldn't allocate TD",
		" Using SRQ only avavilible in SEND tests.\n" +
			" Using SRQ      : OFF\n": "Using SRQ only avavilible in SEND tests.",
	} {
		require.Equal(t, want, gist(said))
	}
}

func TestGtestParser(t *testing.T) {
	var got []Result
	p := gtestParser{report: func(r Result) { got = append(got, r) }}
	for line := range strings.Lines(`Note: Google Test filter = x
[==========] Running 4 tests from 1 test suite.
[ RUN      ] rc/test_a.one/0 <rc_v>
[       OK ] rc/test_a.one/0 (13 ms)
[ RUN      ] rc/test_a.two/0 <rc_v>
[     SKIP ] (no such thing)
[       OK ] rc/test_a.two/0 (1 ms)
[ RUN      ] rc/test_a.three/0
a.cc:7: Failure
expected x
[  FAILED  ] rc/test_a.three/0, where GetParam() = rc_v (2 ms)
[ RUN      ] rc/test_a.four/0
  Segmentation fault
`) {
		p.line(line)
	}
	require.Equal(t, []Result{
		{Test: "rc/test_a.one/0", Outcome: Pass}, {Test: "rc/test_a.two/0", Outcome: Skip, Detail: "no such thing"},
		{Test: "rc/test_a.three/0", Outcome: Fail, Detail: "a.cc:7: Failure expected x"},
	}, got)
	require.Equal(t, "rc/test_a.four/0", p.running)
	for line := range strings.Lines("[==========] 4 tests ran.\n[  FAILED  ] rc/test_a.three/0\n") {
		q := gtestParser{report: func(Result) { t.Error("the summary is no result") }}
		q.line(line)
	}
}

func TestFabParser(t *testing.T) {
	var got []Result
	p := fabParser{provider: "verbs;ofi_rxm", report: func(r Result) { got = append(got, r) }}
	for line := range strings.Lines(`- name:   fi_msg -p "verbs;ofi_rxm"
  timestamp: 20261127-030000+0000
  result: Pass
  time:   1
- name:   fi_dgram -I 5 -p "verbs;ofi_rxm"
  result: Notrun
  time:   1
  server_stdout: |
    fi_getinfo: -61
- name:   fi_x -p "verbs;ofi_rxm"
  result: Excluded
- name:   fi_ubertest
  result: Pass [10/12]
- name:   fi_y -p "verbs;ofi_rxm"
  result: Fail
  server_stdout: |
    result: -5
# ------
`) {
		p.line(line)
	}
	p.end()
	require.Equal(t, []Result{
		{Test: "verbs;ofi_rxm: fi_msg", Outcome: Pass},
		{Test: "verbs;ofi_rxm: fi_dgram -I 5", Outcome: Skip, Detail: "fi_getinfo: -61"},
		{Test: "verbs;ofi_rxm: fi_x", Outcome: Skip, Detail: "libfabric's own list for this provider excludes it"},
		{Test: "verbs;ofi_rxm: fi_ubertest", Outcome: Pass},
		{Test: "verbs;ofi_rxm: fi_y", Outcome: Fail, Detail: "result: -5"},
	}, got)
}

// A test whose name has the server's address has the same name wherever it is run.
func TestFabAddress(t *testing.T) {
	var got []Result
	p := fabParser{provider: "verbs", addrs: strings.NewReplacer("10.77.0.10", "SERVER"),
		report: func(r Result) { got = append(got, r) }}
	for line := range strings.Lines("- name:   fi_getinfo_test -s 10.77.0.10 10.77.0.10 -p \"verbs\"\n" +
		"  result: Pass\n") {
		p.line(line)
	}
	p.end()
	require.Equal(t, []Result{{Test: "verbs: fi_getinfo_test -s SERVER SERVER", Outcome: Pass}}, got)
}

// Tests that were not asked for are in the script's list of exclusions.
func TestFabExcept(t *testing.T) {
	tests := []string{"fi_msg", "fi_msg -I 5", "fi_ubertest"}
	for _, c := range []struct {
		turn  Turn
		asked []string
	}{
		{Turn{Only: "fi_msg"}, tests[:2]}, {Turn{Share: 2}, []string{tests[0], tests[2]}}, {Turn{Only: "none"}, nil},
	} {
		c.turn.Dir = t.TempDir()
		asked, file, err := c.turn.fabExcept(t.TempDir(), "verbs", func(report func(Result)) error {
			for _, name := range tests {
				report(Result{Test: "verbs: " + name})
			}
			return nil
		})
		require.NoError(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range tests {
			want := slices.Contains(c.asked, name)
			require.Equal(t, want, asked["verbs: "+name], "%s, asked for %v", name, c.asked)
			require.Equal(t, !want, strings.Contains(string(text), "^"+name+"$\n"), "%s: %s", name, text)
		}
	}
}

// A share of the tests is the same one in each run.
func TestShare(t *testing.T) {
	for range 2 {
		turn := Turn{Share: 3, Only: "a"}
		var got []string
		for _, name := range []string{"b", "a1", "a2", "a3", "b", "a4", "a5"} {
			if turn.asked(name) {
				got = append(got, name)
			}
		}
		require.Equal(t, []string{"a1", "a4"}, got)
	}
	turn := Turn{Share: 1}
	require.True(t, turn.asked("a") && turn.asked("b"))
}

// TestPage: what is committed fits together. Every failure has its cause, no cause is without one,
// and the page is of these results.
func TestPage(t *testing.T) {
	known, err := AllKnown()
	require.NoError(t, err)
	f, err := os.Open("results.txt")
	require.NoError(t, err)
	defer f.Close()
	all, err := ReadResults(f)
	require.NoError(t, err)
	whole := map[[2]string]bool{}
	for _, k := range known {
		whole[[2]string{k.Suite, k.On}] = true
	}
	unknown, stale := Judge(known, all, whole)
	require.Empty(t, unknown, "failures whose cause known.txt does not say")
	require.Empty(t, stale, "lines of known.txt that no failure needs")
	var b bytes.Buffer
	require.NoError(t, WriteTable(&b, all, known))
	page, err := os.ReadFile("../SUITES.md")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(page), "\"bin/lab suites -page\" makes it anew")
	for _, s := range All() {
		if len(byName(all, s.Name)) > 0 {
			require.NotEmpty(t, runsOf(s.Name), "runs.md does not say how %s was run", s.Name)
		}
	}
}

// What a process of libiscsi's test program that ran one test has come to.
func TestISERVerdict(t *testing.T) {
	for _, c := range []struct {
		said    string
		outcome Outcome
		detail  string
	}{
		{"Suite: Read10\n  Test: Simple ...passed\n", Pass, ""},
		{"  Test: Simple ...    [SKIPPED] COMPAREANDWRITE is not implemented.\npassed\n", Skip,
			"COMPAREANDWRITE is not implemented."},
		{"  Test: AllocLength ...FAILED\n    1. test_inquiry_alloc_length.c:97  - CU_ASSERT_EQUAL(ret,0)\n",
			Fail, "CU_ASSERT_EQUAL(ret,0)"},
		{"  Test: Simple ...    [FAILED] Failed to send READ16 command\nFAILED\n", Fail,
			"Failed to send READ16 command"},
		{"  Test: Simple ...", Fail, "it does not say what came of it: Test: Simple ..."},
	} {
		if o, detail := iserVerdict(c.said, nil); o != c.outcome || detail != c.detail {
			t.Errorf("%q: %v %q, want %v %q", c.said, o, detail, c.outcome, c.detail)
		}
	}
	if m := iserTest.FindAllString("ALL\nALL.Read10\nALL.Read10.Simple\nSCSI.Read10.Simple\n", -1); len(m) != 1 {
		t.Errorf("the list has %d tests: %q", len(m), m)
	}
}

func TestFIOVerdict(t *testing.T) {
	for _, c := range []struct {
		said string
		end  error
		want Outcome
	}{
		{"fio: waiting for connection\n", nil, Pass},
		{"fio: Server's block size (4096) must be greater than or equal to the client's block size (65536)!\n",
			errRunning, Skip},
		{"verify: bad magic header e035, wanted acca\n", errRunning, Fail},
	} {
		got, _ := fioVerdict(c.said, c.end)
		require.Equal(t, c.want, got, c.said)
	}
}

// The results of fio are of rows that there are.
func TestFIORows(t *testing.T) {
	f, err := os.Open("results.txt")
	require.NoError(t, err)
	defer f.Close()
	all, err := ReadResults(f)
	require.NoError(t, err)
	var names []string
	for _, row := range fioRows() {
		names = append(names, row.name())
	}
	n := 0
	for _, r := range all {
		if r.Suite == "fio" {
			require.Contains(t, names, r.Test)
			n++
		}
	}
	require.Equal(t, (len(Sites)+1)*len(names), n, "and on rxe 6.12")
}

// A line of MPICH's list of tests, and what its tests say.
func TestMPI(t *testing.T) {
	c, err := mpiTest("openmpi", strings.Fields("pt2pt/sendrecv3 2 arg=-isendrecv timeLimit=60"))
	require.NoError(t, err)
	require.Equal(t,
		mpiCase{"openmpi: pt2pt/sendrecv3 -isendrecv (2)", "pt2pt/sendrecv3", "2", []string{"-isendrecv"}}, c)
	for _, c := range []struct {
		said string
		end  error
		want Outcome
	}{
		{" No Errors\n", nil, Pass},
		{" Found 2 errors\n", nil, Fail},
		{" No Errors\n", errLong, Fail},
	} {
		got, _ := mpiVerdict(c.said, c.end)
		require.Equal(t, c.want, got, c.said)
	}
}

// What a benchmark of Intel's says: the last column of its table is how wrong the data are, and
// there may be none.
func TestIMBVerdict(t *testing.T) {
	const head, data, bare = "       #bytes #repetitions      t[usec]   Mbytes/sec      defects\n",
		"            8           10       101.20         0.08         0.00\n",
		" #repetitions  t_min[usec]  t_max[usec]\n           10       101.20       103.10\n"
	for _, c := range []struct {
		said string
		end  error
		want Outcome
	}{
		{head + data + "\n\n# " + imbEnd + "\n\n", nil, Pass},
		{bare + "\n# " + imbEnd + "\n", nil, Pass},
		{head + data + strings.Replace(data, "0.00\n", "1.00\n", 1) + "\n# " + imbEnd + "\n", nil, Fail},
		{head + "            8           10       101.20         0.08         nan\n\n# " + imbEnd + "\n", nil, Fail},
		{head + data, nil, Fail},
		{head + data + "\n# " + imbEnd + "\n", errLong, Fail},
		{head + "            8 time-out.; Time limit is over\n\n# " + imbEnd + "\n", nil, Fail},
	} {
		got, why := imbVerdict(c.said, c.end)
		require.Equal(t, c.want, got, c.said)
		require.Equal(t, strings.Contains(c.said, "time-out"), strings.Contains(why, "longer"), why)
	}
}

// valkey's script ends with 0 in any case; what it says counts.
func TestValkeyVerdict(t *testing.T) {
	for _, c := range []struct {
		said string
		end  error
		want Outcome
	}{
		{"Valkey Over RDMA test prepare\nValkey Over RDMA test over 10.9.0.1 [OK]\n", nil, Pass},
		{"Valkey Over RDMA test over 10.9.0.1 [FAILED]\n", nil, Fail},
		{"Valkey Over RDMA test over 10.9.0.1 [OK]\n", errLong, Fail},
		{"", nil, Fail},
	} {
		got, _ := valkeyVerdict(c.said, c.end)
		require.Equal(t, c.want, got, c.said)
	}
	_, why := valkeyVerdict("Valkey Over RDMA test prepare [OK]\nvalkeyContext: resolve failed\n", nil)
	require.Equal(t, "<nil>: valkeyContext: resolve failed", why, "what went well is left out")
}

// Only what passes on a guest's rxe, and fails or is skipped on goroce, is behind.
func TestBehindRXE(t *testing.T) {
	behind := Result{"a", OnGoroce, "2", Skip, "no such thing"}
	all := []Result{
		{"a", OnGoroce, "1", Pass, ""}, {"a", "rxe 6.1", "1", Pass, ""},
		behind, {"a", "rxe 6.1", "2", Fail, "x"}, {"a", "rxe 6.12", "2", Pass, ""},
		{"a", OnGoroce, "3", Skip, ""}, {"a", "rxe 6.1", "3", Skip, ""}, {"a", OnNothing, "3", Pass, ""},
		{"a", "rxe 6.12", "4", Pass, ""},
	}
	require.Equal(t, []Result{behind}, behindRXE(all))
	for on := range Guests {
		require.Contains(t, AllSites, on)
	}
}
