package node

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"

	"github.com/goroce/goroce/internal/unix"
)

// Env is set in the environment of a process that is to be a node.
const Env = "GOROCE_BENCH_NODE"

// counterFD is the descriptor that a node finds the shared counter on.
const counterFD = 3

// stdio is the coordinator's connection to a node, or a node's to it.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// Main is the main function of a process that was started as a node. It returns
// when the coordinator has gone.
func Main() error {
	if err := settle(); err != nil {
		return err
	}
	if err := drop(); err != nil {
		return err
	}
	cycles = countEvents(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES)
	counter, err := mapCounter(os.NewFile(counterFD, "counter"))
	if err != nil {
		return err
	}
	n, err := newNode(counter)
	if err != nil {
		return err
	}
	s := rpc.NewServer()
	if err := s.RegisterName("Node", n); err != nil {
		return err
	}
	s.ServeConn(stdio{os.Stdin, os.Stdout})
	return n.Close(struct{}{}, new(struct{}))
}

// Peer is a node as the coordinator sees it.
type Peer struct {
	cmd *exec.Cmd
	c   *rpc.Client
}

// NewCounter makes the memory that two nodes share.
func NewCounter() (*os.File, error) {
	fd, err := unix.MemfdCreate("goroce-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "counter")
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Start starts this program again as a node at a place. run starts the command, in its network.
func Start(counter *os.File, at Place, run func(*exec.Cmd) error) (*Peer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), Env+"=1"), at.env()...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{counter}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run(cmd); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	return &Peer{cmd: cmd, c: rpc.NewClient(stdio{out, in})}, nil
}

// Call calls a method of the node.
func Call[A, R any](p *Peer, method string, args A) (R, error) {
	var r R
	if err := p.c.Call("Node."+method, args, &r); err != nil {
		return r, fmt.Errorf("%s: %w", method, err)
	}
	return r, nil
}

// Do calls a method that returns nothing.
func Do[A any](p *Peer, method string, args A) error {
	_, err := Call[A, struct{}](p, method, args)
	return err
}

// Close ends the node, by the end of its standard input.
func (p *Peer) Close() error {
	_ = p.c.Close()
	return p.cmd.Wait()
}
