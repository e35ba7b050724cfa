package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Groups of cases.
const (
	groupPerftest = "perftest"
	groupVerbs    = "libibverbs"
	groupCM       = "librdmacm"
	groupFabric   = "libfabric"
	groupUCX      = "UCX"
	groupMixed    = "with roce's tools"
	groupPyverbs  = "pyverbs"
)

// Case is a server and a client, or a program by itself.
type Case struct {
	Group   string
	Program string // the one that it is about
	Label   string // what is special about it
	// Server and Client are what is run; without a server it is one program by itself. In the
	// arguments SERVER stands for the server's address, LOCAL for the side's own, GROUP for a
	// multicast address, TCP for the server's IPv4 address.
	Server, Client []string
	Env            []string
	V6             bool // the devices are at IPv6 addresses
	Terminal       bool // the programs are told from those that mpirun starts by the terminal that they read from
	// The client starts when the server listens on a TCP port, or has printed Ready, or with
	// neither at once.
	Port  int
	Ready string
	// Check looks at what both have printed; server is empty for a program by itself.
	Check func(server, client string) error
	// Stays: the server does not end by itself, and is ended.
	Stays bool
	// Refused is what the programs say if they rightly cannot: then the client may fail, and the
	// server is ended.
	Refused string
	// Suites that it runs on, if not all.
	Suites []string
	// While, if set, runs when the program by itself has printed Ready; the program is ended after
	// it.
	While func(ctx context.Context, n *Net, p *Process) error
	// OneAddress: also with both sides at one address. Quick: part of the short run.
	OneAddress, Quick bool
	// Limit is for how long it may run, if not caseTime.
	Limit time.Duration
}

// caseTime is the limit for a case, which takes two seconds on a machine with nothing else to do.
const caseTime = 2 * time.Minute

// longCaseTime is the limit for one that does so much that it takes a minute there.
const longCaseTime = 15 * time.Minute

// partingTime is how long a side may take to end when there is nothing more to come for it.
const partingTime = 20 * time.Second

// listeningCM is what librdmacm says, with sayVar, when a program listens, and joinedCM when it has
// joined a group.
const (
	listeningCM = "goroce: listening"
	joinedCM    = "goroce: joined"
)

// name says in one line what is run.
func (c *Case) name() string { return strings.TrimSpace(c.Program + " " + c.Label) }

// fill puts addresses into arguments.
func fill(argv []string, own, server *Place) []string {
	r := strings.NewReplacer("SERVER", server.addr().String(), "LOCAL", own.addr().String(), "GROUP",
		"239.77.1.7", "TCP", server.Addr4.String())
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = r.Replace(a)
	}
	return out
}

// run runs the case between two places, which may be one, and returns how it ended: nil is well.
func (c *Case) run(ctx context.Context, n *Net, server, client *Place) error {
	limit := cmp.Or(c.Limit, caseTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done in %v", limit))
	defer cancel()
	on := func(p *Place) *Place { at := *p; at.V6, at.Terminal = c.V6, c.Terminal; return &at }
	server, client = on(server), on(client)
	var s *Process
	if c.Server != nil {
		var err error
		if s, err = server.Start(ctx, c.Env, fill(c.Server, server, server)...); err != nil {
			return err
		}
		defer s.Kill()
		if err := c.ready(ctx, server, s); err != nil {
			if c.isRefused(s) {
				return nil
			}
			return c.explain(fmt.Errorf("server: %w", err), s, nil)
		}
	}
	p, err := client.Start(ctx, c.Env, fill(c.Client, client, server)...)
	if err != nil {
		return err
	}
	defer p.Kill()
	if s == nil {
		err = c.alone(ctx, n, p)
	} else {
		err = c.both(ctx, s, p)
	}
	if c.Refused != "" {
		return c.mustRefuse(s, p)
	}
	if err != nil {
		return c.explain(err, s, p)
	}
	outs := [2]string{"", p.Output()}
	if s != nil {
		outs[0] = s.Output()
	}
	for _, out := range outs {
		for _, bad := range complaints {
			if strings.Contains(out, bad) {
				return c.explain(fmt.Errorf("a side says %q", bad), s, p)
			}
		}
	}
	if c.Check != nil {
		if err := c.Check(outs[0], outs[1]); err != nil {
			return c.explain(err, s, p)
		}
	}
	return nil
}

// complaints are what no program prints when all is well, even one that then ends with status 0.
var complaints = []string{"invalid data", "Failed status", "Completion with error",
	"data verification failed", "mismatch", "Segmentation fault", "fatal error:", "ERROR: ld.so"}

func (c *Case) ready(ctx context.Context, at *Place, s *Process) error {
	switch {
	case c.Port != 0:
		return at.Listening(ctx, s, c.Port)
	case c.Ready != "":
		return s.WaitOutput(ctx, c.Ready)
	}
	return nil
}

// alone waits for a program by itself.
func (c *Case) alone(ctx context.Context, n *Net, p *Process) error {
	if c.While == nil {
		return ended(ctx, p)
	}
	if err := p.WaitOutput(ctx, c.Ready); err != nil {
		return err
	}
	return c.While(ctx, n, p)
}

// both waits for both sides.
func (c *Case) both(ctx context.Context, s, p *Process) error {
	select {
	case <-p.Done():
	case <-s.Done():
		// The client may wait for a server that is gone as long as it likes.
		if err := s.Wait(); err != nil && !parts(ctx, p) {
			return fmt.Errorf("server: %w, and the client waits", err)
		}
	case <-ctx.Done():
	}
	if err := ended(ctx, p); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if c.Stays {
		return nil
	}
	if !parts(ctx, s) {
		return errors.New("the server still runs after the client has ended")
	}
	if err := s.Wait(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// ended waits for a program's end as long as ctx lasts.
func ended(ctx context.Context, p *Process) error {
	select {
	case <-p.Done():
		if err := p.Wait(); err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err) // it was killed for that
		}
		return p.Wait()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// parts reports whether a program that has nothing more to wait for ends.
func parts(ctx context.Context, p *Process) bool {
	ctx, cancel := context.WithTimeout(ctx, partingTime)
	defer cancel()
	select {
	case <-p.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// isRefused reports whether a program has ended as one does that is told that something is not
// supported.
func (c *Case) isRefused(p *Process) bool {
	if c.Refused == "" || p == nil {
		return false
	}
	select {
	case <-p.Done():
	default:
		return false
	}
	return p.Wait() != nil && killedBy(p.Wait()) == 0 && strings.Contains(p.Output(), c.Refused)
}

// mustRefuse is the outcome of a case that cannot work.
func (c *Case) mustRefuse(s, p *Process) error {
	if c.isRefused(p) || c.isRefused(s) {
		return nil
	}
	return c.explain(fmt.Errorf("no program has refused with %q", c.Refused), s, p)
}

// outputLimit is how much of what a program has printed is in an error.
const outputLimit = 3000

// explain adds what was run and printed to an error.
func (c *Case) explain(err error, s, p *Process) error {
	var b strings.Builder
	for _, x := range []struct {
		name string
		p    *Process
	}{{"server", s}, {"client", p}} {
		if x.p != nil {
			out := x.p.Output()
			if len(out) > outputLimit {
				out = out[:outputLimit/3] + "\n[...]\n" + out[len(out)-outputLimit*2/3:]
			}
			fmt.Fprintf(&b, "\n%s: %s\n%s", x.name, strings.Join(x.p.cmd.Args, " "), strings.TrimSpace(out))
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}

// terminate ends a program as a user does, and returns what it says to that.
func terminate(ctx context.Context, p *Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if !parts(ctx, p) {
		return errors.New("it does not end with SIGTERM")
	}
	if s := killedBy(p.Wait()); s != syscall.SIGTERM && p.Wait() != nil {
		return fmt.Errorf("it was ended by SIGTERM, and has: %w", p.Wait())
	}
	return nil
}
