package explain

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/goroce/goroce/roce/analyse"
)

// page is the page but for its data.
//
//go:embed page.html
var page string

// pageData is what the page's script reads, but for the rows.
type pageData struct {
	*explanation
	Opcodes   map[int]string `json:"opcodes"`
	Syndromes map[int]string `json:"syndromes"`
	Causes    []string       `json:"causes"`
	Roles     []string       `json:"roles"`
}

// writePage writes the page. The rows are written one by one: all of them as one text would be several times what
// they are in memory.
func (e *explanation) writePage(w io.Writer, drawn *window) error {
	d := pageData{explanation: e, Opcodes: map[int]string{}, Syndromes: map[int]string{}}
	for r := range drawn.all() {
		d.Opcodes[int(r.opcode)] = r.opcode.String()
		if r.answers {
			d.Syndromes[int(r.syndrome)] = r.syndrome.String()
		}
	}
	for c := analyse.CauseNone; c <= analyse.CauseUnknown; c++ {
		d.Causes = append(d.Causes, c.String())
	}
	for r := analyse.RoleOther; r <= analyse.RoleICMP; r++ {
		d.Roles = append(d.Roles, r.String())
	}
	data, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return err
	}
	before, after, ok := strings.Cut(page, "/*DATA*/null")
	if !ok {
		return fmt.Errorf("the page has no place for its data")
	}
	before = strings.ReplaceAll(before, "{{TITLE}}", html.EscapeString(e.Name))
	b := append([]byte(before), data[:len(data)-1]...) // the brace that ends it comes after the rows
	b = append(b, `,"rows":[`...)
	n := 0
	for r := range drawn.all() {
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = r.append(b, e.Report)
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
