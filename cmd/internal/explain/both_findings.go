package explain

import (
	"fmt"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"math"
	"slices"
	"strings"
)

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
			if len(f.Frames) > 0 {
				if i, ok := place[file][f.Frames[0]]; ok {
					own.AtNs = rows[i].atNs - es[0].StartNs
				}
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
