package statcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/stat"
)

// key tells the devices of a sample apart.
func key(p *stat.Process, i int) string {
	d := &p.Devices[i]
	n := 0 // of those at the same addresses
	for j := range i {
		if slices.Equal(p.Devices[j].GIDs, d.GIDs) {
			n++
		}
	}
	return fmt.Sprint(p.PID, " ", d.GIDs, " ", n)
}

// rates are how counters have changed between two samples, by device, a second.
type rates map[string]map[string]float64

// ratesOf compares two samples; before may be nil. A counter that went back is of another device.
func ratesOf(before, now *sample) rates {
	out := rates{}
	if before == nil {
		return out
	}
	type old struct {
		at time.Time
		c  map[string]uint64
	}
	was := map[string]old{}
	for _, p := range before.Processes {
		for i := range p.Devices {
			was[key(p, i)] = old{p.Time, p.Devices[i].Counters}
		}
	}
	for _, p := range now.Processes {
		for i := range p.Devices {
			k := key(p, i)
			o, ok := was[k]
			seconds := p.Time.Sub(o.at).Seconds()
			if !ok || seconds <= 0 {
				continue
			}
			r := map[string]float64{}
			for name, n := range p.Devices[i].Counters {
				if n < o.c[name] {
					r = nil
					break
				}
				r[name] = float64(n-o.c[name]) / seconds
			}
			if r != nil {
				out[k] = r
			}
		}
	}
	return out
}

// column is one of the table.
type column struct {
	head  string
	right bool
	cell  func(p *stat.Process, d *stat.Device, r map[string]float64) string
}

var columns = []column{
	{"PID", true, func(p *stat.Process, _ *stat.Device, _ map[string]float64) string { return fmt.Sprint(p.PID) }},
	{"COMMAND", false, func(p *stat.Process, _ *stat.Device, _ map[string]float64) string { return p.Command }},
	{"DEVICE", false, func(_ *stat.Process, d *stat.Device, _ map[string]float64) string { return deviceName(d) }},
	{"STATE", false, func(_ *stat.Process, d *stat.Device, _ map[string]float64) string { return d.State }},
	{"MTU", true, func(_ *stat.Process, d *stat.Device, _ map[string]float64) string { return fmt.Sprint(d.MTU) }},
	{"QPS", true, func(_ *stat.Process, d *stat.Device, _ map[string]float64) string { return fmt.Sprint(d.NumQPs) }},
	{"CONN", true,
		func(_ *stat.Process, d *stat.Device, _ map[string]float64) string { return fmt.Sprint(d.Conns.Conns) }},
	{"TX", true,
		func(_ *stat.Process, d *stat.Device, r map[string]float64) string { return volume(d, r, "sent_bytes") }},
	{"RX", true,
		func(_ *stat.Process, d *stat.Device, r map[string]float64) string { return volume(d, r, "rcvd_bytes") }},
	{"TX-PKTS", true,
		func(_ *stat.Process, d *stat.Device, r map[string]float64) string { return amount(d, r, "sent_pkts") }},
	{"RX-PKTS", true,
		func(_ *stat.Process, d *stat.Device, r map[string]float64) string { return amount(d, r, "rcvd_pkts") }},
	{"RESENT", true, func(_ *stat.Process, d *stat.Device, r map[string]float64) string {
		return amount(d, r, "retransmitted_pkts")
	}},
	{"RNR", true, func(_ *stat.Process, d *stat.Device, r map[string]float64) string {
		return amount(d, r, "rcvd_rnr_err")
	}},
	{"ERRORS", true, func(_ *stat.Process, d *stat.Device, _ map[string]float64) string {
		return count(float64(d.Counters["retry_exceeded_err"] + d.Counters["retry_rnr_exceeded_err"]))
	}},
}

// deviceName is the link and the first address.
func deviceName(d *stat.Device) string {
	if len(d.GIDs) == 0 {
		return d.Link
	}
	return d.Link + " " + d.GIDs[0]
}

// volume is a rate in bits if there is one, else the bytes so far.
func volume(d *stat.Device, r map[string]float64, name string) string {
	if r != nil {
		return scaled(r[name]*8, 1000) + "b/s"
	}
	return scaled(float64(d.Counters[name]), 1024) + "B"
}

// amount is a rate if there is one, else the count so far.
func amount(d *stat.Device, r map[string]float64, name string) string {
	if r != nil {
		return count(r[name]) + "/s"
	}
	return count(float64(d.Counters[name]))
}

func count(n float64) string { return scaled(n, 1000) }

// scaled writes a number with at most four digits and a unit.
func scaled(n, base float64) string {
	units := []string{"", "k", "M", "G", "T", "P"}
	if base == 1024 {
		units = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	}
	i := 0
	for n >= base && i < len(units)-1 {
		n /= base
		i++
	}
	if i == 0 || n >= 100 {
		return fmt.Sprintf("%.0f%s", n, units[i])
	}
	return fmt.Sprintf("%.1f%s", n, units[i])
}

// writeTable prints a line a device, in columns as wide as what is in them, cut at the width of the
// screen.
func writeTable(w io.Writer, s tool.Screen, now *sample, r rates) {
	rows := [][]string{nil}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head)
	}
	for _, p := range now.Processes {
		for i := range p.Devices {
			var row []string
			for _, c := range columns {
				row = append(row, s.Printable(c.cell(p, &p.Devices[i], r[key(p, i)])))
			}
			rows = append(rows, row)
		}
	}
	width := make([]int, len(columns))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	if len(rows) == 1 {
		rows = nil
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch {
			case columns[i].right:
				b.WriteString(gap + cell)
			case i < len(row)-1:
				b.WriteString(cell + gap)
			default:
				b.WriteString(cell)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		line := cut(b.String(), s.Width)
		if n == 0 {
			line = s.Paint(tool.Bold, line)
		}
		fmt.Fprintln(w, line)
	}
	writeSilent(w, s, now)
}

// cut shortens a line to the width of the screen; 0 is as long as it is.
func cut(line string, width int) string {
	if r := []rune(line); width > 0 && len(r) > width {
		return string(r[:width])
	}
	return line
}

func writeSilent(w io.Writer, s tool.Screen, now *sample) {
	for _, x := range now.Silent {
		fmt.Fprintln(w, s.Paint(tool.Yellow, cut(
			s.Printable(fmt.Sprintf("process %d of user %d does not answer: %s", x.PID, x.User, x.Error)), s.Width)))
	}
	if len(now.Processes)+len(now.Silent) == 0 {
		fmt.Fprintln(w, "no process tells of its devices: programs call stat.Serve, tools have --stat, or GOROCE_STAT=1 in the environment")
	}
}

// writeQPs prints a line a queue pair, with the words of "rdma res show qp".
func writeQPs(w io.Writer, s tool.Screen, now *sample) {
	for _, p := range now.Processes {
		for i := range p.Devices {
			d := &p.Devices[i]
			for _, q := range d.QPs {
				line := fmt.Sprintf("link %s/1 lqpn %d", strings.ReplaceAll(deviceName(d), " ", "_"), q.Number)
				if q.Remote != 0 {
					line += fmt.Sprintf(" rqpn %d", q.Remote)
				}
				line += fmt.Sprintf(" type %s state %s rq-psn %d sq-psn %d", q.Type, q.State, q.RQPSN, q.SQPSN)
				if q.Peer != "" {
					line += fmt.Sprintf(" path-mtu %d local %s peer %s", q.MTU, q.Local, q.Peer)
				}
				if q.RTT > 0 {
					line += fmt.Sprintf(" rtt %.3fms", float64(q.RTT)/1e6)
				}
				if q.Retransmitted+q.Timeouts > 0 {
					line += fmt.Sprintf(" retransmitted %d timeouts %d", q.Retransmitted, q.Timeouts)
				}
				fmt.Fprintln(w, s.Printable(fmt.Sprintf("%s pid %d comm %s", line, p.PID, p.Command)))
			}
			if more := d.NumQPs - len(d.QPs); more > 0 {
				fmt.Fprintf(w, "# and %d more\n", more)
			}
		}
	}
	writeSilent(w, s, now)
}

// writeCounters prints all counters that are not 0, with the words of "rdma statistic"; with rates
// also those a second.
func writeCounters(w io.Writer, s tool.Screen, now *sample, r rates, zero bool) {
	for _, p := range now.Processes {
		for i := range p.Devices {
			d := &p.Devices[i]
			fmt.Fprintln(w, s.Paint(tool.Bold, s.Printable(fmt.Sprintf("link %s/1 pid %d comm %s",
				strings.ReplaceAll(deviceName(d), " ", "_"), p.PID, p.Command))))
			for _, name := range stat.CounterNames() {
				n := d.Counters[name]
				if n == 0 && !zero {
					continue
				}
				line := fmt.Sprintf("    %-24s %20d", name, n)
				if x, ok := r[key(p, i)]; ok {
					line += fmt.Sprintf(" %14s", count(x[name])+"/s")
				}
				fmt.Fprintln(w, line)
			}
			c := &d.Conns
			fmt.Fprintf(w, "    connections %d, half open %d, timewait %d, listeners %d; pd %d, mr %d, mw %d, qp %d\n",
				c.Conns, c.HalfOpen, c.Timewait, c.Listeners, d.Memory.PDs, d.Memory.Regions,
				d.Memory.Windows, d.NumQPs)
		}
	}
	writeSilent(w, s, now)
}
