package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/pcap"
)

// options is the command line.
type options struct {
	filter
	iface, write           string
	count, snaplen, buffer int
	verbose, every         bool
	json                   bool
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'i', Long: "interface", Arg: "name",
			Help: "capture on an interface (needs CAP_NET_RAW); not what --link xdp carries: see below",
			Set:  getopt.String(&o.iface)},
		{Short: 'w', Long: "write", Arg: "file",
			Help: "write the packets' frames to a pcap file, and print none unless -v", Set: getopt.String(&o.write)},
		{Short: 's', Long: "snaplen", Arg: "bytes",
			Help: "with -w: of each packet the first bytes; 128 hold all headers, and a disk keeps up",
			Set:  getopt.Int(&o.snaplen, 1, pcap.MaxRecordBytes)},
		{Short: 'B', Long: "buffer", Arg: "MiB",
			Help: fmt.Sprintf("with -i: memory for frames that wait to be read (default %d)", ringMiB),
			Set:  getopt.Int(&o.buffer, 1, 1<<11)},
		{Short: 'c', Long: "count", Arg: "n", Help: "end after so many packets", Set: getopt.Int(&o.count, 1, 1<<40)},
		{Long: "qp", Arg: "qpn",
			Help: "only packets to this queue pair; for datagrams also from it; may be repeated", Set: o.addQP},
		{Long: "addr", Arg: "ip", Help: "only packets from or to this address; may be repeated", Set: o.addAddr},
		{Long: "op", Arg: "list", Help: "only these: " + operationNames, Set: o.addOps},
		{Long: "errors", Help: "only NAKs, wrong ICRCs, malformed packets and ICMP messages",
			Set: getopt.Bool(&o.errors)},
		{Short: 'v', Long: "verbose", Help: "all fields of all headers", Set: getopt.Bool(&o.verbose)},
		{Short: 'V', Long: "all-fields",
			Help: "as -v, with TVer, reserved bits, and the ICRC's value beside what it should be",
			Set:  getopt.Bool(&o.every)},
		{Long: "json", Help: "one JSON object a packet instead of text", Set: getopt.Bool(&o.json)},
	}
}

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{Name: "dump", Summary: "the packets of an interface or a capture, with all headers", Run: run}
}

const usage = `dump: the RoCE v2 packets of an interface or a capture, with all headers

Usage:
  roce dump [options] FILE
  roce dump [options] -i INTERFACE

FILE is pcap or pcapng, also with gzip (.gz) or zstd (.zst); "-" is standard input. A named pipe that a goroce device writes its trace to
(--trace, roce/link/trace) is read as it comes, and needs no privileges. A device of the link xdp takes its packets before
a capture on the interface sees them: have it write them, with --trace.

Options:
`

func run(ctx context.Context, env *tool.Env, args []string) (err error) {
	o := &options{buffer: ringMiB}
	operands, err := tool.Parse(usage, o.table(), args)
	switch {
	case err != nil:
		return err
	case o.iface == "" && len(operands) != 1, o.iface != "" && len(operands) != 0:
		return getopt.Misuse("one capture file is expected, or -i with an interface, not %q", operands)
	}
	if o.snaplen > 0 && o.write == "" {
		return getopt.Misuse("-s goes with -w: what is printed are the headers")
	}
	d := &dumper{o: o, out: bufio.NewWriterSize(env.Stdout, outBytes), live: o.iface != ""}
	if o.write != "" {
		f, failed := os.Create(o.write)
		if failed != nil {
			return failed
		}
		w := bufio.NewWriterSize(f, outBytes)
		d.file = w
		d.decoder.NoICRC = !o.verbose && !o.every && !o.json && !o.errors
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
	}
	defer func() { err = errors.Join(err, d.out.Flush()) }()
	if o.iface != "" {
		return d.capture(ctx, env)
	}
	d.stderr = env.Stderr
	in := io.Reader(os.Stdin)
	if operands[0] != "-" {
		f, err := os.Open(operands[0])
		if err != nil {
			return err
		}
		defer f.Close()
		// What blocks is reading: of a pipe nobody may write to.
		defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(past) })()
		in = f
		if i, err := f.Stat(); err == nil && !i.Mode().IsRegular() {
			d.live = true
		}
	}
	return d.read(in)
}

// outBytes is what output waits for before it is written, where nothing else says so.
const outBytes = 1 << 18

// past is a time at which every deadline has passed.
var past = time.Unix(1, 0)

// errDone ends a dump that has had its -c packets.
var errDone = errors.New("enough")

// dumper prints and writes.
type dumper struct {
	o       *options
	decoder pcap.Decoder
	out     *bufio.Writer
	file    io.Writer
	pcap    *pcap.Writer
	live    bool // every line is printed at once
	printed int
	stderr  io.Writer
	text    []byte
	part    []byte
}

// frame handles a frame.
func (d *dumper) frame(f *pcap.Frame) error {
	wanted, done := false, false
	packets := d.decoder.Decode(f)
	for i := range packets {
		p := &packets[i]
		if !d.o.admits(p) {
			continue
		}
		wanted = true
		d.printed++
		err := d.print(p)
		if err == nil && d.o.snaplen > 0 {
			err = d.saveCut(f, &packets[0], p, len(packets) > 1)
		}
		if err != nil {
			return err
		}
		if done = d.o.count > 0 && d.printed >= d.o.count; done {
			break
		}
	}
	if wanted && d.live {
		if err := d.out.Flush(); err != nil {
			return err
		}
	}
	if wanted && d.o.snaplen == 0 {
		if err := d.save(f); err != nil {
			return err
		}
	}
	if done {
		return errDone
	}
	return nil
}

func (d *dumper) print(p *pcap.Packet) error {
	switch {
	case d.o.json:
		return tool.WriteJSON(d.out, recordOf(p, d.o.every))
	case d.file != nil && !d.o.verbose && !d.o.every:
		return nil
	}
	d.text = append(strconv.AppendInt(d.text[:0], int64(p.Frame), 10), ' ')
	d.text = append(appendLine(d.text, p), '\n')
	_, err := d.out.Write(d.text)
	if err == nil && (d.o.verbose || d.o.every) {
		_, err = d.out.WriteString(details(p, d.o.every))
	}
	return err
}

// save writes a frame to the file of -w.
func (d *dumper) save(f *pcap.Frame) (err error) {
	if d.file == nil {
		return nil
	}
	if d.pcap == nil {
		if d.pcap, err = pcap.NewWriter(d.file, f.Link); err != nil {
			return err
		}
	}
	return d.pcap.Write(f)
}

// read dumps a file.
func (d *dumper) read(in io.Reader) error {
	r, err := pcap.NewReader(in)
	if err != nil {
		return err
	}
	var f pcap.Frame
	for {
		if err := r.Next(&f); err != nil {
			d.strange()
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		}
		if err := d.frame(&f); err != nil {
			if errors.Is(err, errDone) {
				return nil
			}
			return err
		}
	}
}

// strange says what to do about frames that are not understood.
func (d *dumper) strange() {
	if n := d.decoder.Counts[pcap.UnknownLink]; n > 0 {
		t := d.decoder.Strange
		fmt.Fprintf(d.stderr, "dump: %d frames of %v are not understood: %s\n", n, t, t.Advice())
	}
}

// capture dumps an interface until the context ends.
func (d *dumper) capture(ctx context.Context, env *tool.Env) error {
	l, err := listen(d.o.iface, d.o.buffer)
	if err != nil {
		return err
	}
	l.idle, d.live = d.out.Flush, false // many lines at once where there are many frames
	fmt.Fprintf(env.Stderr, "listening on %s\n", d.o.iface)
	if xdpAttached(d.o.iface) {
		fmt.Fprintf(env.Stderr,
			"dump: a program of XDP is at %s: a device of the link xdp takes its packets before they come here; have it write them, with --trace\n", d.o.iface)
	}
	defer first()()
	var f pcap.Frame
	for err == nil {
		if err = l.next(ctx, &f); err == nil {
			err = d.frame(&f)
		}
	}
	if n := l.dropped(); n > 0 {
		fmt.Fprintf(env.Stderr, "dump: the kernel dropped %d frames that were not read in time\n", n)
	}
	fmt.Fprintf(env.Stderr, "%d packets of %d frames\n", d.printed, l.frames)
	if errors.Is(err, errDone) || ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, l.close())
}
