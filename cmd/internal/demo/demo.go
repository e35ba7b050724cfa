package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/verbs"
)

// options is the command line.
type options struct {
	tool.DeviceOptions
	peerAddr string
	seconds  float64
	json     bool
	peer     bool // this process is the peer
}

func (o *options) table() []getopt.Option {
	return append([]getopt.Option{
		{Long: "peer-addr", Arg: "ip", Help: "local address of the second process", Set: getopt.String(&o.peerAddr)},
		{Long: "seconds", Arg: "s", Help: "length of each measurement (default 1)", Set: getopt.Float(&o.seconds)},
		{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&o.json)},
		{Long: "peer", Set: getopt.Bool(&o.peer)},
	}, o.Options()...)
}

// spawner starts the peer with the given arguments and returns its pipes; wait
// ends it and reports how it ended.
type spawner func(ctx context.Context, env *tool.Env,
	args []string) (in io.WriteCloser, out io.Reader, wait func() error, err error)

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{
		Name: "demo", Summary: "two processes on this machine show what RDMA does",
		Run: func(ctx context.Context, env *tool.Env, args []string) error {
			return run(ctx, env, args, spawnProcess, os.Stdin)
		},
	}
}

func run(ctx context.Context, env *tool.Env, args []string, spawn spawner, stdin io.Reader) (err error) {
	o := &options{seconds: 1}
	operands, err := tool.Parse(
		"demo: two processes on this machine show what RDMA does\n\nUsage:\n  roce demo [options]\n\nOptions:\n",
		o.table(), args)
	switch {
	case err != nil:
		return err
	case len(operands) > 0:
		return getopt.Misuse("no operand is expected, not %q", operands)
	}
	dev, release, err := o.open(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.peer {
		return servePeer(ctx, dev, stdin, env.Stdout)
	}
	return show(ctx, env, o, dev, spawn)
}

// open opens the device of either process: 127.0.0.1 or 127.0.0.2, or the next one that is free.
func (o *options) open(env *tool.Env) (*verbs.Device, func() error, error) {
	place := tool.LoopbackPlace(1)
	if o.peer {
		place = tool.LoopbackPlace(2)
	}
	if o.Addr != "" || o.Dev != "" {
		var err error
		if place, err = o.Choose("", false); err != nil {
			return nil, nil, err
		}
	}
	dev, release, _, err := o.Open(env, place)
	return dev, release, err
}

// peerArgs are the arguments with which the peer is started.
func (o *options) peerArgs() ([]string, error) {
	args := []string{"demo", "--peer"}
	if o.peerAddr != "" {
		if _, err := netip.ParseAddr(o.peerAddr); err != nil {
			return nil, &getopt.Error{Option: "--peer-addr", Err: err}
		}
		args = append(args, "--addr", o.peerAddr)
	}
	for flag, on := range map[string]bool{"--no-gso": o.NoGSO, "--no-gro": o.NoGRO} {
		if on {
			args = append(args, flag)
		}
	}
	return args, nil
}

// peerGrace is how long the peer has to end after its input did.
const peerGrace = 5 * time.Second

// spawnProcess starts this program again.
func spawnProcess(ctx context.Context, env *tool.Env, args []string) (io.WriteCloser, io.Reader, func() error, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stderr = env.Stderr
	cmd.WaitDelay = peerGrace
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, fmt.Errorf("start the peer process: %w", err)
	}
	wait := func() error {
		in.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the peer process: %w", err)
		}
		return nil
	}
	return in, out, wait, nil
}
