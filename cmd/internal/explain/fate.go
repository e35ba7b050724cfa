package explain

import (
	"fmt"
	"slices"

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
