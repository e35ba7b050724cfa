package captures

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// pairing is who asks whom.
type pairing struct{ requester, responder string }

// Table writes the table of a folder's records: of each capture what was found, and where that is
// wrong. It returns how many captures there are, and how many are explained wrongly.
func Table(w io.Writer, dir string) (all, wrong int, err error) {
	records, err := load(dir)
	if err != nil {
		return 0, 0, err
	}
	var pairs []pairing
	at := map[string]map[pairing]*Record{}
	for _, r := range records {
		p := pairing{r.Requester, r.Responder}
		if !slices.Contains(pairs, p) {
			pairs = append(pairs, p)
		}
		if at[r.Scene] == nil {
			at[r.Scene] = map[pairing]*Record{}
		}
		at[r.Scene][p] = r
	}
	slices.SortFunc(pairs,
		func(a, b pairing) int { return strings.Compare(b.requester+b.responder, a.requester+a.responder) })
	fmt.Fprint(w, head)
	columns := []string{"injected", "capture at the"}
	for _, p := range pairs {
		columns = append(columns, p.requester+" → "+p.responder)
	}
	t := report.Begin(w, columns...)
	for _, sc := range Scenes() {
		for view, end := range viewNames {
			what := ""
			if view == AtRequester {
				what = sc.Fault
			}
			line := []any{what, end}
			for _, p := range pairs {
				r := at[sc.Name][p]
				if r == nil {
					line = append(line, lacking(&sc, p))
					continue
				}
				v, err := r.Explain(dir, view)
				if err != nil {
					return all, wrong, err
				}
				all++
				cell := strings.ReplaceAll(strings.Join(v.Found, ", "), "|", " or ")
				if cell == "" {
					cell = "–"
				}
				if len(v.Wrong) > 0 {
					wrong++
					cell += " **WRONG: " + strings.ReplaceAll(strings.Join(v.Wrong, "; "), "|", " or ") + "**"
				}
				line = append(line, cell)
			}
			t.Row(line...)
		}
	}
	fmt.Fprintf(w, "\n%d captures, %d explained wrongly.\n", all, wrong)
	return all, wrong, nil
}

// lacking says why there is no record.
func lacking(sc *Scene, p pairing) string {
	if sc.Lacks != nil {
		if why := sc.Lacks([2]bool{p.requester != "goroce", p.responder != "goroce"}); why != "" {
			return "not made: " + why
		}
	}
	return "**missing**"
}

const head = `# Captures with faults, explained

Made by ` + "`go run ./conformance/cmd/lab captures`" + `: two peers play each scene, the lab's wire injects the fault, and both
ends record what they see (` + "`testdata/`" + `; the JSON files say what was injected where). The table has what ` + "`roce explain`" + ` finds in each
capture: the kind, what it may be instead, and the packet. "–" is no finding, which is right where an end cannot see the
fault, as a responder that never met a packet. ` + "`go test ./conformance/captures`" + ` holds all of it against what was injected.

Two faults are not made by the network. The wire writes the reason of "stale connection". A packet that is lost inside the host
is lost by the wire, behind the place of the capture.

`
