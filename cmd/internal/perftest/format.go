package perftest

import (
	"fmt"
	"io"

	"github.com/goroce/goroce/ib"
)

// The tables below have the columns, widths and tabs of perftest 6.06, because
// scripts take them apart.

const (
	line       = "---------------------------------------------------------------------------------------\n"
	headBWMiB  = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
	headBWGbit = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	headLat    = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	headLatDur = " #bytes        #iterations       t_avg[usec]    tps average\n"

	rowBW     = " %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n"
	rowBWFine = " %-7d    %d           %-7.6f            %-7.6f            %-7.6f\n"
	rowLat    = " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n"
	rowLatDur = " %-7d       %d            %-7.2f        %-7.2f\n"

	waiting = "\n************************************\n* Waiting for client to connect... *\n************************************\n"
)

// cHex formats v as C's %#0<width>x does: the prefix counts as part of the width, and 0 has none.
func cHex(width int, v uint64) string {
	if v == 0 {
		return fmt.Sprintf("%0*d", width, 0)
	}
	return fmt.Sprintf("0x%0*x", max(width-2, 1), v)
}

// printer writes the table of a test; with --json or --output most of it is silent.
type printer struct {
	w io.Writer
	o *Options
}

func (p *printer) full() bool { return !p.o.JSON && p.o.Output == "" }

func (p *printer) printf(format string, args ...any) {
	if p.full() {
		fmt.Fprintf(p.w, format, args...)
	}
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

func (p *printer) waiting() { p.printf(waiting) }

// banner describes the test that is about to run.
func (p *printer) banner(device string, mtu ib.MTU, gidIndex, outReads int) {
	o := p.o
	t := o.Test
	title := t.Verb.String() + " "
	if t.Verb == Atomic {
		title += o.AtomicType + " "
	}
	if o.Bidirectional {
		title += "Bidirectional "
	}
	if o.PostList > 1 {
		title += "Post List "
	}
	if t.Latency {
		title += "Latency "
	} else {
		title += "BW "
	}
	sends := o.Driver() || o.Bidirectional
	receives := !o.Driver() || o.Bidirectional

	p.printf(line+"                    %sTest\n", title)
	if o.Events {
		p.printf(" Test with events. Using %s_comp0\n", device)
	}
	p.printf(" Dual-port       : OFF\t\tDevice         : %s\n", device)
	p.printf(" Number of qps   : %d\t\tTransport type : IB\n", o.QPs)
	p.printf(" Connection type : %s\t\tUsing SRQ      : %s\n", o.Transport, onOff(o.UseSRQ))
	p.printf(" PCIe relax order: Unsupported\n ibv_wr* API     : OFF\n")
	if sends {
		p.printf(" TX depth        : %d\n", o.TxDepth)
	}
	if o.PostList > 1 {
		p.printf(" Post List       : %d\n", o.PostList)
	}
	if t.Verb == Send && receives {
		p.printf(" RX depth        : %d\n", o.RxDepth)
	}
	if !t.Latency {
		p.printf(" CQ Moderation   : %d\n", o.CQMod)
	}
	p.printf(" Mtu             : %d[B]\n Link type       : Ethernet\n GID index       : %d\n", mtu.Bytes(), gidIndex)
	if t.Verb == Send || t.Verb == Write {
		p.printf(" Max inline data : %d[B]\n", o.InlineSize)
	} else {
		p.printf(" Outstand reads  : %d\n", outReads)
	}
	method := "Ethernet"
	if o.CM || o.ControlCM {
		method = "rdma_cm"
	}
	p.printf(" rdma_cm QPs\t : %s\n Data ex. method : %s\n"+line, onOff(o.CM), method)
}

// dest prints the keys of one side's QP.
func (p *printer) dest(side string, d *dest) {
	p.printf(" %s address: LID %s QPN %s PSN %s", side, cHex(4, uint64(d.LID)), cHex(6, uint64(d.QPN)),
		cHex(6, uint64(d.PSN)))
	if p.o.Test.Verb == Read {
		p.printf(" OUT %s", cHex(4, uint64(d.OutReads)))
	}
	if p.o.Test.Verb == Read || p.o.Test.Verb == Write {
		p.printf(" RKey %s VAddr %s", cHex(8, uint64(d.RKey)), cHex(16, d.VAddr))
	}
	p.printf("\n GID: ")
	for i, b := range d.GID {
		if i > 0 {
			p.printf(":")
		}
		p.printf("%02d", b) // decimal, as the original prints it
	}
	p.printf("\n")
}

// head prints the column titles.
func (p *printer) head() {
	titles := headBWMiB
	switch {
	case p.o.Test.Latency && p.o.durationSet:
		titles = headLatDur
	case p.o.Test.Latency:
		titles = headLat
	case p.o.ReportGbits:
		titles = headBWGbit
	}
	p.printf("%s%s", line, titles)
}

func (p *printer) foot() { p.printf(line) }

// bw prints a row of a bandwidth test.
func (p *printer) bw(r bwReport) {
	switch {
	case p.o.JSON:
	case p.o.Output == "bandwidth":
		fmt.Fprintf(p.w, "%f\n", r.Average)
	case p.o.Output == "message_rate":
		fmt.Fprintf(p.w, "%f\n", r.Rate)
	case p.o.ReportGbits && r.Average < 0.1:
		p.printf(rowBWFine, r.Size, r.Iters, r.Peak, r.Average, r.Rate)
	default:
		p.printf(rowBW, r.Size, r.Iters, r.Peak, r.Average, r.Rate)
	}
}

// both prints the two directions of a bidirectional test.
func (p *printer) both(mine, theirs bwReport) {
	for _, part := range []struct {
		name string
		r    bwReport
	}{{"Local", mine}, {"Remote", theirs}} {
		p.printf(line+"\n %s results: \n", part.name)
		p.head()
		p.bw(part.r)
	}
}

// latency prints a row of a latency test.
func (p *printer) latency(l latency) {
	if p.o.JSON {
		return
	}
	if p.o.Output == "latency" {
		fmt.Fprintf(p.w, "%f\n", l.Average)
		return
	}
	if p.o.Unsorted {
		p.list(l.inOrder)
	}
	if p.o.Histogram {
		p.list(l.sorted)
	}
	if p.o.Unsorted || p.o.Histogram {
		p.head()
	}
	p.printf(rowLat, l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Average, l.Stdev, l.P99, l.P999)
}

func (p *printer) list(us []float64) {
	p.printf("#, usec\n")
	for i, t := range us {
		p.printf("%d, %g\n", i+1, t)
	}
}

// latencyTimed prints a row of a latency test that ran for a time.
func (p *printer) latencyTimed(l latencyTimed) {
	switch {
	case p.o.JSON:
	case p.o.Output == "latency":
		fmt.Fprintf(p.w, "%f\n", l.Average)
	default:
		p.printf(rowLatDur, l.Size, l.Iters, l.Average, l.Rate)
	}
}
