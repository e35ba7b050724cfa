package conform

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goroce/goroce/conformance/matrix"
)

// WriteFile makes a file of what write writes; "-" is standard output.
func WriteFile(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(os.Stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// document is what WriteJSON writes.
type document struct {
	Peer    string       `json:"peer"`
	Profile string       `json:"profile"`
	Link    string       `json:"link"`
	Seconds float64      `json:"seconds"`
	Cut     string       `json:"cut_short,omitempty"`
	Passed  int          `json:"passed"`
	Failed  int          `json:"failed"`
	Skipped int          `json:"skipped"`
	Unclear int          `json:"inconclusive"`
	Rows    []matrix.Row `json:"rows"`
}

// WriteJSON writes all rows and what they come to.
func (r *Result) WriteJSON(w io.Writer) error {
	d := document{
		Peer: r.Peer, Profile: string(r.Profile), Link: r.Link, Seconds: r.Took.Seconds(),
		Passed: r.Report.Count(matrix.Pass), Failed: r.Report.Count(matrix.Fail), Skipped: r.Report.Count(matrix.Skip), Unclear: r.Report.Count(matrix.Inconclusive), Rows: r.Report.Rows(),
	}
	if r.Cut != nil {
		d.Cut = r.Cut.Error()
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// WriteMarkdown writes the table as a page.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# goroce and %s\n\nMade by `roce conform`, on the link %s, with the profile %s, in %.0f s. The role is goroce's; numbers count\n", r.Peer, r.Link, r.Profile, r.Took.Seconds())
	fmt.Fprint(&b, "the variants (sizes, path MTUs, address families, packets hit) of a line.\n")
	if r.Cut != nil {
		fmt.Fprintf(&b, "\n**The run was cut short: %v.**\n", r.Cut)
	}
	fmt.Fprint(&b, "\n```")
	r.Report.WriteTable(&b)
	fmt.Fprint(&b, "```\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// The elements of a JUnit report, as far as the common readers of it agree.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Failure *junitText `xml:"failure"`
		Error   *junitText `xml:"error"`
		Skipped *junitText `xml:"skipped"`
		Out     string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes a test suite for each group. A run that was cut short has one error more.
func (r *Result) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: "roce conform: " + clean(r.Peer), Time: fmt.Sprintf("%.3f", r.Took.Seconds())}
	at := map[string]int{}
	for _, row := range r.Report.Rows() {
		i, ok := at[row.Group]
		if !ok {
			i = len(all.Suites)
			at[row.Group] = i
			all.Suites = append(all.Suites, junitSuite{Name: row.Group})
		}
		s := &all.Suites[i]
		c := junitCase{Name: clean(row.Label()), Class: "conform." + row.Group, Out: clean(row.Authority)}
		first, _, _ := strings.Cut(row.Detail, "\n")
		text := &junitText{clean(first), clean(row.Detail)}
		s.Tests++
		switch row.Result {
		case matrix.Fail:
			c.Failure = text
			s.Failures++
		case matrix.Inconclusive: // JUnit has no word for it
			text.Message = "inconclusive: " + text.Message
			c.Skipped = text
			s.Skipped++
		case matrix.Skip:
			text.Text = ""
			c.Skipped = text
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	if r.Cut != nil {
		why := &junitText{Message: clean(r.Cut.Error())}
		all.Suites = append(all.Suites, junitSuite{Name: "run", Tests: 1, Errors: 1, Cases: []junitCase{{Name: "the run came to its end", Class: "conform.run", Error: why}}})
	}
	for _, s := range all.Suites {
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// clean is text without the characters that XML does not have.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r >= 0x20 && r != 0xfffe && r != 0xffff {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}
