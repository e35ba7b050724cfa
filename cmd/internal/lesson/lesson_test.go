package lesson

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/stretchr/testify/require"
)

// taught runs the command.
func taught(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := Command().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &errs}, args)
	return out.String(), err
}

// shows is what each lesson is about: the kind that the analyser finds, and something that is said.
var shows = map[string]struct {
	kind analyse.Kind
	said string
}{
	"rnr":        {analyse.RNR, "completion: success"},
	"write":      {"", `begins with "hello"`},
	"signalled":  {"", "8 WRITEs, 2 completions."},
	"rkey":       {analyse.RemoteAccess, "completion 3: Work Request Flushed Error"},
	"loss":       {analyse.LostRequest, "again: sequence NAK"},
	"ack":        {analyse.LostRequest, "may also be lost-ack"},
	"read":       {analyse.LostReadResponse, "again: gap in responses"},
	"atomic":     {analyse.LostRequest, "held 37 and holds 42 now"},
	"wrap":       {analyse.LostRequest, "WRITE MIDDLE 0,"},
	"congestion": {analyse.RateCut, "dropped 0"},
	"window":     {analyse.RemoteAccess, "completion 1: success"},
	"keys":       {analyse.RemoteAccess, "remote access error"},
}

func TestLessons(t *testing.T) {
	all, err := taught(t)
	require.NoError(t, err)
	require.Len(t, lessons(), len(shows))
	for i, l := range lessons() {
		require.Contains(t, all, l.title)
		want, ok := shows[l.name]
		require.True(t, ok, l.name)
		require.Equal(t, l.name, find(l.name).name)
		require.Equal(t, l.name, find(strconv.Itoa(i+1)).name)
		got, err := taught(t, "--answers", l.name)
		require.NoError(t, err, l.name)
		require.Contains(t, got, want.said, l.name)
		if want.kind == "" {
			require.Contains(t, got, "Nothing went wrong", l.name)
		} else {
			require.Contains(t, got, ": "+string(want.kind)+"\n", l.name)
		}
		require.NotEmpty(t, l.questions, l.name)
		for _, q := range l.questions {
			require.Contains(t, strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(q.ask), " "), l.name)
		}
		// The change that it proposes changes what is seen.
		other, err := taught(t, l.name, l.next)
		require.NoError(t, err, "%s %s", l.name, l.next)
		require.NotEqual(t, got, other, l.name)
		// All numbers can be at their bounds.
		for _, p := range l.params {
			for _, v := range []int{p.min, p.max} {
				_, err := taught(t, l.name, p.name+"="+strconv.Itoa(v))
				require.NoError(t, err, "%s %s=%d", l.name, p.name, v)
			}
		}
	}
}

// The same lesson is the same run, but for where memory is.
func TestRepeats(t *testing.T) {
	for _, name := range []string{"loss", "rnr", "congestion"} {
		a, err := taught(t, name)
		require.NoError(t, err)
		b, err := taught(t, name)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

// Without the fault there is none to find.
func TestWithoutTheFault(t *testing.T) {
	for _, args := range []string{"rnr late=0", "read lost=-1", "atomic lost=0", "wrap lost=0", "window over=0", "loss lost=63"} {
		got, err := taught(t, strings.Fields(args)...)
		require.NoError(t, err)
		require.Contains(t, got, "Nothing went wrong", args)
	}
}

func TestPage(t *testing.T) {
	got, err := taught(t, "--html", "loss")
	require.NoError(t, err)
	require.Contains(t, got, "<title>roce lesson loss explained</title>")
	require.Contains(t, got, "lost-request")
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{"nonsense", "loss x=1", "loss lost", "loss lost=-1", "loss lost=64", "loss lost=x"} {
		_, err := taught(t, strings.Fields(args)...)
		require.Error(t, err, args)
	}
}
