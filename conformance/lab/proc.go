package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/goroce/goroce/conformance/lab/guestproto"
)

// Cmd is a command to run in a guest.
type Cmd struct {
	Argv  []string
	Env   map[string]string
	Stdin io.Reader // nil: none
	// Output, if not nil, takes what it prints as it comes, beside what is kept.
	Output io.Writer
}

// Proc is a process in a guest. Its output is kept in memory.
type Proc struct {
	Argv []string

	conn *guestproto.Conn
	done chan struct{}

	mu     sync.Mutex
	change chan struct{} // closed and replaced when output arrives
	stdout bytes.Buffer
	stderr bytes.Buffer
	both   bytes.Buffer
	exit   guestproto.Exit
	err    error
}

// ExitError is what a command that did not succeed returns.
type ExitError struct {
	Guest  string
	Argv   []string
	Code   int    // -1 if a signal ended it or it never ran
	Signal int    // 0 if none
	Output string // the end of what it printed
	Err    error  // why there is no exit status
}

func (e *ExitError) Error() string {
	what := fmt.Sprintf("exit status %d", e.Code)
	switch {
	case e.Err != nil:
		what = e.Err.Error()
	case e.Signal != 0:
		what = syscall.Signal(e.Signal).String()
	}
	return fmt.Sprintf("%s: %s: %s\n%s", e.Guest, strings.Join(e.Argv, " "), what, e.Output)
}

func (e *ExitError) Unwrap() error { return e.Err }

// connect opens a connection to labd for one request.
func (g *Guest) connect(ctx context.Context, req guestproto.Request) (net.Conn, *guestproto.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(g.mgmt, fmt.Sprint(guestproto.Port)))
	if err != nil {
		select {
		case <-g.exited:
			err = fmt.Errorf("%w; %w", err, g.exitErr)
		default:
		}
		return nil, nil, fmt.Errorf("lab: guest %s: %w", g.Name, err)
	}
	c := guestproto.NewConn(nc)
	if err := c.WriteJSON(guestproto.TypeRequest, req); err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("lab: guest %s: %w", g.Name, err)
	}
	return nc, c, nil
}

// Start starts a command in the guest. It is killed when ctx ends.
func (g *Guest) Start(ctx context.Context, cmd Cmd) (*Proc, error) {
	nc, c, err := g.connect(ctx, guestproto.Request{Op: "exec", Argv: cmd.Argv, Env: cmd.Env})
	if err != nil {
		return nil, err
	}
	p := &Proc{Argv: cmd.Argv, conn: c, done: make(chan struct{}), change: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	go func() {
		defer close(p.done)
		defer stop()
		defer nc.Close()
		p.collect(ctx, g.Name, cmd.Output)
	}()
	go func() {
		if cmd.Stdin != nil {
			_, _ = io.Copy(c.Writer(guestproto.TypeStdin), cmd.Stdin)
		}
		_ = c.WriteFrame(guestproto.TypeStdin, nil)
	}()
	return p, nil
}

func (p *Proc) collect(ctx context.Context, guest string, output io.Writer) {
	for {
		t, b, err := p.conn.ReadFrame()
		if output != nil && err == nil && (t == guestproto.TypeStdout || t == guestproto.TypeStderr) {
			_, _ = output.Write(b)
		}
		p.mu.Lock()
		switch {
		case err != nil:
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			p.exit.Code = -1
			p.err = &ExitError{Guest: guest, Argv: p.Argv, Code: -1, Err: err, Output: tail(p.both.Bytes(), 2000)}
		case t == guestproto.TypeStdout:
			p.stdout.Write(b)
			p.both.Write(b)
		case t == guestproto.TypeStderr:
			p.stderr.Write(b)
			p.both.Write(b)
		case t == guestproto.TypeExit:
			if e := json.Unmarshal(b, &p.exit); e != nil {
				p.exit = guestproto.Exit{Code: -1, Error: e.Error()}
			}
			if p.exit.Code != 0 || p.exit.Error != "" {
				ee := &ExitError{Guest: guest, Argv: p.Argv, Code: p.exit.Code, Signal: p.exit.Signal,
					Output: tail(p.both.Bytes(), 2000)}
				if p.exit.Error != "" {
					ee.Err = errors.New(p.exit.Error)
				}
				p.err = ee
			}
		}
		close(p.change)
		p.change = make(chan struct{})
		p.mu.Unlock()
		if err != nil || t == guestproto.TypeExit {
			return
		}
	}
}

// Wait waits for the process to end; an *ExitError tells why it failed.
func (p *Proc) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Stdout returns what the process printed so far.
func (p *Proc) Stdout() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String()
}

// Output returns standard output and error so far, in the order of arrival.
func (p *Proc) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.both.String()
}

// WaitOutput waits until the process has printed text.
func (p *Proc) WaitOutput(ctx context.Context, text string) error {
	for {
		p.mu.Lock()
		found := strings.Contains(p.both.String(), text)
		change := p.change
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
			return fmt.Errorf("lab: %s ended without printing %q: %s", p.Argv[0], text, tail([]byte(p.Output()), 1000))
		case <-ctx.Done():
			return fmt.Errorf("lab: %s has not printed %q: %w: %s", p.Argv[0], text, ctx.Err(),
				tail([]byte(p.Output()), 1000))
		}
	}
}

// Signal sends a signal to the process and its children.
func (p *Proc) Signal(s syscall.Signal) error {
	return p.conn.WriteFrame(guestproto.TypeSignal, []byte{byte(s)})
}

// Kill ends the process with its children and waits for it.
func (p *Proc) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Run runs a command in the guest and returns its standard output.
func (g *Guest) Run(ctx context.Context, argv ...string) (string, error) {
	p, err := g.Start(ctx, Cmd{Argv: argv})
	if err != nil {
		return "", err
	}
	err = p.Wait()
	return p.Stdout(), err
}

// Put writes a file in the guest, with its folders.
func (g *Guest) Put(ctx context.Context, path string, perm uint32, r io.Reader) error {
	nc, c, err := g.connect(ctx, guestproto.Request{Op: "put", Path: path, Mode: perm})
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if _, err := io.Copy(c.Writer(guestproto.TypeStdin), r); err != nil {
		return fmt.Errorf("lab: guest %s: put %s: %w", g.Name, path, err)
	}
	if err := c.WriteFrame(guestproto.TypeStdin, nil); err != nil {
		return fmt.Errorf("lab: guest %s: put %s: %w", g.Name, path, err)
	}
	return g.transferEnd(c, path, nil)
}

// Get copies a file of the guest to w.
func (g *Guest) Get(ctx context.Context, path string, w io.Writer) error {
	nc, c, err := g.connect(ctx, guestproto.Request{Op: "get", Path: path})
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	return g.transferEnd(c, path, w)
}

func (g *Guest) transferEnd(c *guestproto.Conn, path string, w io.Writer) error {
	for {
		t, b, err := c.ReadFrame()
		if err != nil {
			return fmt.Errorf("lab: guest %s: %s: %w", g.Name, path, err)
		}
		switch t {
		case guestproto.TypeStdout:
			if w != nil {
				if _, err := w.Write(b); err != nil {
					return err
				}
			}
		case guestproto.TypeExit:
			var e guestproto.Exit
			if err := json.Unmarshal(b, &e); err != nil {
				return err
			}
			if e.Error != "" {
				return fmt.Errorf("lab: guest %s: %s: %s", g.Name, path, e.Error)
			}
			return nil
		}
	}
}
