package conform

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/internal/report"
)

// Side is one of the two ends of a run, as far as it has said what it is.
type Side struct {
	Name     string   `json:"name"`
	Program  string   `json:"program,omitempty"` // its agent
	Device   string   `json:"device,omitempty"`
	Firmware string   `json:"firmware,omitempty"`
	Kernel   string   `json:"kernel,omitempty"`
	Addrs    []string `json:"addresses,omitempty"`
	MTU      int      `json:"mtu,omitempty"` // the largest path MTU of its port, bytes
	Link     string   `json:"link,omitempty"`
	Lacks    []string `json:"lacks,omitempty"` // of the newer operations
}

// Document is what a run has found: the JSON file, and what reports are made of.
type Document struct {
	Format   int       `json:"format"`
	Made     time.Time `json:"made"`
	Version  string    `json:"version"` // of this program
	Peer     string    `json:"peer"`
	Profile  string    `json:"profile"`
	Note     string    `json:"note,omitempty"` // on the profile
	Link     string    `json:"link"`
	Here     Side      `json:"here"`
	There    Side      `json:"there"`
	Only     []string  `json:"only,omitempty"`
	Quick    bool      `json:"quick,omitempty"`
	Seed     uint64    `json:"seed"`
	Seconds  float64   `json:"seconds"`
	Cut      string    `json:"cut_short,omitempty"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Unclear  int       `json:"inconclusive"`
	Features []Feature `json:"features"`

	Rows []matrix.Row `json:"rows"`
}

// documentFormat is the format of the file. Files with another one are not read.
const documentFormat = 1

// Verdict says how a peer does in a feature.
type Verdict string

// The verdicts, from bad to good.
const (
	Fails        Verdict = "fails"            // a row failed
	Differs      Verdict = "differs as known" // no row failed, and the peer is known to deviate in some
	Unclear      Verdict = "inconclusive"     // no row passed or failed
	NotTested    Verdict = "not tested"
	AsSpecified  Verdict = "as specified"
	mostDocument         = 256 << 20 // bytes
)

// Feature is a part of RoCE with its rows counted.
type Feature struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Differs int     `json:"differs"` // of those that passed
	Unclear int     `json:"inconclusive"`
	Skipped int     `json:"skipped"`
}

// String is the verdict with its numbers.
func (f Feature) String() string {
	s := string(f.Verdict)
	switch f.Verdict {
	case Fails:
		s = fmt.Sprintf("fails %d of %d", f.Failed, f.Passed+f.Failed)
	case Differs:
		s = fmt.Sprintf("differs as known in %d of %d", f.Differs, f.Passed)
	case AsSpecified:
		s = fmt.Sprintf("as specified, %d", f.Passed)
	}
	if f.Unclear > 0 && f.Verdict != Unclear {
		s += fmt.Sprintf(", %d inconclusive", f.Unclear)
	}
	return s
}

// Brief is the sign of the verdict with a number: of what passed, or of what did not.
func (f Feature) Brief() string {
	s := f.Verdict.Mark()
	switch f.Verdict {
	case Fails:
		s += fmt.Sprintf(" %d of %d", f.Failed, f.Passed+f.Failed)
	case Differs:
		s += fmt.Sprintf(" %d of %d", f.Differs, f.Passed)
	case AsSpecified:
		s += fmt.Sprintf(" %d", f.Passed)
	case Unclear:
		s += fmt.Sprintf(" %d", f.Unclear)
	}
	return s
}

// The features, in the order of reports.
const (
	featSend, featWrite, featRead, featAtomic, featNewer = "RC SEND", "RC WRITE", "RC READ", "Atomics",
		"ATOMIC WRITE, FLUSH"
	featUC, featUD, featErrors, featLoss, featKeys = "UC", "UD", "Errors", "Loss, NAKs, retries",
		"Keys, protection"
	featFormat, featStates, featCM, featECN, featReact = "Packet formats", "States", "RDMA-CM",
		"Congestion", "Reactions"
	featOther = "Other"
)

var features = []string{
	featSend, featWrite, featRead, featAtomic, featNewer, featUC, featUD, featErrors, featLoss, featKeys,
	featFormat, featStates, featCM, featECN, featReact, featOther,
}

// tagged says which feature a drill is about: the first line one of whose tags it has.
var tagged = []struct {
	feature string
	tags    []string
}{
	{featCM, []string{"cm"}},
	{featECN, []string{"cnp", "ecn"}},
	{featUC, []string{"uc"}},
	{featUD, []string{"ud"}},
	{featNewer, []string{"flush", "atomic_write"}},
	{featAtomic, []string{"atomic"}},
	{featKeys, []string{"keys", "rights", "range", "window", "invalidate", "pkey", "qkey", "attack"}},
	{featFormat,
		[]string{"lengths", "opcode", "pad", "icrc", "version", "reserved", "migreq", "grh", "mtu", "ipv6", "drop"}},
	{featStates, []string{"states"}},
	{featLoss,
		[]string{"duplicate", "nak", "sequence", "psn", "timeout", "retry", "rnr", "order", "depth", "credits", "ack"}},
	{featRead, []string{"read"}},
	{featWrite, []string{"write"}},
	{featSend, []string{"send", "requester", "responder"}}, // what is about each operation
}

func featureOfDrill(d *drill.Drill) string {
	for _, x := range tagged {
		if slices.ContainsFunc(x.tags, d.Has) {
			return x.feature
		}
	}
	return featOther
}

// featureOf is the feature that a row is about; empty for one about the checks themselves.
func featureOf(row matrix.Row) string {
	typ, op, _ := strings.Cut(row.Op, " ")
	switch {
	case row.Feature != "":
		return row.Feature
	case row.Group == "canaries":
		return ""
	case row.Group == "errors":
		return featErrors
	case row.Group == "micro" && strings.Contains(row.Op, "CNP"):
		return featECN
	case row.Group == "micro":
		return featReact
	case typ == "uc":
		return featUC
	case typ == "ud":
		return featUD
	case row.Group == "faults":
		return featLoss
	case typ != "rc":
		return featFormat // the captures, as others read them
	case strings.HasPrefix(op, "SEND"):
		return featSend
	case strings.HasPrefix(op, "WRITE"):
		return featWrite
	case op == "READ":
		return featRead
	case op == "FETCH_ADD", op == "CMP_SWAP":
		return featAtomic
	}
	return featNewer
}

// featuresOf counts the rows of each feature that there is.
func featuresOf(rows []matrix.Row) (list []Feature) {
	at := map[string]*Feature{}
	for _, row := range rows {
		name := featureOf(row)
		if name == "" {
			continue
		}
		f := at[name]
		if f == nil {
			f = &Feature{Name: name}
			at[name] = f
		}
		switch row.Result {
		case matrix.Pass:
			f.Passed++
			if row.Deviates != "" {
				f.Differs++
			}
		case matrix.Fail:
			f.Failed++
		case matrix.Inconclusive:
			f.Unclear++
		default:
			f.Skipped++
		}
	}
	for _, f := range at {
		switch {
		case f.Failed > 0:
			f.Verdict = Fails
		case f.Differs > 0:
			f.Verdict = Differs
		case f.Passed > 0:
			f.Verdict = AsSpecified
		case f.Unclear > 0:
			f.Verdict = Unclear
		default:
			f.Verdict = NotTested
		}
		list = append(list, *f)
	}
	place := func(f Feature) int {
		if i := slices.Index(features, f.Name); i >= 0 {
			return i
		}
		return len(features)
	}
	slices.SortFunc(list,
		func(a, b Feature) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Name, b.Name)) })
	return list
}

// Document makes the document of a run.
func (r *Result) Document() *Document {
	d := &Document{
		Format: documentFormat, Made: time.Now().UTC().Truncate(time.Second), Version: version(),
		Peer: r.Peer, Profile: string(r.Profile), Note: r.Note, Link: r.Link,
		Here: r.Here, There: r.There, Only: r.Only, Quick: r.Quick, Seed: r.Seed, Seconds: r.Took.Seconds(),
		Rows: r.Report.Rows(),
	}
	if r.Cut != nil {
		d.Cut = r.Cut.Error()
	}
	d.count()
	return d
}

// count fills in what follows from the rows.
func (d *Document) count() {
	d.Passed, d.Failed, d.Skipped, d.Unclear = 0, 0, 0, 0
	for _, row := range d.Rows {
		switch row.Result {
		case matrix.Pass:
			d.Passed++
		case matrix.Fail:
			d.Failed++
		case matrix.Inconclusive:
			d.Unclear++
		default:
			d.Skipped++
		}
	}
	d.Features = featuresOf(d.Rows)
}

// lossy is how many rows say that the way loses packets; those are inconclusive, and no slow
// machine is why.
func (d *Document) lossy() (n int) {
	for _, row := range d.Rows {
		if row.Result == matrix.Inconclusive && row.Starved == 0 {
			n++
		}
	}
	return n
}

// Warning is what to know before a failure is believed; empty if there is nothing.
func (d *Document) Warning() string {
	if n := d.lossy(); n > 0 {
		return fmt.Sprintf("Packets got lost in %s of UC and UD. A row that failed may have lost one, too, and drills send each packet once: use a way that loses nothing.",
			report.NumberOf(n, "row"))
	}
	return ""
}

// version is that of this program, as the Go tools have noted it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return cmp.Or(strings.Trim(strings.ReplaceAll(v, "(devel)", "development"), " "), "development")
}

// ReadDocument reads the JSON file of a run. It may come from anybody: what could steer a terminal
// or a page is taken out of its texts, and what follows from its rows is counted anew.
func ReadDocument(r io.Reader) (*Document, error) {
	b, err := io.ReadAll(io.LimitReader(r, mostDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > mostDocument:
		return nil, fmt.Errorf("more than %d MiB", mostDocument>>20)
	}
	d := new(Document)
	if err := json.Unmarshal([]byte(peer.Printable(string(b))), d); err != nil {
		return nil, fmt.Errorf("this is no JSON file of roce conform: %w", err)
	}
	if d.Format != documentFormat {
		return nil, fmt.Errorf("the format is %d, and this program reads %d: make the file anew with --json",
			d.Format, documentFormat)
	}
	if len(d.Rows) == 0 {
		return nil, errors.New("it has no rows")
	}
	d.printable()
	d.count()
	return d, nil
}

// printable takes out of all texts what JSON had escaped.
func (d *Document) printable() {
	texts := []*string{&d.Version, &d.Peer, &d.Profile, &d.Note, &d.Link, &d.Cut}
	for _, s := range []*Side{&d.Here, &d.There} {
		texts = append(texts, &s.Name, &s.Program, &s.Device, &s.Firmware, &s.Kernel, &s.Link)
		for _, list := range [][]string{s.Addrs, s.Lacks} {
			for i := range list {
				texts = append(texts, &list[i])
			}
		}
	}
	for i := range d.Only {
		texts = append(texts, &d.Only[i])
	}
	for i := range d.Rows {
		row := &d.Rows[i]
		texts = append(texts, &row.Kernel, &row.Op, &row.Role, &row.Link, &row.Family, &row.Fault,
			&row.Detail, &row.Retried, &row.Authority, &row.Group, &row.Deviates, &row.Expected, &row.Came,
			&row.Known, &row.Ladder, &row.Feature, &row.Title, &row.Script, &row.Packets)
	}
	for _, s := range texts {
		*s = peer.Printable(*s)
	}
}

// Difference is what a peer does otherwise, with the rows that show it.
type Difference struct {
	Feature string
	Profile string     // of the run
	Row     matrix.Row // the first of them
	What    string     // in a line
	More    string     // what else is known of the first
	Rows    []string   // the labels of all
	Known   bool       // the peer is known to deviate so
}

// numbers are those in a text, and hexadecimal ones.
var numbers = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

// Differences are the rows that failed, and then those that deviate as known; rows that say the
// same are one.
func (d *Document) Differences() (list []*Difference) {
	at := map[string]*Difference{}
	for _, row := range d.Rows {
		if row.Result != matrix.Fail && row.Deviates == "" {
			continue
		}
		what, more, _ := strings.Cut(row.Detail, "\n")
		if row.Deviates != "" {
			what, more = row.Deviates, ""
		}
		key := strings.Join(
			[]string{string(row.Result), row.Group, row.Op, row.Role, numbers.ReplaceAllString(what, "N")}, "\x00")
		x := at[key]
		if x == nil {
			x = &Difference{Feature: featureOf(row), Profile: d.Profile, Row: row, What: what,
				More: strings.TrimSpace(more), Known: row.Deviates != ""}
			at[key] = x
			list = append(list, x)
		}
		x.Rows = append(x.Rows, short(row))
	}
	slices.SortStableFunc(list, func(a, b *Difference) int {
		switch {
		case a.Known == b.Known:
			return 0
		case b.Known:
			return -1
		}
		return 1
	})
	return list
}

// short is the label of a row without what all rows of a run have.
func short(row matrix.Row) string {
	row.Kernel, row.Link = "", ""
	return strings.TrimSpace(row.Label())
}
