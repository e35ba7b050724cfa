package drill

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// play runs a script on the engine.
func playText(t *testing.T, text string, o Options) Result {
	t.Helper()
	d, err := Parse("test.drill", []byte(head+text))
	require.NoError(t, err)
	return Run(t.Context(), d, NewEngine(), o)
}

// TestDifferences: a drill that expects what does not come fails, there, and says so. Without this
// a drill could pass because nothing is compared.
func TestDifferences(t *testing.T) {
	const rc = "qp rc\nmr a 64\nrecv len=64\n"
	for _, x := range []struct{ steps, want string }{
		{"> SEND ONLY psn=0\n< ACK psn=1", "test.drill:7:1: psn is 0, and not 1"},
		{"> SEND ONLY psn=0\n< ACK psn=1|2|3", "test.drill:7:1: psn is 0, and not 1"},
		{"> SEND ONLY psn=0\n< ACK msn=7", "msn is 1, and not 7"},
		{"> SEND ONLY psn=0\n< ACK syndrome=0", "syndrome is 0x1f, and not 0x0"},
		{"> SEND ONLY psn=0\n< NAK sequence psn=0", "got ACK psn=0 msn=1"},
		{"> SEND ONLY psn=0\n< RNR psn=0", "got ACK psn=0"},
		{"> SEND ONLY psn=1\n< ACK psn=0", "got NAK sequence psn=0"},
		{"> SEND ONLY psn=1\n< NAK access psn=0", "got NAK sequence psn=0"},
		{"> READ REQUEST psn=0 dlen=8\n< READ RESPONSE ONLY len=9", "len is 8, and not 9"},
		{"> READ REQUEST psn=0 dlen=8\n< READ RESPONSE ONLY data=seed:1", "the payload is 0000000000000000..."},
		{"> READ REQUEST psn=0 dlen=8\n< READ RESPONSE LAST", "got READ RESPONSE ONLY"},
		{"> SEND ONLY psn=0\n< NOTHING for=1ms", "a packet came, and none should: ACK psn=0"},
		{"> SEND ONLY psn=0 noack\n< ACK psn=0", "nothing came within"},
		{"> SEND ONLY psn=0\n< ACK psn=0\n< ACK psn=0 within=5ms", "nothing came within 5ms"},
		{"> SEND ONLY psn=0\n< ACK after=1ms", "it came after 0s, and not after 1ms"},
		{"> SEND ONLY psn=0\ndone SUCCESS recv id=1", "id is 0x0, and not 0x1"},
		{"> SEND ONLY psn=0\ndone SUCCESS recv len=17", "len is 16, and not 17"},
		{"> SEND ONLY psn=0\ndone SUCCESS recv imm", "the flags are 0x0: not imm"},
		{"> SEND ONLY psn=0\ndone WR_FLUSH_ERR|LOC_LEN_ERR recv",
			"the status is SUCCESS, and not WR_FLUSH_ERR|LOC_LEN_ERR"},
		{"> SEND ONLY psn=0\ndone NOTHING recv for=1ms", "a completion came, and none should"},
		{"done SUCCESS recv", "no completion came"},
		{"mem a+8 len=8 data=seed:3", "byte 0 is 0x00, and not"},
		{"state RTR", "the queue pair is in RTS, and not in RTR"},
		{"modify RTR", "it is refused: "},
		{"modify ERR fails", "it is not refused"},
		{"post SEND len=8\n< SEND ONLY noack", "it asks for an ACK"},
		{"post SEND len=8\n< SEND ONLY qpn=1", "qpn is 0x"},
		{"post WRITE len=8\n< WRITE ONLY key=a", "key is 0xabcd01, and not"},
		{"post SEND len=8\n< SEND ONLY tos=3", "tos is 0x0, and not 0x3"},
	} {
		r := playText(t, rc+x.steps+"\n", Options{})
		require.Equal(t, Fail, r.Verdict, x.steps)
		require.Contains(t, r.Text, x.want, x.steps)
		require.Contains(t, r.Ladder, "╳", x.steps)
		require.False(t, r.OK())
	}
}

// TestProfiles: what fails as specified, and is as the target's profile has it, deviates, with its
// name.
func TestProfiles(t *testing.T) {
	const known = "deviates goroce row=3 It counts from one\nqp rc\nrecv len=64\n> SEND ONLY psn=0\n[!goroce] < ACK psn=0 msn=0\n[goroce] < ACK psn=0 msn=1\n"
	r := playText(t, known, Options{})
	require.Equal(t, Deviates, r.Verdict)
	require.Equal(t, "It counts from one", r.Text)
	require.Equal(t, 3, r.Deviations[0].Row)
	require.Contains(t, r.Ladder, "msn is 1, and not 0", "the ladder is that of the specification's run")
	require.Equal(t, Fail, playText(t, known, Options{Profile: Spec}).Verdict)
	require.Equal(t, Pass, playText(t, known, Options{Profile: Goroce}).Verdict)

	// Nobody has to believe a difference that has no name.
	r = playText(t, strings.TrimPrefix(known, "deviates goroce row=3 It counts from one\n"), Options{})
	require.Equal(t, Fail, r.Verdict)
	require.Contains(t, r.Text, `it needs a line "deviates goroce TEXT"`)
	// And a name is none that fits in no run.
	r = playText(t, strings.ReplaceAll(known, "msn=1", "msn=2"), Options{})
	require.Equal(t, Fail, r.Verdict)
	require.Equal(t, Spec, r.Profile)
	require.Contains(t, r.Text,
		"goroce is known for something else (It counts from one): test.drill:8:1: msn is 1, and not 2")
	require.Equal(t, "< ACK psn=0 msn=0", r.Expected)
	require.Equal(t, "msn is 1, and not 0", r.Came)
}

// as is the engine under the name of another implementation.
type as struct {
	Target
	profile Profile
}

func (a as) Profile() Profile { return a.profile }

// TestUnknown: a version that nobody has tried deviates as others of it do. What nobody of it does
// fails, and says in words who is known to do it.
func TestUnknown(t *testing.T) {
	require.True(t, Tried("rxe-6.12"))
	require.True(t, Tried(Spec))
	require.False(t, Tried("rxe-7.2"))
	require.Equal(t, []Profile{"rxe-6.1", "rxe-6.12"}, Versions(Rxe))
	const drill = head + "deviates rxe-6.1 It counts from one\nqp rc\nrecv len=64\n> SEND ONLY psn=0\n[!rxe-6.1] < ACK psn=0 msn=0\n[rxe-6.1] < ACK psn=0 msn=1\n"
	for name, c := range map[string]struct {
		own    Profile
		script string
		want   Verdict
		text   []string
	}{
		"as another version does": {"rxe-7.2", drill, Deviates,
			[]string{"as rxe-6.1 is known to: It counts from one (rxe-7.2 has not been tried before)"}},
		"as no version does": {"rxe-7.2", strings.ReplaceAll(drill, "msn=1", "msn=2"), Fail, []string{
			"test.drill:7:1: msn is 1, and not 0\nexpected as the specification has it: < ACK psn=0 msn=0\n",
			"rxe-7.2 has not been tried before (rxe-6.1, rxe-6.12 have)",
			"nobody is known to do this (the drill knows what rxe-6.1 does)"}},
		"one that is known, as another": {"rxe-6.12", drill, Fail,
			[]string{"rxe-6.1 is known to do this: It counts from one"}},
		"a stranger": {Spec, drill, Fail,
			[]string{"rxe-6.1 is known to do this: It counts from one"}},
		"nobody deviates": {"rxe-7.2",
			head + "qp rc\nrecv len=64\n> SEND ONLY psn=0\n< ACK psn=0 msn=0\n", Fail,
			[]string{"nobody is known to do this"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse("test.drill", []byte(c.script))
			require.NoError(t, err)
			r := Run(t.Context(), d, as{NewEngine(), c.own}, Options{})
			require.Equal(t, c.want, r.Verdict, r.Text)
			for _, s := range c.text {
				require.Contains(t, r.Text, s)
			}
			require.NotContains(t, r.Text, "deviates line")
			require.Contains(t, r.Ladder, "msn is 1, and not 0")
			require.Equal(t, "msn is 1, and not 0", r.Came)
		})
	}
}

// TestBroken: what a script asks of the target and does not get is no failure of the peer.
func TestBroken(t *testing.T) {
	for _, steps := range []string{
		"qp rc\npost SEND len=8 local=rx+262145",
		"qp rc mtu=1000",
		"qp rc timeout=99",
		"mr a 99999999999",
		"qp rc\nmr a 64\n> WRITE ONLY data=hex:00 len=2",
		"> CM RTU remote=$peerid",
	} {
		d, err := Parse("test.drill", []byte(head+steps+"\n"))
		if err != nil {
			require.Contains(t, err.Error(), "$peerid")
			continue
		}
		r := Run(t.Context(), d, NewEngine(), Options{})
		require.Equal(t, Broken, r.Verdict, "%s: %v", steps, r)
		require.False(t, r.OK())
	}
}

// TestLadder is what a user sees of a failure.
func TestLadder(t *testing.T) {
	r := playText(t, "qp rc\nmr a 64\n> WRITE ONLY psn=1 len=8 va=a+16\n< NAK sequence psn=0\n> WRITE ONLY psn=0 len=8\n< ACK psn=1\n", Options{})
	require.Equal(t, `test: t
expected as spec; lines of test.drill

  line         time  drill                                       peer
     5           0s  ├──▶ WRITE ONLY psn=1 ack va=a+16 key=a dlen=8 len=8
     6           0s  ◀──┤ NAK sequence psn=0 msn=0
     7           0s  ├──▶ WRITE ONLY psn=0 ack va=a+0 key=a dlen=8 len=8
                 0s  ◀──┤ ACK psn=0 msn=1
     8               ╳ psn is 0, and not 1
                       expected here: < ACK psn=1
`, r.Ladder)
}

// TestSame: two runs on the engine are the same, packet by packet and nanosecond by nanosecond.
func TestSame(t *testing.T) {
	d := byName("req_retry_count")
	a, b := Run(t.Context(), d, NewEngine(), Options{}), Run(t.Context(), d, NewEngine(), Options{})
	require.Equal(t, a.Took, b.Took)
	require.Len(t, a.Packets, len(b.Packets))
	for i := range a.Packets {
		require.Equal(t, a.Packets[i].At, b.Packets[i].At)
	}
}

// TestTable: every difference is named.
func TestTable(t *testing.T) {
	d, dd := byName("ack_send"), byName("opcode_reserved")
	table := NewTable([]*Drill{d, dd})
	table.AddTarget("one", "a target")
	table.AddTarget("two", "another")
	table.Add(Result{Drill: d, Target: "one", Verdict: Pass})
	table.Add(Result{Drill: dd, Target: "one", Verdict: Deviates, Deviations: []Deviation{{"rxe", 10, "drops | it"}}})
	table.Add(Result{Drill: d, Target: "two", Verdict: Fail, Text: "first\nsecond"})
	table.Add(Result{Drill: dd, Target: "two", Verdict: Skip})
	require.Equal(t, 1, table.Failed())
	var b strings.Builder
	require.NoError(t, table.WriteMarkdown(&b))
	for _, want := range []string{
		"- one: a target; 1 ok, 1 differ\n", "- two: another; 0 ok, 0 differ, 1 fail, 1 skip\n",
		" ok | **FAIL** |\n", " differs | - |\n",
		"| `opcode_reserved` | one | 10 | drops \\| it |\n", "| `ack_send` | two | | **fail**: first |\n",
	} {
		require.Contains(t, b.String(), want)
	}
}
