package simreport

import (
	"bytes"
	"fmt"
	"math"

	"github.com/goroce/goroce/internal/report"
	"github.com/goroce/goroce/roce/verbs"
)

// LossRow is a row of the page on loss: what is left of the goodput without a loss.
type LossRow struct {
	Window            int
	Loss              float64
	Write, Send, Read float64
	Back              float64 // WRITE to a receiver that keeps nothing
}

// backPackets is how many packets a run with a window takes that goes back: each loss costs a
// window, and there have to be hundreds.
func backPackets(window int) int { return min(5000*window, 1e6) }

// PlayLoss makes a row.
func PlayLoss(window int, loss float64) (*LossRow, error) {
	row := &LossRow{Window: window, Loss: loss}
	for _, x := range []struct {
		op   verbs.WROpcode
		back bool
		to   *float64
	}{{verbs.WRWrite, false, &row.Write}, {verbs.WRSend, false, &row.Send}, {verbs.WRRead, false, &row.Read},
		{verbs.WRWrite, true, &row.Back}} {
		s := Lossy{Window: window, Op: x.op, GoBackN: x.back, Packets: 20000, Seed: 1}
		plain, err := RunLossy(&s) // the same for any number of packets
		if err != nil {
			return nil, err
		}
		if s.Loss, s.Packets = loss, 60000; x.back {
			s.Packets = backPackets(window)
		}
		r, err := RunLossy(&s)
		if err != nil {
			return nil, err
		}
		if r.Timeouts != 0 && !x.back {
			return nil, fmt.Errorf("window %d, loss %g: %d timeouts", window, loss, r.Timeouts)
		}
		*x.to = r.Efficiency / plain.Efficiency
	}
	for _, x := range []*float64{&row.Write, &row.Send, &row.Read} {
		*x = math.Round(*x*1e3) / 1e3 // as it is printed: the chart is of the table
	}
	row.Back = math.Round(row.Back*1e4) / 1e4
	return row, nil
}

// Expected is what is left in theory, with selective repeat and without.
func (r *LossRow) Expected() (selective, back float64) {
	s := Lossy{Window: r.Window, Loss: r.Loss}
	selective = s.Expected()
	s.GoBackN = true
	return selective, s.Expected()
}

// String is the row of the page.
func (r *LossRow) String() string {
	selective, back := r.Expected()
	return fmt.Sprintf("| %d | %g %% | %.3f | %.3f | %.3f | %.3f | %.4f | %.4f | %.1f |",
		r.Window, 100*r.Loss, r.Write, r.Send, r.Read, selective, r.Back, back, r.Write/r.Back)
}

// LossPage returns the page on loss and its chart, by file name.
func LossPage(progress func(string)) (map[string][]byte, error) {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`# What loss leaves of the rate

Made by ` + "`make sim-report`" + `; don't edit. The real engine runs at both ends of a path of 40 Gb/s. A
run depends on its seed alone: made again, this page shows no difference, and a test makes one row of it anew.

W packets of 1,024 bytes are on their way in a round trip. Packets with data are lost at random. Messages of 16 KiB are always
queued (longer ones with W = 1220, since a connection has no more than 128 READs outstanding), and the sender is paced at the
rate of the path. The figures are goodput, as a fraction of the goodput without a loss. In theory selective repeat
leaves 1-p, and going back (1-p)/((1-p)+pW): a loss costs one packet, or a window.

| W | lost | WRITE | SEND | READ | theory | WRITE, peer goes back | theory | times as much |
|---|---|---|---|---|---|---|---|---|`)
	c := report.Chart{Title: "Goodput by loss, WRITE (dashed: theory)", XLabel: "packets lost, %",
		YLabel: "of the goodput without a loss", LogX: true, YMax: 1}
	for _, w := range LossWindows {
		lines := make([]report.Series, 4)
		for i, s := range []string{fmt.Sprintf("W %d, selective", w), "", fmt.Sprintf("W %d, going back", w), ""} {
			lines[i] = report.Series{Name: s, Dashed: i%2 == 1}
		}
		for _, loss := range LossRates {
			r, err := PlayLoss(w, loss)
			if err != nil {
				return nil, err
			}
			progress(r.String())
			p("%s", r)
			selective, back := r.Expected()
			for i, y := range []float64{r.Write, selective, r.Back, back} {
				lines[i].X, lines[i].Y = append(lines[i].X, 100*loss), append(lines[i].Y, y)
			}
		}
		c.Series = append(c.Series, lines...)
	}
	p(`
![goodput by loss](loss.svg)

WRITE, SEND and READ are of 60,000 packets; going back is of 60,000, 610,000 and a million, since it has few losses: each takes
a round trip. A NAK is not lost here.

Going back leaves what theory says, within a tenth, in all rows but one: with W = 1220 and 5 %% lost each window loses packets,
so that no round trip is ever measured. A loss may be for want of room then, and makes the window smaller.

## Published figures

| source | conditions | going back | selective repeat | here |
|---|---|---|---|---|
| RoSR (IEEE CAL, 2025), FPGA beside Xilinx ERNIC | 1 %% lost | 1 | WRITE 13.5, READ 15.6 times as much | the column "times as much". Comparable in kind: that depends on W and on how soon a loss is found, and the paper's W is not known here |
| DCP (SIGCOMM 2025), FPGA beside ConnectX-5 | 100 Gb/s, 0.01 to 5 %% lost | 1 | 1.6 to 72 times as much | the same. 1.6 times at 0.01 %% is more than W = 1220 explains: what goes back there loses more than a window for a loss |
| "HPFT", BlueField-3 | 16 queue pairs, 100 Gb/s, a queue that overflows, no ECN | 32.3 Gb/s | 91.2 Gb/s | not this table: there packets are lost because senders fill a queue, in bursts. [The incasts](README.md#a-buffer-that-is-too-small) and [slow paths](../loss.md#selective-repeat) are of that kind |`)
	return map[string][]byte{"loss.md": b.Bytes(), "loss.svg": c.SVG()}, nil
}
