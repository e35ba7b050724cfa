package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/goroce/goroce/roce/analyse"
)

// pageFile is one of the captures of a page that holds two against each other.
type pageFile struct {
	Name    string `json:"name"`
	Packets int    `json:"packets"`
}

// kindWay is the kind of what two captures say together.
const kindWay analyse.Kind = "the way"

// readBoth reads two captures of the same conversations, from different places. Of the first one
// drawn is what is asked for; of the second what belongs to that. Files are read twice if they are
// longer than what is drawn.
func readBoth(es [2]*explanation, in [2]io.ReadSeeker, opt analyse.Options, drawn *window,
	chosen bool) (windows [2]*window, err error) {
	drawn.keyed = true
	if err := es[0].read(in[0], opt, drawn); err != nil {
		return windows, fmt.Errorf("%s: %w", es[0].Name, err)
	}
	if !chosen {
		if drawn, err = es[0].redraw(in[0], opt, drawn); err != nil {
			return windows, err
		}
	}
	windows[0] = drawn
	known := map[uint64]bool{}
	for r := range drawn.all() {
		if r.head != 0 {
			known[r.head] = true
		}
	}
	// Of the second file all is drawn if it is short and all of the first one is, else what lies
	// between the first and the last packet that the first one has, too.
	w := &window{most: drawnPackets, keyed: true, known: known}
	if err := es[1].read(in[1], opt, w); err != nil {
		return windows, fmt.Errorf("%s: %w", es[1].Name, err)
	}
	if (es[1].Packets > w.most || len(drawn.rows) < es[0].Packets) && w.firstKnown > 0 {
		if _, err := in[1].Seek(0, io.SeekStart); err != nil {
			return windows, err
		}
		w = &window{most: drawnPackets, keyed: true, from: w.firstKnown, to: w.lastKnown}
		if err := es[1].read(in[1], opt, w); err != nil {
			return windows, err
		}
	}
	windows[1] = w
	return windows, nil
}

// pageWith is the page of two captures.
func (e *explanation) pageWith(other *explanation, in [2]io.ReadSeeker, opt analyse.Options, drawn *window,
	chosen bool) (*pageData, error) {
	es := [2]*explanation{e, other}
	windows, err := readBoth(es, in, opt, drawn, chosen)
	if err != nil {
		return nil, err
	}
	return bothPage(es, windows)
}

// bothPage is what is to be drawn of two captures. The connections are those of the first one, and
// those that only the second one has; end 0 is where the first one was taken.
func bothPage(es [2]*explanation, windows [2]*window) (*pageData, error) {
	var rows [2][]row
	names := [2]string{baseName(es[0].Name), baseName(es[1].Name)}
	if names[0] == names[1] {
		names = [2]string{names[0] + " (1)", names[1] + " (2)"}
	}
	for f, w := range windows {
		rows[f] = slices.Collect(w.all())
		for i := range rows[f] {
			rows[f][i].settle(es[f].Report)
		}
	}
	m := match(rows[0], rows[1])
	if m == nil {
		return nil, fmt.Errorf(
			"no packet is in both %s and %s: captures of the same conversation are expected, from its two ends",
			names[0], names[1])
	}
	d := &pageData{
		File: names[0] + " and " + names[1], Files: []pageFile{{names[0], es[0].Packets}, {names[1], es[1].Packets}},
		Packets: es[0].Packets + es[1].Packets, Clock: m.clock.text(names[0], names[1]),
		MoreConnections: es[0].MoreConnections + es[1].MoreConnections, MoreFindings: es[0].MoreFindings +
			es[1].MoreFindings,
		startNs: es[0].StartNs, StartS: es[0].StartNs / 1e9, StartNs: es[0].StartNs % 1e9,
	}
	for f, e := range es {
		if e.Damage != "" {
			d.Damage += names[f] + ": " + e.Damage + " "
		}
	}
	numbers := d.connect(es, m)
	d.rows = m.merge(numbers)
	for i := range d.rows {
		d.DurationNs = max(d.DurationNs, d.rows[i].atNs-d.startNs, d.rows[i].atNs2-d.startNs)
	}
	var ends [2][2]int64 // what each file covers, by the first clock
	for f, e := range es {
		ends[f] = [2]int64{e.StartNs, e.StartNs + e.DurationNs}
		if n := len(rows[f]); n < e.Packets && n > 0 {
			ends[f] = [2]int64{rows[f][0].atNs, rows[f][n-1].atNs}
		}
		if f == 1 {
			ends[f] = [2]int64{m.clock.first(ends[f][0]), m.clock.first(ends[f][1])}
		}
	}
	m.judge(d.rows, ends)
	d.Findings = append(wayFindings(d.rows, m, names), bothFindings(es, d.rows, numbers, names)...)
	slices.SortStableFunc(d.Findings, func(a, b pageFinding) int {
		// What sums the others up comes before them.
		sum := func(f pageFinding) int { return map[bool]int{true: 0, false: 1}[f.Kind == kindWay] }
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), sum(a)-sum(b), cmp.Compare(a.AtNs, b.AtNs))
	})
	return d, nil
}

// connect makes the list of connections, and returns the numbers that those of the second file have
// in it.
func (d *pageData) connect(es [2]*explanation, m *matching) [2]map[int]int {
	numbers := [2]map[int]int{{}, {}}
	for _, c := range es[0].Connections {
		numbers[0][c.Number] = c.Number
	}
	for i, j := range m.twin[0] {
		if j >= 0 {
			a, b := m.rows[0][i].connection, m.rows[1][j].connection
			if a != 0 && b != 0 && numbers[1][b] == 0 {
				numbers[1][b] = a
			}
		}
	}
	add := func(c *analyse.Connection, number int) {
		own := *c
		own.Number = number
		if from, ok := m.from(&row{src: c.Ends[0].Addr, dst: c.Ends[1].Addr}); ok && from == 1 {
			own.Ends, own.Ways = [2]analyse.Endpoint{c.Ends[1], c.Ends[0]}, [2]analyse.Way{c.Ways[1], c.Ways[0]}
		}
		d.Connections = append(d.Connections, &own)
	}
	for _, c := range es[0].Connections {
		add(c, c.Number)
	}
	for _, c := range es[1].Connections {
		if numbers[1][c.Number] == 0 {
			numbers[1][c.Number] = len(d.Connections) + 1
			add(c, len(d.Connections)+1)
		}
	}
	return numbers
}

// merge makes one list of both captures, in the order of what happened first.
func (m *matching) merge(numbers [2]map[int]int) []row {
	all := make([]row, 0, len(m.rows[0])+len(m.rows[1]))
	place := func(r *row) {
		if from, ok := m.from(r); ok {
			r.end = uint8(from)
			if from == 1 {
				r.flags |= flagFrom2
			}
		}
	}
	for i, j := range m.twin[0] {
		r := m.rows[0][i]
		r.connection = numbers[0][r.connection]
		if j >= 0 {
			b := &m.rows[1][j]
			r.frame2, r.atNs2 = b.frame, m.clock.first(b.atNs)
			r.flags |= b.flags & (flagCE | flagBadICRC | flagChanged)
			if (m.rows[0][i].flags^b.flags)&flagBadICRC != 0 {
				r.flags |= flagChanged
			}
			// The requester's end knows best why it sends again.
			if from, _ := m.from(&r); from == 1 || r.cause == analyse.CauseNone {
				r.cause = b.cause
			}
		}
		place(&r)
		all = append(all, r)
	}
	for j, i := range m.twin[1] {
		if i < 0 {
			r := m.rows[1][j]
			r.connection = numbers[1][r.connection]
			r.frame2, r.atNs2, r.frame = r.frame, m.clock.first(r.atNs), 0
			r.atNs = r.atNs2
			place(&r)
			all = append(all, r)
		}
	}
	began := func(r *row) int64 {
		if r.frame2 == 0 || r.frame != 0 && r.atNs < r.atNs2 {
			return r.atNs
		}
		return r.atNs2
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(began(&a), began(&b)) })
	return all
}
