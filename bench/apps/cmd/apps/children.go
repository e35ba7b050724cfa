package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// freePorts returns addresses of this machine whose ports nobody has at the moment, of TCP. RoCE has ports
// of its own.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...), done: make(chan error, 1)}
	c.cmd.Stdout = &c.out
	c.cmd.Stderr = &c.out
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.done <- c.cmd.Wait() }()
	return c, nil
}

// wait waits for the end of a child and returns what it has printed.
func (c *child) wait() (string, error) {
	if err := <-c.done; err != nil {
		return c.out.String(), fmt.Errorf("%v: %w\n%s", c.cmd.Args[1:], err, c.out.String())
	}
	return c.out.String(), nil
}

// waitAll waits for all children and returns what the first has printed, and their CPU time.
func waitAll(children []*child) (first string, cpu time.Duration, err error) {
	for i, c := range children {
		out, e := c.wait()
		err = errors.Join(err, e)
		if i == 0 {
			first = out
		}
		cpu += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	}
	return first, cpu, err
}
