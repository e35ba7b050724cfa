package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/internal/unix"
)

// options is the command line.
type options struct {
	rules, files []string
	write        string
	seed         uint64
	seeded       bool
	seconds      float64
	json         bool
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'r', Long: "rule", Arg: "rule",
			Help: "what to do to which packets, see below; may be repeated", Set: listed(&o.rules)},
		{Short: 'f', Long: "rules", Arg: "file", Help: "rules, one a line; # begins a remark", Set: listed(&o.files)},
		{Short: 'w', Long: "write", Arg: "file", Help: "write what leaves, after the rules, to a pcap file",
			Set: getopt.String(&o.write)},
		{Long: "seed", Arg: "n", Help: "for share= (default: one that is printed)", Set: o.setSeed},
		{Short: 'D', Long: "duration", Arg: "seconds", Help: "end after so long (default: when interrupted)",
			Set: getopt.Float(&o.seconds)},
		{Long: "json", Help: "print the counters as JSON objects", Set: getopt.Bool(&o.json)},
	}
}

func listed(list *[]string) func(string) error {
	return func(s string) error {
		*list = append(*list, s)
		return nil
	}
}

func (o *options) setSeed(s string) (err error) {
	o.seed, err = strconv.ParseUint(s, 0, 64)
	o.seeded = true
	return err
}

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{Name: "wire",
		Summary: "a cable between two interfaces that loses, delays, marks and damages chosen packets", Run: run}
}

const usage = `wire: a cable between two interfaces that loses, delays, marks and damages chosen RoCE packets

Usage:
  roce wire [options] INTERFACE INTERFACE

What comes in by one interface goes out by the other one, as over a cable. Each is the name of an interface, or NAME@NETNS: of a network
namespace that ip-netns knows, or that has this path. They have no addresses of their own, so that this machine answers nothing there.
It needs CAP_NET_RAW, and CAP_SYS_ADMIN for another namespace. The counters of all rules are printed at the end, and on SIGUSR1.

  roce wire eth1 eth2 -r "drop psn=1000 qp=0x11"             # the first packet with it; that sent again passes
  roce wire eth1 eth2 -r "mark-ce share=1% from=eth1" --seed 7
  roce wire eth1 eth2 -r "delay time=2ms op=ack times=all" -r "corrupt every=1000"

`

func run(ctx context.Context, env *tool.Env, args []string) error {
	o := &options{}
	operands, err := tool.Parse(usage+"Rules: "+ether.RuleSyntax+"\nOptions:\n", o.table(), args)
	switch {
	case err != nil:
		return err
	case len(operands) != 2 || operands[0] == operands[1]:
		return getopt.Misuse("two interfaces are expected, not %q", operands)
	}
	if !o.seeded {
		o.seed = rand.Uint64()
	}
	rules, err := o.read(operands)
	if err != nil {
		return err
	}
	sw := ether.New()
	defer sw.Close()
	for _, r := range rules {
		sw.Add(r.Rule)
	}
	names := [2]string(operands)
	c, err := switchlink.NewCable(sw, names, names)
	if err != nil {
		return err
	}
	if o.write != "" {
		if _, err := sw.Capture(o.write, nil); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	if o.seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.seconds*float64(time.Second)))
		defer cancel()
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	defer signal.Stop(asked)
	for _, s := range c.Warnings {
		fmt.Fprintf(env.Stderr, "wire: %s\n", s)
	}
	fmt.Fprintf(env.Stderr, "wire: %s and %s are joined; seed %d\n", operands[0], operands[1], o.seed)
	c.Start()
	for {
		select {
		case <-asked:
			if err := o.report(env.Stdout, rules, c); err != nil {
				return errors.Join(err, c.Close())
			}
		case err := <-c.Failed():
			return errors.Join(err, c.Close(), o.report(env.Stdout, rules, c))
		case <-ctx.Done():
			return errors.Join(c.Close(), o.report(env.Stdout, rules, c))
		}
	}
}

// read reads all rules.
func (o *options) read(ports []string) (rules []*ether.RuleText, err error) {
	texts := o.rules
	for _, name := range o.files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				texts = append(texts, line)
			}
		}
	}
	// One source for all rules, which draw in the order of the packets.
	rng := rand.New(rand.NewPCG(o.seed, 0))
	for _, text := range texts {
		r, err := ether.ParseRule(text, ports, rng)
		if err != nil {
			return nil, getopt.Misuse("%v; roce wire -h has the words", err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// report is what --json prints.
type report struct {
	Seed  uint64       `json:"seed"`
	Rules []ruleReport `json:"rules"`
	Ports []portReport `json:"ports"`
}

type ruleReport struct {
	Rule    string `json:"rule"`
	Matched int64  `json:"matched"`
	Acted   int    `json:"acted"`
}

type portReport struct {
	Interface string `json:"interface"`
	RoCE      int64  `json:"roce_packets_in"`
	Segmented int64  `json:"of_larger_frames"` // of RoCE: came in frames that hold several packets
	Other     int64  `json:"other_frames_in"`
	Sent      int64  `json:"roce_packets_out"`
	Lost      int64  `json:"lost_by_wire"` // not by a rule: no room at the interface or for delayed packets
	TooLong   int64  `json:"too_long"`
	OtherLost int64  `json:"other_frames_lost"`
	Missed    int64  `json:"missed"` // the kernel dropped them before they were read
}

// report prints the counters.
func (o *options) report(w io.Writer, rules []*ether.RuleText, c *switchlink.Cable) error {
	r := report{Seed: o.seed, Rules: []ruleReport{}}
	for _, x := range rules {
		r.Rules = append(r.Rules, ruleReport{x.Text, x.Matched(), x.Hits()})
	}
	for _, e := range c.Ends {
		p, s := e.Port.Stats(), e.Stats()
		r.Ports = append(r.Ports, portReport{
			Interface: e.Name, RoCE: p.In, Segmented: s.Segmented, Other: s.Other,
			Sent: p.Out - s.Lost, Lost: s.Lost + p.Overflow, TooLong: s.TooLong, OtherLost: s.OtherLost,
			Missed: s.Missed,
		})
	}
	if o.json {
		return tool.WriteJSON(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%10s %10s  rule\n", "matched", "acted")
	for _, x := range r.Rules {
		fmt.Fprintf(&b, "%10d %10d  %s\n", x.Matched, x.Acted, x.Rule)
	}
	for i, p := range r.Ports {
		fmt.Fprintf(&b, "%s: %d RoCE packets in (%d in larger frames), %d out, %d other frames in",
			p.Interface, p.RoCE, p.Segmented, p.Sent, p.Other)
		for _, x := range []struct {
			n    int64
			what string
		}{
			{p.Lost, "lost for want of room"}, {p.OtherLost, "other frames lost"}, {p.Missed, "missed"},
			{p.TooLong, fmt.Sprintf("too long for this interface (ethtool -K %s gro off lro off, or a larger MTU here)",
				switchlink.Bare(r.Ports[1-i].Interface))},
		} {
			if x.n > 0 {
				fmt.Fprintf(&b, ", %d %s", x.n, x.what)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
