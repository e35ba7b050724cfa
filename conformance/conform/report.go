package conform

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/internal/report"
)

// What a report shows of a run at most: more differences than this are counted, and so are more
// rows of one, and longer texts are cut.
const (
	mostDifferences = 100
	mostLabels      = 40
	mostText        = 8 << 10
)

// WriteJSON writes the document itself.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// WriteFeatures writes a line for each feature, as text.
func (d *Document) WriteFeatures(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "FEATURES")
	for _, f := range d.Features {
		fmt.Fprintf(tw, "  %s\t%s\n", f.Name, f)
	}
	return tw.Flush()
}

// Summary says in a sentence how a run ended.
func (d *Document) Summary() string {
	n := map[Verdict]int{}
	for _, f := range d.Features {
		n[f.Verdict]++
	}
	s := fmt.Sprintf("%s: %d as specified", report.NumberOf(len(d.Features), "feature"), n[AsSpecified])
	for _, v := range []Verdict{Differs, Fails, Unclear, NotTested} {
		if n[v] > 0 {
			s += fmt.Sprintf(", %d %s", n[v], map[Verdict]string{Differs: "with known differences",
				Fails: "with failures", Unclear: "inconclusive", NotTested: "not tested"}[v])
		}
	}
	return s + fmt.Sprintf(". %s: %d passed, %d failed, %d skipped, %d inconclusive.",
		report.NumberOf(len(d.Rows), "check"), d.Passed, d.Failed, d.Skipped, d.Unclear)
}

// Fact is a line of what was tested.
type Fact struct{ Name, Text string }

// Facts say what was tested, against what, and how.
func (d *Document) Facts() (list []Fact) {
	add := func(name string, text ...string) {
		text = slices.DeleteFunc(text, func(s string) bool { return s == "" })
		if len(text) > 0 {
			list = append(list, Fact{name, strings.Join(text, ", ")})
		}
	}
	named := func(name, value string) string {
		if value == "" {
			return ""
		}
		return name + " " + value
	}
	side := func(s Side) []string {
		mtu := ""
		if s.MTU > 0 {
			mtu = fmt.Sprintf("path MTU up to %d", s.MTU)
		}
		return []string{named("device", s.Device), named("firmware", s.Firmware), named("kernel", s.Kernel),
			named("at", strings.Join(s.Addrs, " and ")), mtu, named("agent", s.Program),
			named("without", strings.Join(s.Lacks, " and "))}
	}
	add("Peer", append([]string{d.Peer}, side(d.There)...)...)
	add("Against", append([]string{d.Here.Name}, append(side(d.Here), "link "+d.Link)...)...)
	add("Made by", "roce conform, goroce "+d.Version, d.Made.Format("2006-01-02 15:04 UTC"),
		fmt.Sprintf("%.0f s", d.Seconds))
	only, how := "everything", ""
	if len(d.Only) > 0 {
		only = "only " + strings.Join(d.Only, ", ")
	}
	if d.Quick {
		how = "a subset (--quick)"
	}
	add("Run", only, how, fmt.Sprintf("seed %d", d.Seed))
	add("Expected", "profile "+d.Profile, d.Note)
	add("Cut short", d.Cut)
	add("Warning", d.Warning())
	return list
}

// Again is the command that shows a difference again. Somebody may copy it: nothing that a file
// says gets out of its quotes.
func (x *Difference) Again() string {
	profile := ""
	if p, err := peer.ParseProfile(x.Profile); err == nil {
		profile = " --profile " + string(p)
	}
	if x.Row.Script != "" {
		return fmt.Sprintf("roce conform --agent HOST:PORT%s --drill '%s' --pcap-dir packets", profile,
			quoted(x.Row.Script))
	}
	return fmt.Sprintf("roce conform --agent HOST:PORT%s --only '%s' --pcap-dir packets", profile,
		quoted(x.Row.Group+"/"+x.Row.Op+" as "+x.Row.Role))
}

// quoted is text for between single quotes.
func quoted(s string) string { return strings.NewReplacer("'", "?", "\n", "?").Replace(s) }

// Brief is the difference in a line, where Heading has another one.
func (x *Difference) Brief() string {
	if x.Row.Title != "" {
		return x.What
	}
	return ""
}

// Heading says what it is about in a line.
func (x *Difference) Heading() string {
	if x.Row.Title != "" {
		return x.Feature + ": " + x.Row.Title
	}
	if x.Row.Group == "errors" { // whose names say what was tried
		return x.Feature + ": " + strings.ReplaceAll(x.Row.Op, "_", " ") + ": " + x.What
	}
	return x.Feature + ": " + x.What
}

// File is the name of the file with its packets.
func (x *Difference) File() string {
	if x.Row.Packets == "" {
		return ""
	}
	return filepath.Base(x.Row.Packets)
}

// Labels are the rows that a report names.
func (x *Difference) Labels() []string {
	if n := len(x.Rows); n > mostLabels {
		return append(slices.Clone(x.Rows[:mostLabels]), fmt.Sprintf("and %d more", n-mostLabels))
	}
	return x.Rows
}

// Text is what else is known of it, and Ladder its packets, both no longer than a report has room
// for.
func (x *Difference) Text() string   { return cut(x.More) }
func (x *Difference) Ladder() string { return cut(x.Row.Ladder) }

func cut(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.ToValidUTF8(s[:mostText], "") +
		fmt.Sprintf("\n(and %d bytes more, which the JSON file has)", len(s)-mostText)
}

// shown are the differences of a report, those that are failures or those that are known, and how
// many there are more.
func (d *Document) shown(known bool) (list []*Difference, more int) {
	all := slices.DeleteFunc(d.Differences(), func(x *Difference) bool { return x.Known != known })
	if len(all) > mostDifferences {
		return all[:mostDifferences], len(all) - mostDifferences
	}
	return all, 0
}

// Counted is a reason, and how many rows have it.
type Counted struct {
	Text string
	N    int
}

// reasons counts the first lines of rows with a result.
func (d *Document) reasons(result matrix.Result) (list []Counted) {
	n := map[string]int{}
	for _, row := range d.Rows {
		if row.Result == result {
			first, _, _ := strings.Cut(row.Detail, "\n")
			n[row.Group+": "+first]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(n)) {
		list = append(list, Counted{cut(text), n[text]})
	}
	slices.SortStableFunc(list, func(a, b Counted) int { return cmp.Compare(b.N, a.N) })
	return list[:min(len(list), mostDifferences)]
}

// Measured is what rows have found in numbers.
func (d *Document) measured() (list []Fact) {
	for _, row := range d.Rows {
		if len(row.Measured) > 0 {
			list = append(list, Fact{row.Op + ", goroce as " + row.Role, row.Numbers()})
		}
	}
	return list[:min(len(list), mostDifferences)]
}

// run is a document as the page shows it.
type run struct {
	*Document
	ID                   string
	Failures, Known      []*Difference
	MoreFails, MoreKnown int
	Skips, Unclears      []Counted
	Numbers              []Fact
}

// Cell is the verdict of a run in a column of the page with several.
func (r run) Cell(name string) Feature {
	if i := slices.IndexFunc(r.Features, func(f Feature) bool { return f.Name == name }); i >= 0 {
		return r.Features[i]
	}
	return Feature{Name: name, Verdict: NotTested}
}

// Class is the verdict as a name of CSS, and Mark a sign that needs no colour.
func (v Verdict) Class() string { return strings.Fields(string(v))[0] }
func (v Verdict) Mark() string {
	return map[Verdict]string{Fails: "✗", Differs: "≠", Unclear: "?", NotTested: "–", AsSpecified: "✓"}[v]
}

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// WriteHTML writes a page that needs nothing else: of one run, or with a table of several.
func WriteHTML(w io.Writer, docs ...*Document) error {
	page := struct {
		Title, Legend string
		Columns       []string
		Runs          []run
	}{Title: "RoCE v2 conformance", Legend: legend}
	names := map[string]bool{}
	for i, d := range docs {
		r := run{Document: d, ID: fmt.Sprintf("run%d", i+1), Skips: d.reasons(matrix.Skip),
			Unclears: d.reasons(matrix.Inconclusive), Numbers: d.measured()}
		r.Failures, r.MoreFails = d.shown(false)
		r.Known, r.MoreKnown = d.shown(true)
		page.Runs = append(page.Runs, r)
		for _, f := range d.Features {
			names[f.Name] = true
		}
	}
	if len(docs) == 1 {
		page.Title += " of " + docs[0].Peer
	}
	for _, name := range features {
		if names[name] {
			page.Columns = append(page.Columns, name)
		}
	}
	return reportPage.Execute(w, page)
}

// WriteMarkdown writes the same as text with marks. Code of rows stands in blocks, which nothing in
// them ends.
func WriteMarkdown(w io.Writer, docs ...*Document) error {
	var b strings.Builder
	if len(docs) > 1 {
		b.WriteString("# RoCE v2 conformance\n\n")
		writeMatrix(&b, docs)
	}
	for _, d := range docs {
		d.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMatrix writes a table of runs and features.
func writeMatrix(b *strings.Builder, docs []*Document) {
	var columns []string
	for _, name := range features {
		if slices.ContainsFunc(docs,
			func(d *Document) bool { return run{Document: d}.Cell(name).Verdict != NotTested }) {
			columns = append(columns, name)
		}
	}
	t := report.Begin(b, append([]string{"peer"}, columns...)...)
	for _, d := range docs {
		brief := func(name string) string { return run{Document: d}.Cell(name).Brief() }
		t.Row(report.Cells(columns, brief, fmt.Sprintf("%s (%s)", md(d.Peer), md(d.Link)))...)
	}
	fmt.Fprintf(b, "\n%s\n\n", legend)
}

// legend says what the signs are.
var legend = func() string {
	var list []string
	for _, v := range []Verdict{AsSpecified, Differs, Fails, Unclear, NotTested} {
		list = append(list, v.Mark()+" "+string(v))
	}
	return strings.Join(list, ", ") + ". The number is of checks."
}()

func (d *Document) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "# goroce and %s\n\n%s\n\n", md(d.Peer), md(d.Summary()))
	if d.Cut != "" {
		fmt.Fprintf(b, "**The run was cut short: %s.**\n\n", md(d.Cut))
	}
	t := report.Begin(b, "", "")
	for _, f := range d.Facts() {
		t.Row(f.Name, md(f.Text))
	}
	b.WriteString("\n")
	t = report.Begin(b, "feature", "verdict")
	for _, f := range d.Features {
		t.Row(md(f.Name), fmt.Sprintf("%s %s", f.Verdict.Mark(), f))
	}
	for _, part := range []struct {
		title string
		known bool
	}{{"What differs", false}, {"Known differences", true}} {
		list, more := d.shown(part.known)
		if len(list) > 0 {
			fmt.Fprintf(b, "\n## %s\n", part.title)
		}
		for i, x := range list {
			fmt.Fprintf(b, "\n### %d. %s\n\n", i+1, md(x.Heading()))
			fmt.Fprintf(b, "- check: %s, `%s` (%s)\n- authority: %s\n", md(x.Row.Group+" "+x.Row.Op+" as "+x.Row.Role),
				strings.ReplaceAll(x.Again(), "`", "'"), report.NumberOf(len(x.Rows), "row"), md(x.Row.Authority))
			for _, f := range []Fact{{"difference", x.Brief()}, {"expected", x.Row.Expected},
				{"came", x.Row.Came}, {"known", x.Row.Known}, {"packets", x.File()}} {
				if f.Text != "" {
					fmt.Fprintf(b, "- %s: %s\n", f.Name, md(f.Text))
				}
			}
			for _, text := range []string{x.Text(), x.Ladder()} {
				if text != "" {
					fmt.Fprintf(b, "\n%s\n", block(text))
				}
			}
		}
		if more > 0 {
			fmt.Fprintf(b, "\n%d differences more are in the JSON file.\n", more)
		}
	}
	for _, part := range []struct {
		title string
		list  []Counted
	}{{"Inconclusive", d.reasons(matrix.Inconclusive)}, {"Skipped", d.reasons(matrix.Skip)}} {
		if len(part.list) > 0 {
			fmt.Fprintf(b, "\n## %s\n\n", part.title)
		}
		for _, c := range part.list {
			fmt.Fprintf(b, "- %s (%d)\n", md(c.Text), c.N)
		}
	}
	if list := d.measured(); len(list) > 0 {
		b.WriteString("\n## Measured\n\n")
		for _, f := range list {
			fmt.Fprintf(b, "- %s: %s\n", md(f.Name), md(f.Text))
		}
	}
	b.WriteString("\n")
}

// block is text as a block of code, whose fence is longer than any in it.
func block(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}

// md is text with nothing in it that Markdown, or a site that shows it, takes for more than text.
func md(s string) string {
	return marks.Replace(strings.Join(strings.Fields(s), " "))
}

var marks = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">",
	"&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`, "@", "&#64;", "://", `\://`, "www.", `www\.`)
