package doctor

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/doctor/probe"
	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
)

// options is the command line.
type options struct {
	dev, addr               string
	only                    []string
	port                    int
	seconds                 float64
	serving, ipv6, pathOnly bool
	json                    bool
	patience                time.Duration // of the probe; 0: its own
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'd', Long: "ib-dev", Arg: "dev", Help: "look at one interface, or address", Set: getopt.String(&o.dev)},
		{Long: "addr", Arg: "ip", Help: "look at one address, and the interface that has it",
			Set: getopt.String(&o.addr)},
		{Long: "only", Arg: "checks",
			Help: "only these checks, with commas: " + strings.Join(checkNames(), ","), Set: o.setOnly},
		{Long: "serve", Help: "be the other end for \"roce doctor HOST\" elsewhere, until interrupted",
			Set: getopt.Bool(&o.serving)},
		{Long: "path-only", Help: "with a host: only the path, not this machine", Set: getopt.Bool(&o.pathOnly)},
		{Short: 'p', Long: "port", Arg: "port", Help: "UDP port of --serve, where 4791 is taken (default 4791)",
			Set: getopt.Int(&o.port, 1, 65535)},
		{Short: 'D', Long: "duration", Arg: "seconds",
			Help: "how long to measure goodput; 0: not at all (default 1)", Set: getopt.Float(&o.seconds)},
		{Long: "ipv6", Help: "use an IPv6 address by default", Set: getopt.Bool(&o.ipv6)},
		{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&o.json)},
	}
}

func checkNames() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

func (o *options) setOnly(s string) error {
	for _, name := range strings.Split(s, ",") {
		if !slices.Contains(checkNames(), name) {
			return getopt.Misuse("there is no check %q; there are %s", name, strings.Join(checkNames(), ", "))
		}
		o.only = append(o.only, name)
	}
	return nil
}

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{
		Name: "doctor", Summary: "what is in the way of RoCE on this machine or path, and the command that mends it",
		Run: func(ctx context.Context, env *tool.Env, args []string) error {
			return run(ctx, env, thisSystem(), args)
		},
	}
}

const usage = `doctor: what is in the way of RoCE on this machine or path, in the order of harm, and the command that mends it

Usage:
  roce doctor [options]            this machine
  roce doctor [options] HOST       this machine, and the path to HOST, where this runs:
  roce doctor --serve [options]

Exit status: 0 nothing is wrong (there may be notes, and things that could not be read), 1 something does not
work, 2 wrong options, 3 everything works, something worse than it could.

Options:
`

// report is what --json prints.
type report struct {
	Status   int           `json:"exit_status"`
	Verdict  Level         `json:"verdict"`
	Findings []Finding     `json:"findings"`
	Path     *probe.Result `json:"path,omitempty"` // what was measured
}

func run(ctx context.Context, env *tool.Env, s *System, args []string) error {
	o := &options{port: ib.UDPPort, seconds: goodputTime.Seconds(), patience: patience}
	operands, err := tool.Parse(usage, o.table(), args)
	switch {
	case err != nil:
		return err
	case len(operands) > 1:
		return getopt.Misuse("one host at most, not %q", operands)
	case o.serving && len(operands) > 0:
		return getopt.Misuse("--serve and a host do not go together")
	case o.pathOnly && len(operands) == 0:
		return getopt.Misuse("--path-only needs a host")
	case o.pathOnly && len(o.only) > 0:
		return getopt.Misuse("--path-only and --only do not go together")
	case o.serving:
		return o.serve(ctx, env)
	}
	var all []Finding
	if !o.pathOnly {
		if all, err = examine(ctx, s, o.target(), o.only); err != nil {
			return err
		}
	}
	var path *probe.Result
	if len(operands) == 1 {
		found, r, err := o.path(ctx, env, s, operands[0])
		if err != nil {
			return err
		}
		all, path = append(all, found...), r
	}
	return o.conclude(env, all, path)
}

// target is what the options ask to look at.
func (o *options) target() (t target) {
	for _, name := range []string{o.dev, o.addr} {
		if name == "" {
			continue
		}
		if a, err := netip.ParseAddr(name); err == nil {
			t = target{addr: a.Unmap()}
		} else {
			t = target{iface: strings.TrimPrefix(name, "roce_")}
		}
	}
	return t
}

// conclude prints findings, and returns the exit status that they come to.
func (o *options) conclude(env *tool.Env, all []Finding, path *probe.Result) error {
	status := exitStatus(all)
	if o.json {
		if err := tool.WriteJSON(env.Stdout,
			report{Status: status, Verdict: worst(all), Findings: all, Path: path}); err != nil {
			return err
		}
	} else {
		writeText(env.Stdout, env.Screen, all)
	}
	if status == 0 {
		return nil
	}
	return &tool.Exit{Status: status}
}
