package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// options is the command line.
type options struct {
	json, html, verbose, check, kinds bool
	strict, complete, lossless        bool
	local, output                     string
	last, around                      int
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'v', Long: "verbose", Help: "all findings; by default the first 10 of each kind",
			Set: getopt.Bool(&o.verbose)},
		{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&o.json)},
		{Long: "html", Help: "write a page of HTML, which needs nothing else", Set: getopt.Bool(&o.html)},
		{Long: "last", Arg: "n",
			Help: "of --html: draw the last n packets, at most 500,000; by default the first 100,000, or those around the first finding",
			Set:  getopt.Int(&o.last, 1, mostDrawn)},
		{Long: "around", Arg: "frame", Help: "of --html: draw 100,000 packets around this frame of the file",
			Set: getopt.Int(&o.around, 1, math.MaxInt32)},
		{Short: 'o', Long: "output", Arg: "file", Help: "where to; by default standard output",
			Set: getopt.String(&o.output)},
		{Long: "local", Arg: "address",
			Help: "address of the host where the capture was taken, if the file does not tell",
			Set:  getopt.String(&o.local)},
		{Long: "check", Help: "exit status 1 if there is a finding", Set: getopt.Bool(&o.check)},
		{Long: "strict", Help: "hold every packet against the rules of the specification; exit status 1 if one is broken for certain",
			Set: getopt.Bool(&o.strict)},
		{Long: "complete", Help: "of --strict: the capture has all packets of its connections, from the first on",
			Set: getopt.Bool(&o.complete)},
		{Long: "lossless",
			Help: "of --strict: between the place of the capture and both ends nothing is lost or reordered",
			Set:  getopt.Bool(&o.lossless)},
		{Long: "kinds", Help: "what can be found, and what to do about it", Set: getopt.Bool(&o.kinds)},
	}
}

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{Name: "explain",
		Summary: "what went wrong in a capture, why, and what to do about it", Run: run}
}

const usage = `explain: what went wrong in a capture, why, and what to do about it

Usage:
  roce explain [options] FILE
  roce explain --html [options] FILE FILE      of both ends, side by side

FILE is pcap or pcapng, of tcpdump, Wireshark, "roce dump -w" or roce/link/trace; "-" is standard input.

Options:
`

func run(_ context.Context, env *tool.Env, args []string) error {
	o := &options{}
	operands, err := tool.Parse(usage, o.table(), args)
	switch {
	case err != nil:
		return err
	case o.kinds:
		if o.strict {
			return &tool.Text{Text: rulesText()}
		}
		return &tool.Text{Text: kindsText()}
	case o.strict && (o.html || o.check || o.local != "" || len(operands) != 1):
		return getopt.Misuse("--strict is of one file, and goes with --complete, --lossless, --json and --output")
	case !o.strict && (o.complete || o.lossless):
		return getopt.Misuse("--complete and --lossless are of --strict")
	case len(operands) == 2 && !o.html:
		return getopt.Misuse("two files are for --html: text and JSON are of one")
	case len(operands) != 1 && len(operands) != 2:
		return getopt.Misuse("one capture file is expected, or two with --html, not %q", operands)
	case len(operands) == 2 && (operands[0] == "-" || operands[1] == "-"):
		return getopt.Misuse("of two captures neither can be standard input: they are read more than once")
	case o.json && o.html:
		return getopt.Misuse("--json and --html exclude each other")
	case o.last > 0 && o.around > 0:
		return getopt.Misuse("--last and --around exclude each other")
	case (o.last > 0 || o.around > 0) && !o.html:
		return getopt.Misuse("--last and --around say what --html draws: text and JSON are of all packets")
	}
	if o.strict {
		return o.checkStrictly(env, operands[0])
	}
	var opt analyse.Options
	if o.local != "" {
		a, err := netip.ParseAddr(o.local)
		if err != nil {
			return getopt.Misuse("--local: %w", err)
		}
		opt.Local = []netip.Addr{a}
	}
	in := make([]io.Reader, len(operands))
	for i, name := range operands {
		if in[i] = os.Stdin; name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			in[i] = f
		}
	}
	e := &explanation{Name: operands[0]}
	all := []*explanation{e}
	var page *pageData
	chosen := o.last > 0 || o.around > 0
	drawn := &window{most: cmp.Or(o.last, drawnPackets), last: o.last > 0, around: o.around}
	switch {
	case len(operands) == 2:
		all = append(all, &explanation{Name: operands[1]})
		page, err = e.pageWith(all[1], [2]io.ReadSeeker{in[0].(io.ReadSeeker), in[1].(io.ReadSeeker)},
			opt, drawn, chosen)
	case o.html:
		if err = e.read(in[0], opt, drawn); err == nil && !chosen {
			drawn, err = e.redraw(in[0], opt, drawn)
		}
		if err == nil {
			page = e.page(drawn)
		}
	default:
		err = e.read(in[0], opt, nil)
	}
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Damage != "" {
			fmt.Fprintf(env.Stderr, "explain: %s: %s; what came before is explained\n", x.Name, x.Damage)
		}
	}
	style := textStyle{width: defaultWidth}
	if o.output == "" {
		style = styleOf(env.Stdout)
	}
	err = env.Output(o.output, func(w io.Writer) error {
		switch {
		case o.json:
			return tool.WriteJSON(w, e)
		case o.html:
			return page.write(w)
		}
		e.print(w, style, o.verbose)
		return nil
	})
	if err != nil {
		return err
	}
	n := 0
	for _, x := range all {
		n += len(x.Findings) + x.MoreFindings
	}
	if o.check && n > 0 {
		return fmt.Errorf("%d findings", n)
	}
	return nil
}

// Write writes the text of an explanation of a capture that was taken at a host with the local
// addresses.
func Write(w io.Writer, name string, capture io.Reader, local []netip.Addr) error {
	e := &explanation{Name: name}
	if err := e.read(capture, analyse.Options{Local: local}, nil); err != nil {
		return err
	}
	e.print(w, textStyle{width: defaultWidth}, true)
	return nil
}

// explanation is what --json prints.
type explanation struct {
	Name string `json:"file"`
	// Frames is how many there are in the file, by what is in them.
	Frames map[string]int `json:"frames"`
	Damage string         `json:"damage,omitempty"` // where the file stops to make sense
	*analyse.Report
}

// firstFinding is the frame of the finding that the page shows first; 0 if there is none.
func (e *explanation) firstFinding() int {
	if all := weighed(e.Report.Findings); len(all) > 0 && len(all[0].Frames) > 0 {
		return all[0].Frames[0]
	}
	return 0
}

// redraw reads the file again if the first finding is not drawn: which packets matter is known only
// now. A pipe cannot be read again; its page says how to get them.
func (e *explanation) redraw(in io.Reader, opt analyse.Options, drawn *window) (*window, error) {
	frame := e.firstFinding()
	f, ok := in.(io.Seeker)
	if frame == 0 || drawn.has(frame) || !ok {
		return drawn, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return drawn, nil
	}
	drawn = &window{most: drawn.most, around: frame, keyed: drawn.keyed}
	return drawn, e.read(in, opt, drawn)
}

// read analyses a file. What the page draws goes to drawn, unless that is nil. An error means that
// there is nothing to explain.
func (e *explanation) read(in io.Reader, opt analyse.Options, drawn *window) error {
	f, err := pcap.NewReader(in)
	if err != nil {
		return err
	}
	a, d := analyse.New(opt), &pcap.Decoder{}
	var fr pcap.Frame
	for {
		err := f.Next(&fr)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			e.Damage = err.Error()
			break
		}
		packets := d.Decode(&fr)
		for i := range packets {
			n := a.Add(&packets[i])
			if drawn != nil {
				r := rowOf(&packets[i], n)
				if drawn.keyed && packets[i].ICMP == nil && packets[i].Problem == "" && !n.Twice {
					r.same, r.head = keys(&packets[i])
				}
				drawn.add(r)
			}
		}
	}
	e.Report = a.Report()
	e.Frames = map[string]int{}
	for r, n := range d.Counts {
		if n > 0 {
			e.Frames[pcap.Reason(r).String()] = n
		}
	}
	return nil
}
