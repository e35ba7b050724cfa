package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/goroce/goroce/ib"
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

// judge says what became of the packets that only one capture has. It is certain that one was lost
// if the ends say so by what they did after: a request was sent again before anything acknowledged
// it, a request was repeated though its answer had left. A capture may lack packets that were
// there.
func (m *matching) judge(rows []row, ends [2][2]int64) {
	type half struct{ conn, end int }
	waiting, answers := map[half][]int{}, map[half][]int{}
	const most = 4096 // that wait
	copies := map[uint64]bool{}
	type way struct{ src, dst netip.Addr }
	known := map[way][2]int{} // rows of the first and last packet of a way that both captures have
	var delays []int64
	for i := range rows {
		if r := &rows[i]; r.frame != 0 && r.frame2 != 0 {
			copies[r.head] = true
			k := way{r.src, r.dst}
			if w, ok := known[k]; ok {
				known[k] = [2]int{w[0], i}
			} else {
				known[k] = [2]int{i, i}
			}
			delays = append(delays, max(r.atNs2-r.atNs, r.atNs-r.atNs2))
		}
	}
	slices.Sort(delays)
	soon := 4 * delays[len(delays)/2] // in this time a packet comes that is on its way
	settle := func(k half, list map[half][]int, f fate, covered func(psn ib.PSN) bool) {
		list[k] = slices.DeleteFunc(list[k], func(i int) bool {
			if !covered(rows[i].psn) {
				return false
			}
			rows[i].fate = f
			return true
		})
	}
	for i := range rows {
		r := &rows[i]
		if r.head == 0 {
			continue
		}
		here, at := 0, r.atNs
		if r.frame == 0 {
			here, at = 1, r.atNs2
		}
		from, ok := m.from(r)
		w, both := known[way{r.src, r.dst}]
		asks := half{r.connection, int(r.end)}
		if r.role == analyse.RoleAnswer {
			asks.end = 1 - asks.end
		}
		switch {
		case r.frame != 0 && r.frame2 != 0:
		case !ok || at < ends[1-here][0] && !(both && i > w[0]) || at > ends[1-here][1]-soon && !(both && i < w[1]):
			r.fate = fateBeyond
		case from != here && copies[r.head]:
			r.fate = fateDoubled
		case from != here:
			r.fate = fateUnseen
		default:
			r.fate = fateMaybeLost
		}
		lost := r.fate == fateMaybeLost
		switch r.role {
		case analyse.RoleRequest:
			settle(asks, waiting, fateLost, func(psn ib.PSN) bool { return psn == r.psn })
			if r.cause != analyse.CauseNone && r.cause != analyse.CauseNetwork {
				settle(asks, answers, fateLost, func(psn ib.PSN) bool { return psn.Diff(r.psn) >= 0 })
			}
			if lost && len(waiting[asks]) < most {
				waiting[asks] = append(waiting[asks], i)
			}
		case analyse.RoleAnswer:
			if r.flags&flagBadICRC == 0 {
				nak := r.answers && r.syndrome>>5 != 0
				settle(asks, waiting, fateUnseen,
					func(psn ib.PSN) bool { return psn.Diff(r.psn) < 0 || psn == r.psn && !nak })
			}
			if lost && len(answers[asks]) < most {
				answers[asks] = append(answers[asks], i)
			}
		}
	}
}

// wayFindings say what became of the packets on their way, in either direction between two hosts.
func wayFindings(rows []row, m *matching, names [2]string) (out []pageFinding) {
	type way struct {
		src, dst                                          string
		from, arrived, lost, maybe, unseen, doubled, over int
		lacking                                           int // not in the sender's capture
		frames                                            []int
		at                                                int64
		delays                                            []int64
		last                                              int // frame of the receiver's that came last
	}
	ways := map[[2]string]*way{}
	var order []*way
	for i := range rows {
		r := &rows[i]
		from, ok := m.from(r)
		if !ok || r.head == 0 || r.fate == fateBeyond {
			continue
		}
		k := [2]string{r.src.String(), r.dst.String()}
		w := ways[k]
		if w == nil {
			w = &way{src: k[0], dst: k[1], from: from, frames: []int{}}
			ways[k], order = w, append(order, w)
		}
		sent, came := r.frame, r.frame2
		delay := r.atNs2 - r.atNs
		if from == 1 {
			sent, came, delay = came, sent, -delay
		}
		switch r.fate {
		case fateLost, fateMaybeLost:
			if r.fate == fateLost {
				w.lost++
			} else {
				w.maybe++
			}
			if len(w.frames) == 0 {
				w.at = r.atNs
			}
			if len(w.frames) < 64 {
				w.frames = append(w.frames, sent)
			}
		case fateUnseen:
			if sent == 0 {
				w.lacking++
			} else {
				w.unseen++
			}
		case fateDoubled:
			w.doubled++
		default:
			w.arrived++
			w.delays = append(w.delays, delay)
			if came < w.last {
				w.over++
			}
			w.last = max(w.last, came)
		}
	}
	for _, w := range order {
		all := w.arrived + w.lost + w.maybe + w.unseen
		f := &analyse.Finding{Kind: kindWay, Frames: w.frames, AtNs: w.at, Certain: w.maybe == 0}
		text := fmt.Sprintf("%s to %s: %s left, ", w.src, w.dst, count(all, "packet"))
		share := func(n int) string { return fmt.Sprintf("%d (%.3g %%)", n, 100*float64(n)/float64(max(all, 1))) }
		switch {
		case w.lost+w.maybe == 0:
			text += "none was lost on the way."
		case w.maybe == 0:
			text += fmt.Sprintf("lost on the way: %s.", share(w.lost))
		case w.lost == 0:
			text += fmt.Sprintf("not in %s: %s, probably lost on the way. What the ends did after does not show it.",
				names[1-w.from], share(w.maybe))
		default:
			text += fmt.Sprintf("lost on the way: %s; not in %s, and probably lost: %s.", share(w.lost),
				names[1-w.from], share(w.maybe))
		}
		if w.unseen > 0 {
			text += fmt.Sprintf(" %d more are not in %s though they were acknowledged: that capture is not complete.",
				w.unseen, names[1-w.from])
		}
		if w.lacking > 0 {
			text += fmt.Sprintf(" %s came that %s lacks: that capture is not complete.",
				count(w.lacking, "packet"), names[w.from])
		}
		if w.over > 0 {
			text += fmt.Sprintf(" %d were overtaken.", w.over)
		}
		if w.doubled > 0 {
			text += fmt.Sprintf(" %d came once more than they were sent.", w.doubled)
		}
		if n := len(w.delays); n > 0 && !math.IsInf(m.clock.room, 1) {
			slices.Sort(w.delays)
			text += fmt.Sprintf(" They took %v to %v, half of them %v or less.", duration(w.delays[0]),
				duration(w.delays[n-1]), duration(w.delays[n/2]))
		}
		f.Text = text
		weight := 1
		if w.lost+w.maybe == 0 {
			weight = 3
		} else {
			f.Advice =
				"Look at what is between the two places: interface and switch counters on the way in this direction."
		}
		out = append(out, pageFinding{Finding: f, Weight: weight, In: w.from})
	}
	return out
}

// bothFindings are those of either capture, with what the other one says about them.
func bothFindings(es [2]*explanation, rows []row, numbers [2]map[int]int, names [2]string) (out []pageFinding) {
	type packet struct {
		qpn    ib.QPN
		psn    ib.PSN
		answer bool
	}
	of := map[packet][]int{}
	place := [2]map[int]int{{}, {}}
	for i := range rows {
		r := &rows[i]
		if r.role == analyse.RoleRequest || r.role == analyse.RoleAnswer {
			k := packet{r.qpn, r.psn, r.role == analyse.RoleAnswer}
			of[k] = append(of[k], i)
		}
		for f, n := range [2]int{r.frame, r.frame2} {
			if n != 0 {
				place[f][n] = i
			}
		}
	}
	type same struct {
		kind analyse.Kind
		qpn  ib.QPN
		psn  ib.PSN
		conn int
	}
	seen := map[same]int{}
	for file, e := range es {
		for _, f := range weighed(e.Findings) {
			own := *f
			own.Connection = numbers[file][f.Connection]
			p := pageFinding{Finding: &own, Weight: weigh(f), In: file}
			if i, ok := place[file][first(f.Frames)]; ok {
				own.AtNs = rows[i].atNs - es[0].StartNs
			}
			k := same{f.Kind, f.QPN, f.PSN, own.Connection}
			if n, ok := seen[k]; ok && file == 1 {
				if out[n].In == 0 {
					if !out[n].Certain && own.Certain { // the other end knows more
						text := out[n].Both
						out[n] = p
						out[n].Both = text
					}
					out[n].Both += " Both captures show it."
					continue
				}
			}
			if role, ok := lossOf(f.Kind); ok && (role == analyse.RoleRequest || role == analyse.RoleAnswer) {
				lost, came, damaged, sure := 0, 0, 0, false
				var what string
				for _, i := range of[packet{f.QPN, f.PSN, role == analyse.RoleAnswer}] {
					switch r := &rows[i]; {
					case r.fate == fateLost || r.fate == fateMaybeLost:
						lost++
						sure = sure || r.fate == fateLost
						n, in := r.frame, 0
						if n == 0 {
							n, in = r.frame2, 1
						}
						what = fmt.Sprintf("Packet %d of %s did not come to %s.", n, names[in], names[1-in])
					case r.flags&flagChanged != 0:
						damaged = i
					case r.frame != 0 && r.frame2 != 0:
						came++
					}
				}
				switch {
				case sure:
					own.Certain = true
					p.Both = "With both ends it is certain: " + strings.ToLower(what[:1]) + what[1:]
				case lost > 0:
					p.Both = what
				case damaged > 0:
					p.Both = fmt.Sprintf("It came, but was changed on the way: packet %d of %s is packet %d of %s.",
						rows[damaged].frame, names[0], rows[damaged].frame2, names[1])
				case came > 0 && !f.Certain:
					p.Both = fmt.Sprintf(
						"It was not lost on the way: both captures have each %v with PSN %d.", role, f.PSN)
					p.Weight = 2
				}
			}
			if _, ok := seen[k]; !ok {
				seen[k] = len(out)
			}
			out = append(out, p)
		}
	}
	return out
}

func first(frames []int) int {
	if len(frames) == 0 {
		return 0
	}
	return frames[0]
}
