package statcmd

import (
	"context"
	"slices"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// options is the command line.
type options struct {
	watch, json, all bool
	interval         float64
	times            int
	pid              int
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'w', Long: "watch", Help: "again and again, with rates, until interrupted", Set: getopt.Bool(&o.watch)},
		{Short: 'i', Long: "interval", Arg: "seconds", Help: "between two looks (default 1)",
			Set: getopt.Float(&o.interval)},
		{Short: 'n', Long: "times", Arg: "times", Help: "with --watch: so often, and end",
			Set: getopt.Int(&o.times, 1, 1<<30)},
		{Short: 'a', Long: "all", Help: "with counters: also those that are 0", Set: getopt.Bool(&o.all)},
		{Long: "pid", Arg: "pid", Help: "one process", Set: getopt.Int(&o.pid, 1, 1<<30)},
		{Long: "json", Help: "print a JSON object a look instead of text", Set: getopt.Bool(&o.json)},
	}
}

const usage = `stat: what processes that use goroce on this machine do

Usage:
  roce stat [options]            a line a device
  roce stat [options] qp         a line a queue pair, as "rdma res show qp"
  roce stat [options] counters   counters, under the names of the kernel's hw_counters

Processes of the same user are seen, by root all, in this network namespace, that let themselves be seen: programs call
stat.Serve (package roce/stat), tools have --stat, or GOROCE_STAT=1 in the environment.

Options:
`

// leastInterval keeps --watch from being a busy loop.
const leastInterval = 0.05

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{
		Name: "stat", Summary: "what processes that use goroce do: devices, queue pairs, rates, counters",
		Run: func(ctx context.Context, env *tool.Env, args []string) error { return run(ctx, env, findAll, args) },
	}
}

func run(ctx context.Context, env *tool.Env, find func() ([]asker, error), args []string) error {
	o := &options{interval: 1}
	operands, err := tool.Parse(usage, o.table(), args)
	what := ""
	if len(operands) > 0 {
		what = operands[0]
	}
	switch {
	case err != nil:
		return err
	case len(operands) > 1 || !slices.Contains([]string{"", "qp", "counters"}, what):
		return getopt.Misuse("qp, counters or nothing is expected, not %q", operands)
	case o.times > 0 && !o.watch:
		return getopt.Misuse("-n needs --watch")
	}
	var before *sample
	tick := time.NewTicker(time.Duration(max(o.interval, leastInterval) * float64(time.Second)))
	defer tick.Stop()
	for n := 1; ; n++ {
		all, err := find()
		if err != nil {
			return err
		}
		now := gather(ctx, all, o.pid)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := o.show(env, what, before, now); err != nil {
			return err
		}
		if !o.watch || n == o.times {
			return nil
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// clearScreen moves to the top left and clears what follows.
const clearScreen = "\x1b[H\x1b[J"

// show prints a sample.
func (o *options) show(env *tool.Env, what string, before, now *sample) error {
	if o.json {
		return tool.WriteJSON(env.Stdout, now)
	}
	out := &page{}
	if o.watch && env.Screen.Height > 0 {
		out.b.WriteString(clearScreen)
		out.rows = env.Screen.Height - 1
	} else if before != nil {
		out.b.WriteString("\n")
	}
	r := ratesOf(before, now)
	switch what {
	case "qp":
		writeQPs(out, env.Screen, now)
	case "counters":
		writeCounters(out, env.Screen, now, r, o.all)
	default:
		writeTable(out, env.Screen, now, r)
	}
	_, err := env.Stdout.Write(out.b.Bytes()) // at once, so that a live table does not flicker
	return err
}
