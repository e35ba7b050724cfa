package conform

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goroce/goroce/conformance/matrix"
)

// WriteFile makes a file of what write writes; "-" is standard output.
func WriteFile(path string, stdout io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
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
		text := &junitText{clean(first), clean(strings.TrimSpace(row.Detail + "\n" + row.Ladder))}
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
		all.Suites = append(all.Suites, junitSuite{Name: "run", Tests: 1, Errors: 1, Cases: []junitCase{
			{Name: "the run came to its end", Class: "conform.run", Error: why},
		}})
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
