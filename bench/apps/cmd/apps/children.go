package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
)

// freePorts returns addresses of this machine whose ports nobody has at the moment, neither of TCP
// nor of RoCE. They are below those that the kernel and RDMA-CM choose, so they stay free while a
// server that is killed is away.
func freePorts(n int) (addrs []string, err error) {
	for tries := 0; len(addrs) < n; tries++ {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(20000))
		err := func() error {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			defer l.Close()
			r, err := roce.Listen(context.Background(), addr)
			if err != nil {
				return err
			}
			return r.Close()
		}()
		switch {
		case err == nil && !slices.Contains(addrs, addr):
			addrs = append(addrs, addr)
		case err != nil && (tries == 100 || !errors.Is(err, syscall.EADDRINUSE)):
			return nil, err
		}
	}
	return addrs, nil
}

// child is this program in a process of its own, with another command line.
type child struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan error
}

// start runs this program with args.
func start(ctx context.Context, args ...string) (*child, error) {
	c, err := newChild(ctx, args)
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = &c.out
	return c, c.start()
}

// startPiped runs this program with args, and returns its standard input and output.
func startPiped(ctx context.Context, args ...string) (c *child, in io.WriteCloser, out io.ReadCloser, err error) {
	if c, err = newChild(ctx, args); err != nil {
		return nil, nil, nil, err
	}
	if in, err = c.cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	// Not StdoutPipe: what is left in it is read after the end, too.
	out, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	c.cmd.Stdout = w
	defer w.Close()
	return c, in, out, c.start()
}

func newChild(ctx context.Context, args []string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &child{cmd: exec.CommandContext(ctx, self, args...), done: make(chan error, 1)}, nil
}

func (c *child) start() error {
	c.cmd.Stderr = &c.out
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() { c.done <- c.cmd.Wait() }()
	if limit != nil {
		return limit(c.cmd.Process.Pid)
	}
	return nil
}

// wait returns after some time, or when the context ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// cpuOfProcess returns the CPU time that a process of this machine has used, in hundredths of a
// second.
func cpuOfProcess(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Behind the name, which may have spaces: fields 14 and 15 of proc(5) are the 12th and 13th.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// wait waits for the end of a child and returns what it has printed.
func (c *child) wait() (string, error) {
	if err := <-c.done; err != nil {
		return c.out.String(), fmt.Errorf("%v: %w\n%s", c.cmd.Args[1:], err, c.out.String())
	}
	return c.out.String(), nil
}

// waitAll waits for all children and returns what they have printed, and their CPU time.
func waitAll(children []*child) (all string, cpu time.Duration, err error) {
	for _, c := range children {
		out, e := c.wait()
		err = errors.Join(err, e)
		all += out
		cpu += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	}
	return all, cpu, err
}
