package paths

import (
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/transport/cc"
)

// Row is a path, and what runs over it.
type Row struct {
	Name string
	Path Path
	// Beside is the TCP flow that runs at the same time, with this congestion control; "" is none.
	Beside string
	// Small says that small messages are sent besides, and measured.
	Small bool
	// ECN switches ECN on for TCP.
	ECN bool
}

// smallSuffix is in the names of rows with small messages.
const smallSuffix = ", small messages besides"

// Rows are the table.
func Rows() (rows []Row) {
	const ms = time.Millisecond
	base := Path{Mbps: 200, Delay: ms / 2, Queue: 100}
	with := func(p Path, change func(p *Path)) Path {
		change(&p)
		return p
	}
	add := func(p Path) { rows = append(rows, Row{Name: p.String(), Path: p}) }
	lossy := func(p Path, loss float64) Path { return with(p, func(p *Path) { p.Loss = loss }) }
	ten := Path{Mbps: 200, Delay: 5 * ms, Queue: 300}
	add(base)
	add(lossy(base, 0.0001))
	add(lossy(base, 0.001))
	add(lossy(base, 0.01))
	add(with(lossy(base, 0.01), func(p *Path) { p.Burst = 8 }))
	add(with(base, func(p *Path) { p.Late = 0.01 }))
	add(with(base, func(p *Path) { p.Double = 0.01 }))
	add(with(base, func(p *Path) { p.Jitter = ms }))
	add(ten)
	add(lossy(ten, 0.001))
	add(lossy(Path{Mbps: 100, Delay: 20 * ms, Queue: 400}, 0.0001))
	add(lossy(Path{Mbps: 50, Delay: 50 * ms, Queue: 400}, 0.0001))
	add(Path{Mbps: 200, Delay: 50 * ms, Queue: 1000})
	add(Path{Mbps: 400, Delay: 20 * ms, Queue: 1000})
	add(Path{Mbps: 50, Delay: ms / 2, Queue: 30})
	add(Path{Mbps: 400, Delay: ms / 10, Queue: 100})
	marked := with(base, func(p *Path) { p.Mark = 30 })
	rows = append(rows, Row{Name: marked.String(), Path: marked, ECN: true})
	for _, control := range []string{"cubic", "bbr"} {
		for _, p := range []Path{base, ten} {
			rows = append(rows, Row{Name: fmt.Sprintf("%v, beside TCP %s", p, control), Path: p, Beside: control})
		}
	}
	for _, p := range []Path{base, lossy(base, 0.001), ten} {
		rows = append(rows, Row{Name: p.String() + smallSuffix, Path: p, Small: true})
	}
	return rows
}

// Contender is what is measured on a row.
type Contender struct {
	Name    string
	Kind    string // a flow
	Control string // congestion control; "" is the default
	// GoBack switches selective repeat off at both ends, as with a peer that does not know it.
	GoBack bool
}

// sender is the end from which the data goes: what a READ gets comes the other way. A flow beside
// goes the same way, or the two would only share the path with each other's acknowledgements.
func (c *Contender) sender() int {
	if c.Kind == flowRead {
		return 1
	}
	return 0
}

// contenders are all of them.
func contenders() (all []Contender) {
	for _, kind := range []string{flowWrite, flowRead, flowRSocket} {
		all = append(all, Contender{Name: kind, Kind: kind})
	}
	for _, name := range cc.Algorithms()[1:] { // none is the default
		all = append(all, Contender{Name: "WRITE, " + name, Kind: flowWrite, Control: name})
	}
	delay := cc.ByDelay.String()
	all = append(all, Contender{Name: "READ, " + delay, Kind: flowRead, Control: delay})
	for _, kind := range []string{flowWrite, flowRead, flowRSocket} {
		all = append(all, Contender{Name: kind + ", going back", Kind: kind, GoBack: true})
	}
	return append(all,
		Contender{Name: "TCP cubic", Kind: flowTCP, Control: "cubic"},
		Contender{Name: "TCP bbr", Kind: flowTCP, Control: "bbr"}, Contender{Name: "quic-go", Kind: flowQUIC})
}

// contenders are those that a row has: beside others only some make sense.
func (r *Row) contenders() []Contender {
	all := contenders()
	if r.Small {
		return slices.DeleteFunc(all, func(c Contender) bool { return c.Kind == flowRead })
	}
	if r.Beside == "" {
		return all
	}
	return slices.DeleteFunc(all, func(c Contender) bool { return c.Kind == flowQUIC })
}
