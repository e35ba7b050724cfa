package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/matrix"
)

// evil is what a peer may call itself.
const evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)> {{.}} javascript:x https://evil.example @you `x` ```\n# head\n| cell | [a](b) *b* </pre></table> \x1b[2J\u202e\x00\xff"

// documentOf is a document all of whose texts that others have a say in are one text.
func documentOf(text string) *Document {
	row := func(r matrix.Result, group, op string) matrix.Row {
		return matrix.Row{Kernel: text, Group: group, Op: op, Role: "requester", Link: "udp", Result: r,
			Detail: text, Authority: "IBTA 9.7", Retried: text}
	}
	d := &Document{
		Format: documentFormat, Made: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Version: "v0.1.0",
		Peer: text, Profile: "rxe", Note: text, Link: "udp", Seed: 1, Cut: text,
		Here: Side{Name: "goroce", Addrs: []string{"192.0.2.1"}, MTU: 4096},
		There: Side{Name: text, Program: text, Device: text, Firmware: text, Kernel: text,
			Addrs: []string{text}, MTU: 1024, Lacks: []string{"FLUSH"}},
	}
	failed := row(matrix.Fail, "drills", "x")
	failed.Feature, failed.Title, failed.Expected, failed.Came, failed.Known, failed.Ladder, failed.Packets,
		failed.Fault = featLoss, text, text, text, text, text, text, text
	known := row(matrix.Pass, "drills", "y")
	known.Feature, known.Deviates = featKeys, text
	measured := row(matrix.Pass, "micro", "NAK latency")
	measured.Measured = map[string]float64{"nak_us": 12}
	d.Rows = []matrix.Row{
		failed, row(matrix.Fail, "faults", "rc SEND"), row(matrix.Fail, "faults", "rc SEND"), known, measured,
		row(matrix.Pass, "operations", "rc SEND"), row(matrix.Skip, "operations", "rc FLUSH"),
		row(matrix.Inconclusive, "operations", "uc SEND"),
	}
	d.count()
	return d
}

func page(t *testing.T, docs ...*Document) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, docs...))
	return b.String()
}

func marked(t *testing.T, docs ...*Document) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteMarkdown(&b, docs...))
	return b.String()
}

// read is a document that went through a file.
func read(t *testing.T, d *Document) *Document {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, d.WriteJSON(&b))
	out, err := ReadDocument(&b)
	require.NoError(t, err)
	return out
}

// What a peer says of itself is text in a report, and nothing else: the page and the Markdown have
// the same structure, whatever it says.
func TestHostileTexts(t *testing.T) {
	tame, wild := documentOf("rxe0\nsecond line"), read(t, documentOf(evil))
	tags := regexp.MustCompile(`<[^>]*>`)
	outside := func(text string) (lines []string) { // what begins a line outside of blocks of code
		fence := ""
		for l := range strings.Lines(text) {
			mark := regexp.MustCompile("^(`{3,}\n|#+ \\d*|- |\\|)").FindString(l)
			switch {
			case fence == "" && strings.HasPrefix(mark, "`"):
				fence = l
			case fence != "" && l == fence:
				fence = ""
			case fence == "":
				lines = append(lines, mark)
			}
		}
		require.Empty(t, fence)
		return lines
	}
	for _, n := range []int{1, 2} {
		docs := func(d *Document) []*Document { return []*Document{d, d}[:n] }
		require.Equal(t, tags.FindAllString(page(t, docs(tame)...), -1), tags.FindAllString(page(t, docs(wild)...), -1))
		text := marked(t, docs(wild)...)
		require.Equal(t, outside(marked(t, docs(tame)...)), outside(text))
		code := regexp.MustCompile("(?s)\n(`{3,})\n.*?\n`{3,}\n")
		text = code.ReplaceAllString(text, "\n")
		require.NotContains(t, text, "<")
		require.NotContains(t, text, "@")
		require.NotContains(t, text, "s://")
		for _, s := range []string{page(t, docs(wild)...), marked(t, docs(wild)...)} {
			require.NotContains(t, s, "\x1b")
			require.NotContains(t, s, "\u202e")
			require.NotContains(t, s, "\x00")
		}
	}
}

// A page asks nobody for anything.
func TestPageIsAlone(t *testing.T) {
	p := page(t, documentOf("rxe0"), documentOf("mlx5_0"))
	require.NotRegexp(t, `https?:|src=|url\(|@import|<script|<link|<form|<iframe`, p)
	require.Contains(t, p, `content="default-src 'none'; style-src 'unsafe-inline'"`)
	require.NotContains(t, p, "ZgotmplZ")
	for _, want := range []string{"rxe0", "mlx5_0", "path MTU up to 1024", "IBTA 9.7", "2 rows", "nak_us 12",
		"Packets got lost in 1 row of UC and UD", "✗ 3 of 3", "✗ fails 3 of 3", "✓ as specified, ≠ differs as known",
		"≠ differs as known in 1 of 1", "? inconclusive", "– not tested",
		"roce conform --agent HOST:PORT --profile rxe --only &#39;drills/x as requester&#39;"} {
		require.Contains(t, p, want)
	}
}

// A command to copy does one thing, whatever a file says.
func TestAgain(t *testing.T) {
	x := Difference{Profile: "spec; reboot", Row: matrix.Row{Group: "a'; reboot; '", Op: "b\nreboot", Role: "c"}}
	require.Equal(t,
		"roce conform --agent HOST:PORT --only 'a?; reboot; ?/b?reboot as c' --pcap-dir packets", x.Again())
	x.Row.Script = "my '; x.drill"
	require.Equal(t, "roce conform --agent HOST:PORT --drill 'my ?; x.drill' --pcap-dir packets", x.Again())
}

// A document is the same after it went through a file, and only a document is one.
func TestReadDocument(t *testing.T) {
	d := documentOf("rxe0")
	require.Equal(t, d, read(t, d))
	lies := documentOf("rxe0")
	lies.Passed, lies.Features = 1000, []Feature{{Name: "all", Verdict: AsSpecified}}
	require.Equal(t, d, read(t, lies), "what follows from the rows is counted anew")
	for text, want := range map[string]string{
		"":                        "no JSON file of roce conform",
		"[]":                      "no JSON file of roce conform",
		`{"rows":[{}]}`:           "the format is 0, and this program reads 1",
		`{"format":1}`:            "it has no rows",
		`{"format":1,"rows":[3]}`: "no JSON file of roce conform",
	} {
		_, err := ReadDocument(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzReport: any file is refused, or makes a report whose texts end no tag and no block.
func FuzzReport(f *testing.F) {
	for _, text := range []string{"rxe0", evil} {
		b, err := json.Marshal(documentOf(text))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte(`{"format":1,"rows":[{"result":"fail","group":"drills","detail":"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDocument(bytes.NewReader(b))
		if err != nil {
			return
		}
		p := page(t, d)
		require.Equal(t, 1, strings.Count(p, "</html>"))
		require.NotContains(t, p, "<script")
		require.NotEmpty(t, marked(t, d))
		require.NoError(t, d.WriteFeatures(io.Discard))
	})
}

// Rows that say the same are one difference, failures come first, and a report has an end.
func TestDifferences(t *testing.T) {
	var d Document
	for i := range 3 * mostDifferences {
		known := matrix.Row{Group: "drills", Op: fmt.Sprint("k", i), Result: matrix.Pass, Deviates: "sends none"}
		bad := matrix.Row{Group: "operations", Op: fmt.Sprint("rc op", i/2), Size: i, Result: matrix.Fail,
			Detail: fmt.Sprintf("byte %d of 9 is wrong (0x%x)\n%s", i, i, strings.Repeat("x", 3*mostText))}
		d.Rows = append(d.Rows, known, bad)
	}
	d.count()
	all := d.Differences()
	require.Len(t, all, 3*mostDifferences/2+3*mostDifferences)
	require.Len(t, all[0].Rows, 2)
	require.False(t, all[0].Known)
	require.True(t, all[len(all)-1].Known)
	list, more := d.shown(true)
	require.Len(t, list, mostDifferences)
	require.Equal(t, 2*mostDifferences, more)
	require.Less(t, len(page(t, &d)), 4*mostDifferences*mostText)
	require.Contains(t, page(t, &d), "50 differences more are in the JSON file")
	require.Contains(t, marked(t, &d), "50 differences more are in the JSON file")

	d.Rows = nil
	for i := range mostLabels + 7 {
		d.Rows = append(d.Rows,
			matrix.Row{Group: "operations", Op: "rc SEND", Size: i, Result: matrix.Fail, Detail: "no"})
	}
	labels := d.Differences()[0].Labels()
	require.Len(t, labels, mostLabels+1)
	require.Equal(t, "and 7 more", labels[mostLabels])
}

// Each row of a run belongs to a feature, but for those about the checks.
func TestFeatures(t *testing.T) {
	rows, err := List(Options{})
	require.NoError(t, err)
	seen := map[string]int{}
	for _, row := range rows {
		f := featureOf(row)
		require.True(t, f != "" == (row.Group != "canaries"), row.Label())
		if f != "" {
			require.Contains(t, features, f)
		}
		seen[f]++
	}
	require.Zero(t, seen[featOther], "a tag belongs to no feature")
	for _, f := range features {
		if f != featOther {
			require.NotZero(t, seen[f], f)
		}
	}
}
