package drill

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const head = "title t\nclause IBTA 9\n"

// byName returns the drill of a name, or nil.
func byName(name string) *Drill {
	for _, d := range list() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// TestScripts holds the scripts of the package to what List and the tables built from them need.
func TestScripts(t *testing.T) {
	entries, err := os.ReadDir("scripts")
	require.NoError(t, err)
	titles := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile("scripts/" + e.Name())
		require.NoError(t, err)
		d, err := Parse(e.Name(), b)
		require.NoError(t, err)
		require.NotEmpty(t, d.Tags, e.Name())
		require.NotContains(t, titles, d.Title, "%s has the title of %s", e.Name(), titles[d.Title])
		titles[d.Title] = e.Name()
		require.Same(t, byName(d.Name), byName(d.Name))
		require.NotNil(t, byName(d.Name))
	}
	require.Nil(t, byName("no such drill"))
}

// TestParseErrors says what is wrong, and where.
func TestParseErrors(t *testing.T) {
	for _, x := range []struct{ src, want string }{
		{"", "x.drill:1:1: a drill has steps"},
		{"qp rc", "x.drill:1:1: the title is missing: title TEXT"},
		{"title t\nqp rc", "x.drill:1:1: the authority is missing: clause TEXT, or seen rxe|connectx TEXT"},
		{head, "x.drill:1:1: a drill has steps"},
		{"title t\n", "x.drill:1:1: a drill has steps"},
		{head + "jump", `x.drill:3:1: "jump" is no step`},
		{head + "qp", "x.drill:3:1: qp [NAME] rc|uc|ud"},
		{head + "qp rc mtu", `x.drill:3:7: "mtu" means nothing in qp`},
		{head + "qp rc mut=1", "x.drill:3:7: qp has no mut=: it has access, depth"},
		{head + "qp rc mtu=1024 mtu=256", "x.drill:3:16: mtu= stands here twice"},
		{head + "qp rc mtu=2k", `x.drill:3:11: "2k" is neither a number nor a name`},
		{head + "qp rc state=READY", `x.drill:3:13: "READY" is no state: use one of RESET`},
		{head + "qp rc access=local+all", `x.drill:3:14: "all" is no right`},
		{head + "qp rc\nqp rc", "x.drill:4:1: qp is there already"},
		{head + "mr a", "x.drill:3:1: mr needs len="},
		{head + "mr A 16", "x.drill:3:1: mr has no operation in capitals"},
		{head + "> SEND ONLY", "x.drill:3:1: > SEND ONLY needs a queue pair"},
		{head + "qp rc\n> SEND WHOLE", `x.drill:4:1: "SEND WHOLE" is no packet`},
		{head + "qp rc\n> SEND ONLY imm=1", "x.drill:4:17: SEND ONLY has no imm=: it has ackreq"},
		{head + "qp rc\n> SEND ONLY psn=$i", "x.drill:4:17: there is no variable $i"},
		{head + "qp rc\n> WRITE ONLY va=a+1", "x.drill:4:17: there is no object a"},
		{head + "qp rc\n> WRITE ONLY va=1+", "x.drill:4:19: a number is missing"},
		{head + "qp rc\n> SEND ONLY psn=?x", `x.drill:4:17: "?x" is neither`},
		{head + "qp ud\n> WRITE ONLY", "x.drill:4:1: WRITE ONLY is no packet of"},
		{head + "qp rc\n< NAK psn=0", "x.drill:4:1: NAK sequence|invalid|access|operation"},
		{head + "qp rc\n< NOTHING", "x.drill:4:1: < NOTHING needs for=TIME"},
		{head + "qp rc\n< ACK within=10", `x.drill:4:14: "10" is not a time`},
		{head + "qp rc\n< ACK data=seven", `x.drill:4:12: "seven" is no contents`},
		{head + "qp rc\n< ACK data=hex:abc", `x.drill:4:16: "abc" is not a row of bytes`},
		{head + "> CM HELLO", `x.drill:3:1: "HELLO" is no message: use one of DREP`},
		{head + "> CM RTU psn=1", "x.drill:3:14: CM RTU has no psn=: it has attr"},
		{head + "[linux] qp rc", `x.drill:3:1: "linux" is not a profile`},
		{head + "[rxe]", "x.drill:3:1: a step is missing behind the profile"},
		{head + "repeat i 5..3", `x.drill:3:10: "5..3" is no range`},
		{head + "repeat i 0..3\nqp rc", "x.drill:3:1: repeat without end"},
		{head + "end", "x.drill:3:1: end without repeat"},
		{head + "repeat i 0..9999\nrepeat j 0..9999\nwait for=1ms\nend\nend", "more than 16384 steps"},
		{head + "qp rc\ntitle again", "x.drill:4:1: title belongs to the head"},
		{head + "uplink", "x.drill:3:1: uplink max=BYTES, or uplink open"},
		{head + "uplink open max=3", "x.drill:3:1: uplink max=BYTES, or uplink open"},
		{head + "needs luck", `x.drill:3:7: "luck" is not a feature`},
		{head + "deviates spec it does not", `x.drill:3:10: "spec" is not a profile that can deviate`},
		{head + "deviates rxe row=3", "x.drill:3:10: deviates PROFILE [row=N] TEXT: the text is missing"},
		{head + "logs goroce a.c:1 f", `x.drill:3:6: "goroce" is not the profile of a kernel`},
		{head + "logs rxe-6.1 a.c:1", "x.drill:3:6: logs PROFILE FILE:LINE FUNCTION"},
		{head + "qp rc\ndone SUCCESS", "x.drill:4:1: done STATUS send|recv"},
		{head + "qp rc\nmem rx+0 len=1", "x.drill:4:1: mem needs data="},
		{head + "qp rc\nmem 16 len=1 data=zero", `x.drill:4:5: "16" does not begin with a region`},
	} {
		_, err := Parse("x.drill", []byte(x.src))
		require.Error(t, err, x.src)
		require.Contains(t, err.Error(), x.want, x.src)
		var pe *ParseError
		require.True(t, errors.As(err, &pe))
	}
	_, err := Parse("x.drill", []byte(head+strings.Repeat("#", maxScriptBytes)))
	require.ErrorContains(t, err, "at most 65536 bytes")
}

// TestParseHead reads what a drill says of itself.
func TestParseHead(t *testing.T) {
	d, err := Parse("some.drill", []byte(`title    What it # says
about    more
clause   IBTA 9.7.5
seen     rxe 6.1, 6.12: this
seen     connectx a capture
deviates rxe row=7 It does not
deviates rxe-6.1 It does something else
logs     rxe-6.1 drivers/net/x.c:7 x_open
tags     rc nak
needs    flush cm
qp rc
[rxe-6.1] wait for=1ms
[!rxe]    wait for=2ms
`))
	require.NoError(t, err)
	require.Equal(t, "some", d.Name)
	require.Equal(t, "What it # says", d.Title)
	require.Equal(t,
		[]Authority{{Clause, "IBTA 9.7.5"}, {SeenRxe, "6.1, 6.12: this"}, {ConnectX, "a capture"}}, d.Authority)
	require.Equal(t, []Deviation{{"rxe", 7, "It does not"}}, d.Deviates("rxe-6.12"))
	require.Len(t, d.Deviates("rxe-6.1"), 2)
	require.Empty(t, d.Deviates(Goroce))
	require.Equal(t, []string{"drivers/net/x.c:7 x_open"}, d.Logs("rxe-6.1"))
	require.Empty(t, d.Logs("rxe-6.12"))
	require.Empty(t, d.Logs(Rxe))
	require.True(t, d.Has("nak"))
	require.Equal(t, []Feature{NeedFlush, NeedCM}, d.Needs)
	require.True(t, d.steps[1].runs("rxe-6.1"))
	require.False(t, d.steps[1].runs("rxe-6.12"))
	require.False(t, d.steps[2].runs("rxe-6.12"))
	require.True(t, d.steps[2].runs(Spec))
}

// FuzzParse: any bytes give a drill or an error with a place in the script.
func FuzzParse(f *testing.F) {
	entries, err := os.ReadDir("scripts")
	require.NoError(f, err)
	for _, e := range entries {
		b, err := os.ReadFile("scripts/" + e.Name())
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := Parse("f.drill", src)
		if err == nil {
			require.NotEmpty(t, d.steps)
			return
		}
		var pe *ParseError
		require.True(t, errors.As(err, &pe), "%v", err)
		require.LessOrEqual(t, pe.Line, strings.Count(string(src), "\n")+1)
		require.GreaterOrEqual(t, pe.Col, 1)
	})
}

// What stops a machine is known of an implementation, and not played against any version of it
// unless that is asked for.
func TestStops(t *testing.T) {
	d, err := Parse("x.drill",
		[]byte("title x\nclause IBTA 1\nstops rxe-6.1-170 reads beyond the packet\nstops goroce makes a test\nqp rc\n"))
	require.NoError(t, err)
	require.True(t, d.Dangerous("rxe-6.12"))
	require.False(t, d.Dangerous(CX))
	require.Empty(t, d.StopsMachine("rxe-6.1"), "the version is another one")
	require.Len(t, d.StopsMachine("rxe-6.1-170"), 1)
	r := Run(t.Context(), d, NewEngine(), Options{})
	require.Equal(t, Skip, r.Verdict)
	require.Contains(t, r.Text, "makes a test")
	require.Equal(t, Pass, Run(t.Context(), d, NewEngine(), Options{Stop: true}).Verdict)
}
