package explain

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/roce/analyse"
)

// The page: its frame, its looks, and what it does.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
	//go:embed ladder.js
	ladderJS string
	//go:embed charts.js
	chartsJS string
)

// What a page holds at most beside its packets: a browser that lays out more of them is slow, and
// nobody reads them.
const (
	pageFindings    = 2000
	pageConnections = 2000
)

// pageData is what the page's script reads, but for the rows.
type pageData struct {
	File            string                `json:"file"`
	Packets         int                   `json:"packets"`
	DurationNs      int64                 `json:"duration_ns"`
	StartS          int64                 `json:"start_s"`  // since 1970, of the first packet
	StartNs         int64                 `json:"start_ns"` // and what is over
	Damage          string                `json:"damage,omitempty"`
	Files           []pageFile            `json:"files,omitempty"` // if there are two
	Clock           string                `json:"clock,omitempty"` // and how their clocks differ
	Connections     []*analyse.Connection `json:"connections"`
	Findings        []pageFinding         `json:"findings"`
	MoreConnections int                   `json:"more_connections,omitempty"`
	MoreFindings    int                   `json:"more_findings,omitempty"`
	Opcodes         map[int]string        `json:"opcodes"`
	Syndromes       map[int]string        `json:"syndromes"`
	Causes          []string              `json:"causes"`

	rows    []row
	startNs int64 // of the first packet; times of rows are from here on
}

// pageFinding is a finding as the page shows it.
type pageFinding struct {
	*analyse.Finding
	Weight int    `json:"weight"`         // see weigh
	In     int    `json:"in,omitempty"`   // which of two files its frames are of, from 0
	Both   string `json:"both,omitempty"` // what the other file says about it
}

// weigh says how much a finding matters: 0 if the application saw an error, 2 if nothing was lost
// by it.
func weigh(f *analyse.Finding) int {
	switch f.Kind {
	case analyse.CEMarked, analyse.RateCut, analyse.DuplicateRequest, analyse.DuplicateAck, analyse.CMSlow:
		return 2
	}
	if f.Status != "" {
		return 0
	}
	return 1
}

// weighed are findings in the order of the page: what matters most first, then by time.
func weighed(all []*analyse.Finding) []*analyse.Finding {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *analyse.Finding) int { return cmp.Compare(weigh(a), weigh(b)) })
	return all
}

// baseName is the name of a file without the way to it, which does not concern readers of the page.
func baseName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return filepath.Base(name)
}

// page is what is to be drawn of a capture.
func (e *explanation) page(drawn *window) *pageData {
	d := &pageData{
		File: baseName(e.Name), Packets: e.Packets, DurationNs: e.DurationNs, Damage: e.Damage,
		Connections: e.Connections, MoreConnections: e.MoreConnections, MoreFindings: e.MoreFindings,
		StartS: e.StartNs / 1e9, StartNs: e.StartNs % 1e9, rows: slices.Collect(drawn.all()), startNs: e.StartNs,
	}
	for i := range d.rows {
		d.rows[i].settle(e.Report)
	}
	d.rows = tell(d.rows, e.Findings)
	for _, f := range weighed(e.Findings) {
		d.Findings = append(d.Findings, pageFinding{Finding: f, Weight: weigh(f)})
	}
	return d
}

// bound leaves out what is too much for a page, and counts it.
func (d *pageData) bound() {
	if n := len(d.Findings) - pageFindings; n > 0 {
		d.Findings, d.MoreFindings = d.Findings[:pageFindings], d.MoreFindings+n
	}
	if n := len(d.Connections) - pageConnections; n > 0 {
		matters := map[int]bool{} // those of findings
		for _, f := range d.Findings {
			matters[f.Connection] = true
		}
		kept := slices.Clone(d.Connections)
		slices.SortStableFunc(kept, func(a, b *analyse.Connection) int {
			if x, y := matters[a.Number], matters[b.Number]; x != y {
				return map[bool]int{true: -1, false: 1}[x]
			}
			return b.Packets - a.Packets
		})
		kept = kept[:pageConnections]
		slices.SortFunc(kept, func(a, b *analyse.Connection) int { return a.Number - b.Number })
		d.Connections, d.MoreConnections = kept, d.MoreConnections+n
	}
}

// write writes the page. The rows are written one by one: all of them as one text would be several
// times what they are in memory.
func (d *pageData) write(w io.Writer) error {
	d.bound()
	d.Opcodes, d.Syndromes = map[int]string{}, map[int]string{}
	for i := range d.rows {
		r := &d.rows[i]
		if r.frame != 0 || r.frame2 != 0 {
			d.Opcodes[int(r.opcode)] = r.opcode.String()
		}
		if r.answers {
			d.Syndromes[int(r.syndrome)] = r.syndrome.String()
		}
	}
	for c := analyse.CauseNone; c <= analyse.CauseUnknown; c++ {
		d.Causes = append(d.Causes, c.String())
	}
	data, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return err
	}
	script := "\"use strict\";\n(() => {\n" + ladderJS + chartsJS + pageJS + "})();\n"
	sum := sha256.Sum256([]byte(script))
	before, after, _ := strings.Cut(pageHTML, "{{DATA}}")
	before = strings.NewReplacer("{{TITLE}}", html.EscapeString(d.File), "{{SCRIPTHASH}}",
		base64.StdEncoding.EncodeToString(sum[:]), "{{STYLE}}", pageCSS).Replace(before)
	after = strings.Replace(after, "{{SCRIPT}}", script, 1)

	b := append([]byte(before), data[:len(data)-1]...) // the brace that ends it comes after the rows
	b = append(b, `,"rows":[`...)
	for i := range d.rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.rows[i].append(b, d.startNs)
		if len(b) >= writeSize {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	b = append(append(b, "]}"...), after...)
	_, err = w.Write(b)
	return err
}

// writeSize is how much of the page is written at a time, in bytes.
const writeSize = 64 << 10

// Page writes the page of a capture that other commands have made.
func Page(w io.Writer, name string, capture io.Reader) error {
	e := &explanation{Name: name}
	drawn := &window{most: drawnPackets}
	if err := e.read(capture, analyse.Options{}, drawn); err != nil {
		return err
	}
	return e.page(drawn).write(w)
}
