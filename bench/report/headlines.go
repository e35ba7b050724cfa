package report

// headlines are the aims that the README of the project shows.
var headlines = []string{
	"WRITE of 1 MiB, MTU 4096, 64 MiB regions, udp: goodput x TCP",
	"READ of 1 MiB, MTU 4096, 64 MiB regions, udp: goodput x TCP",
	"WRITE of 1 MiB, MTU 4096, udp: goodput x the link's ceiling with CRC and copy",
	"WRITE of 1 MiB, MTU 4096, udp: CPU seconds per GB x TCP",
	"WRITE of 64 B, one QP, udp: messages x TCP with one write each",
	"half round trip, polling, udp: p50 x TCP",
	"half round trip, event-driven, udp: p50 x TCP",
	"rsocket, HTTP/1.1, 1 client, udp: requests x TCP",
	"rsocket, HTTP/1.1, 100 clients, udp: requests x TCP",
	"rsocket, HTTP/1.1, 100 clients, udp: CPU x TCP",
	"rsocket, HTTP/1.1, download of 64 MiB, udp: goodput x TCP",
	"rsocket, stream, writes of 1 MiB, udp: goodput x TCP",
	"memory of an idle QP",
	"CPU at rest, 100 idle connections",
	"two guests, offloads: write_bw, MTU 4096: bandwidth x kernel rxe",
	"two guests, no offloads: write_bw, MTU 4096: bandwidth x kernel rxe",
	"two guests, offloads: send_lat, polling: latency x kernel rxe",
}

// aims prints those that the run is about, the ones that the README of the project shows first.
func (r *Report) aims(p printer) {
	aims := r.dueAims()
	var first []*Aim
	for _, h := range headlines {
		for i := range aims {
			if aims[i].What == h {
				first = append(first, &aims[i])
			}
		}
	}
	if len(first) > 0 {
		p("\n## Headlines\n\n| | reached | goal | |\n|---|---|---|---|")
		for _, a := range first {
			v := a.Value(r)
			p("| %s | %s %s | %s %s | %s |", a.What, num(v), a.Unit, sign(a), num(a.Goal), a.Verdict(v))
		}
		p("\n`%s`", r.Command)
	}
	if len(aims) == 0 {
		return
	}
	p("\n## Aims\n\n| | reached | floor | goal | verdict |\n|---|---|---|---|---|")
	for i := range aims {
		a := &aims[i]
		v := a.Value(r)
		p("| %s | %s %s | %s | %s %s | %s |", a.What, num(v), a.Unit, num(a.Floor), sign(a), num(a.Goal), a.Verdict(v))
	}
}

func sign(a *Aim) string {
	if a.Less {
		return "≤"
	}
	return "≥"
}
