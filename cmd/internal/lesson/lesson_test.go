package lesson

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/internal/seeds"
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
	"connect":    {analyse.LostRequest, "B has thrown away 1 packets"},
	"cm":         {"", "CM REP"},
	"memory":     {analyse.RemoteAccess, "The WRITE ends with: success"},
	"write":      {"", `begins with "hello"`},
	"rkey":       {analyse.RemoteAccess, "completion 3: Work Request Flushed Error"},
	"keys":       {analyse.RemoteAccess, "remote access error"},
	"window":     {analyse.RemoteAccess, "completion 1: success"},
	"rnr":        {analyse.RNR, "completion: success"},
	"signalled":  {"", "8 WRITEs, 2 completions."},
	"credits":    {analyse.CreditsExhausted, "A sent 2 packets twice"},
	"mtu":        {analyse.PMTUBlackhole, "transport retry counter exceeded"},
	"ud":         {"", "1040 bytes of 1040 that"},
	"visible":    {"", "B sees 1024 of 6144 bytes; the last byte is not there"},
	"order":      {analyse.LostRequest, "B has the message, and 6144 of 6144 bytes"},
	"fence":      {"", `other place: "old data"`},
	"loss":       {analyse.LostRequest, "again: sequence NAK"},
	"overtaken":  {analyse.Reordered, "A has sent 9 packets again, and B counted 4 duplicates"},
	"selective":  {analyse.LostRequest, "For WRITE 2 A has sent 1 packets again"},
	"rate":       {analyse.LostRequest, "% of the rate are left"},
	"ack":        {analyse.LostRequest, "may also be lost-ack"},
	"read":       {analyse.LostReadResponse, "again: gap in responses"},
	"atomic":     {analyse.LostRequest, "held 37 and holds 42 now"},
	"wrap":       {analyse.LostRequest, "WRITE MIDDLE 0,"},
	"gone":       {analyse.RetryExceeded, "transport retry counter exceeded"},
	"ring":       {"", "B has had 10 of 10 records"},
	"lock":       {"", "The counter is 4."},
	"congestion": {analyse.RateCut, "dropped 0"},
	"delay":      {"", "It dropped 0 packets"},
}

func TestLessons(t *testing.T) {
	all, err := taught(t)
	require.NoError(t, err)
	require.Len(t, lessons(), len(shows))
	known := map[string]bool{}
	for i, l := range lessons() {
		require.Contains(t, all, l.title)
		want, ok := shows[l.name]
		require.True(t, ok, l.name)
		require.Equal(t, l.name, find(l.name).name)
		require.Equal(t, l.name, find(strconv.Itoa(i+1)).name)
		for _, before := range l.after {
			require.True(t, known[before], "%s builds on %s, which comes later", l.name, before)
		}
		require.True(t, i == 0 || len(l.after) > 0, "%s builds on nothing", l.name)
		known[l.name] = true
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
			require.Contains(t, strings.Join(strings.Fields(got), " "),
				strings.Join(strings.Fields(q.ask), " "), l.name)
		}
	}
}

// seen is what the reader sees of a run: all that is printed but the numbers of the run.
func seen(t *testing.T, l *lesson, args ...string) (string, error) {
	got, err := taught(t, append([]string{"--answers", l.name}, args...)...)
	_, got, _ = strings.Cut(got, "\nHost A is")
	return got, err
}

// A number changes what is seen, or is refused with the reason: no value does nothing in silence.
// What the lesson proposes is not refused.
func TestNumbersCount(t *testing.T) {
	seeds.Long(t)
	for _, l := range lessons() {
		usual, err := seen(t, &l)
		require.NoError(t, err, l.name)
		require.NotEmpty(t, l.tries, l.name)
		for _, try := range l.tries {
			got, err := seen(t, &l, strings.Fields(try)...)
			require.NoError(t, err, "%s %s", l.name, try)
			require.NotEqual(t, usual, got, "%s %s", l.name, try)
		}
		for _, p := range l.params {
			for _, v := range []int{p.min, p.def - 1, p.def + 1, p.max} {
				if v == p.def {
					continue
				}
				got, err := seen(t, &l, p.name+"="+strconv.Itoa(v))
				if err != nil {
					var refused *ValueError
					require.ErrorAs(t, err, &refused, "%s %s=%d", l.name, p.name, v)
					require.Equal(t, l.name, refused.Lesson)
					continue
				}
				if usual == got {
					t.Errorf("%s %s=%d changes nothing", l.name, p.name, v)
				}
			}
		}
	}
}

// What is planned to be lost is lost, or the lesson says that there is no such thing.
func TestNothingToLose(t *testing.T) {
	for _, args := range []string{"loss packets=4 lost=9", "loss packets=1", "visible lost=6",
		"order lost=31", "selective lost=7", "read bytes=1024 lost=1",
		"wrap psn=5", "cm lost=3 listen=0"} {
		_, err := taught(t, strings.Fields(args)...)
		var refused *ValueError
		require.ErrorAs(t, err, &refused, args)
		require.Regexp(t, "nothing would be lost|no packet 0 to lose|packets 0 to 6", err.Error(), args)
	}
	// A lesson that plans what does not happen is found out by the run itself.
	l := *find("loss")
	l.play = func(r *run) error { r.lose(0, 77); return r.do(r.s.Write(0, 64)) }
	v, err := l.values(nil)
	require.NoError(t, err)
	_, err = l.perform(v)
	require.ErrorContains(t, err, "nothing was lost: host A sent no such packet")
}

// Selective repeat repeats what was lost, and going back much more: the same losses, and a transfer
// that takes longer.
func TestWhatIsLeft(t *testing.T) {
	l := find("rate")
	var took, again [2]int
	for repeat := range took {
		r, err := l.perform(values{"repeat": repeat, "lost": 20, "delay": 20, "seed": 3})
		require.NoError(t, err)
		took[repeat], again[repeat] = int(r.tookNs), r.again()-r.before
	}
	require.Less(t, 3*took[1], 2*took[0])
	require.Less(t, 10*again[1], again[0])
	require.Less(t, again[1], 16)
}

// Control prevents the drops: the same WRITE over the same bottleneck, and its packets are others.
func TestCongestionControl(t *testing.T) {
	var runs [2]*run
	for control := range runs {
		l := find("congestion")
		v, err := l.values([]string{fmt.Sprintf("control=%d", control)})
		require.NoError(t, err)
		runs[control], err = l.perform(v)
		require.NoError(t, err)
	}
	without, with := runs[0], runs[1]
	require.Greater(t, without.s.Net.Stats().Overflowed, uint64(100))
	require.Zero(t, with.s.Net.Stats().Overflowed)
	require.Greater(t, without.again(), 100)
	require.Zero(t, with.again())
	require.Less(t, with.tookNs, without.tookNs)
	const queue, rate, lost = 0, 1, 2
	a, b := must(without.curves(80)), must(with.curves(80))
	require.Less(t, slices.Max(b[queue].values), slices.Max(a[queue].values)/2)
	require.EqualValues(t, lineGbps, slices.Min(a[rate].values))
	require.Less(t, slices.Min(b[rate].values), 20., "the bottleneck is 20 Gb/s")
	require.NotZero(t, slices.Max(a[lost].values))
	require.Zero(t, slices.Max(b[lost].values))
	require.NotEqual(t, without.s.Capture(0), with.s.Capture(0))
}

// The queues beside the ladder are the engine's: a request is in the send queue until its ACK, a
// receive until its message.
func TestQueues(t *testing.T) {
	got, err := taught(t, "rnr")
	require.NoError(t, err)
	var columns []string
	for _, line := range strings.Split(got, "\n") {
		if f := strings.Fields(line); strings.Contains(line, " A <-") || strings.Contains(line, " A --") {
			columns = append(columns, strings.Join(append(f[3:6], f[len(f)-3:]...), ""))
		} else if strings.Contains(line, "at the end") {
			columns = append(columns, strings.Join(f[3:], ""))
		}
	}
	require.Equal(t, "100000", columns[0], "A has a SEND, B nothing")
	require.Equal(t, "100000", columns[1], "the RNR NAK changes nothing")
	require.Equal(t, "001001", columns[len(columns)-1], "a completion each")
	require.Equal(t, "100010", columns[len(columns)-3], "sent again when B has its receive")
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
	for _, args := range []string{"rnr late=0", "read lost=-1", "atomic lost=0", "wrap lost=0", "window over=0",
		"order lost=-1", "mtu path=5", "credits recvs=6", "connect late=0", "memory access=3"} {
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

// Every abbreviation in a lesson is a word of the glossary, every word is used, and shown in a
// lesson.
func TestGlossary(t *testing.T) {
	abbreviation := regexp.MustCompile(`\b[A-Z][A-Z_]+[A-Za-z_]*\b`)
	known := []string{"TCP", "UDP", "IP", "ID", "KB"} // who knows sockets knows these
	used := map[string]bool{}
	for _, l := range lessons() {
		all := l.texts()
		for _, q := range l.questions {
			r, err := l.perform(must(l.values(nil)))
			require.NoError(t, err)
			all = append(all, q.answer(r))
		}
		for _, text := range all {
			for _, term := range terms.FindAllString(text, -1) {
				used[findWord(term).name] = true
			}
			for _, a := range abbreviation.FindAllString(text, -1) {
				if findWord(a) == nil && !slices.Contains(known, a) && !strings.HasPrefix(a, "IBV_") {
					t.Errorf("lesson %s has %q, which is not in the glossary", l.name, a)
				}
			}
		}
	}
	for i, w := range words {
		if !used[w.name] {
			t.Errorf("no lesson has the word %q", w.name)
		}
		require.NotNil(t, find(w.lesson), w.name)
		if i > 0 && strings.ToLower(words[i-1].name) >= strings.ToLower(w.name) {
			t.Errorf("%q comes after %q", words[i-1].name, w.name)
		}
	}
	got, err := taught(t, "words", "queue", "pair")
	require.NoError(t, err)
	require.Contains(t, got, "One end of a connection")
	_, err = taught(t, "words", "nonsense")
	require.Error(t, err)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
