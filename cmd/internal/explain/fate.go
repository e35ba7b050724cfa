package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// fate is what became of a packet after it was captured, or before it could be.
type fate uint8

const (
	fateUnknown      fate = iota // nothing says that it was lost
	fateLost                     // on the way
	fateMaybeLost                // or something that looks the same
	fateDropped                  // by the host that it was for
	fateMaybeDropped             //
	// Of two captures only:
	fateUnseen  // it was there, but the capture of that end lacks it
	fateBeyond  // the other capture does not reach so far
	fateDoubled // by the network: it came more often than it was sent
)

// lossOf says what a finding takes for lost: packets of a role.
func lossOf(k analyse.Kind) (role analyse.Role, ok bool) {
	switch k {
	case analyse.LostRequest, analyse.LostReadRequest, analyse.UCLost, analyse.PMTUBlackhole, analyse.SlowReceiver:
		return analyse.RoleRequest, true
	case analyse.LostAck, analyse.LostAtomicAck, analyse.LostReadResponse:
		return analyse.RoleAnswer, true
	case analyse.UDLost:
		return analyse.RoleDatagram, true
	case analyse.CMLost:
		return analyse.RoleCM, true
	}
	return 0, false
}

// tell marks the rows of packets that were lost, by the findings of a capture from one end, and
// adds rows for those that are not in the capture since they were lost before they came there. rows
// are in the order of their frames.
func tell(rows []row, findings []*analyse.Finding) []row {
	at := func(frame int) int { // index of a frame's row, or -1
		i, ok := slices.BinarySearchFunc(rows, frame, func(r row, f int) int { return r.frame - f })
		if !ok {
			return -1
		}
		return i
	}
	type ghost struct {
		before int
		row    row
	}
	var ghosts []ghost
	for _, f := range findings {
		role, ok := lossOf(f.Kind)
		if !ok || len(f.Frames) == 0 {
			continue
		}
		what := fateMaybeLost
		switch {
		case f.Kind == analyse.SlowReceiver && f.Certain:
			what = fateDropped
		case f.Kind == analyse.SlowReceiver:
			what = fateMaybeDropped
		case f.Certain:
			what = fateLost
		}
		lead := at(f.Frames[0])
		if lead < 0 {
			continue
		}
		if r := &rows[lead]; r.role == role && (r.psn == f.PSN || role == analyse.RoleCM) {
			r.fate = what
			continue
		}
		if role == analyse.RoleCM || f.Kind == analyse.SlowReceiver || f.Kind == analyse.PMTUBlackhole {
			continue
		}
		// It is not in the capture. The first frame shows that, or is the request whose answer was
		// lost before it was repeated.
		anchor := lead
		if role == analyse.RoleAnswer && rows[lead].role == analyse.RoleRequest {
			for _, n := range f.Frames[1:] {
				if i := at(n); i >= 0 && rows[i].role == analyse.RoleRequest {
					anchor = i
				}
			}
		}
		a := &rows[anchor]
		g := row{atNs: a.atNs, connection: a.connection, end: a.end, role: role, psn: f.PSN, qpn: f.QPN,
			fate: what, more: fmt.Sprintf("%v %d", role, f.PSN)}
		if role == analyse.RoleAnswer {
			g.flags = flagResponse
		}
		if (role == analyse.RoleAnswer) != (a.role == analyse.RoleAnswer) {
			g.end = 1 - a.end
		}
		ghosts = append(ghosts, ghost{anchor, g})
	}
	if len(ghosts) == 0 {
		return rows
	}
	slices.SortStableFunc(ghosts, func(a, b ghost) int { return a.before - b.before })
	out := make([]row, 0, len(rows)+len(ghosts))
	for i := range rows {
		for ; len(ghosts) > 0 && ghosts[0].before == i; ghosts = ghosts[1:] {
			out = append(out, ghosts[0].row)
		}
		out = append(out, rows[i])
	}
	return out
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
