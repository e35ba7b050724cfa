package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// Process is a program that runs. It leads a process group of its own.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu     sync.Mutex
	out    bytes.Buffer
	change chan struct{} // closed and replaced when there is output
}

// drainTime is how long output may come from what a program has left running, after its end.
const drainTime = 5 * time.Second

// start starts a command through do, which may run it elsewhere. With tty, which it takes over, the
// command reads from a terminal, and else there is nothing to read.
func start(cmd *exec.Cmd, tty *terminal, do func(func()) error) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{}), change: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	unix.SetGroup(cmd)
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainTime
	if tty != nil {
		cmd.Stdin = tty.slave
	}
	var err error
	if e := do(func() { err = cmd.Start() }); e != nil || err != nil {
		if tty != nil {
			_ = tty.Close()
		}
		return nil, cmp.Or(e, err)
	}
	go func() {
		p.err = cmd.Wait()
		if tty != nil {
			_ = tty.Close()
		}
		close(p.done)
	}()
	return p, nil
}

// Write takes what the program prints.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.change)
	p.change = make(chan struct{})
	return p.out.Write(b)
}

// Output returns what it has printed so far, on both streams.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for its end; the error is an *exec.ExitError for one that did not succeed.
func (p *Process) Wait() error { <-p.done; return p.err }

// Kill ends it, with what it has started.
func (p *Process) Kill() {
	_ = unix.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Signal sends it a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// killedBy returns the signal that ended a program; 0 if it ended by itself.
func killedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			return st.Signal()
		}
	}
	return 0
}

// WaitOutput waits until it has printed text, or has ended without.
func (p *Process) WaitOutput(ctx context.Context, text string) error {
	for {
		p.mu.Lock()
		found, change := strings.Contains(p.out.String(), text), p.change
		p.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-change:
		case <-p.done:
			if strings.Contains(p.Output(), text) {
				return nil
			}
			return fmt.Errorf("it has ended (%v) and not printed %q", p.err, text)
		case <-ctx.Done():
			return fmt.Errorf("it has not printed %q: %w", text, context.Cause(ctx))
		}
	}
}

// poll looks until f is content, the program has ended, or the time is up.
func (p *Process) poll(ctx context.Context, f func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-p.done:
			return fmt.Errorf("it has ended (%v)", p.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
