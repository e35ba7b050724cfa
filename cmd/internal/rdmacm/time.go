package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

const (
	timingPort    = 7471 // of RDMA-CM, and of TCP beside it
	timingConns   = 100
	timingBaseQPN = 1000
	maxMimicUs    = 10_000_000
	maxBaseQPN    = int64(ib.QPNMask) - 3*maxConnections // room for all that follow
)

// timing is cmtime: it makes many connections at a time, in steps, and tells
// how long each step takes.
//
// There are two protocols. Originals since rdma-core 52 have a TCP connection
// beside (see syncConn) and make three tests: one connection, all of them with
// queue pairs, and all of them without. Older ones make but the second.
// A client finds out by looking for the TCP port; a server by what comes first.
type timing struct {
	dev     tool.DeviceOptions
	server  string
	bind    string
	port    int
	conns   int
	baseQPN int
	mimicUs int // how long each operation of a queue pair is pretended to take; -1: they are made
}

func newTiming() program {
	return &timing{port: timingPort, conns: timingConns, baseQPN: timingBaseQPN, mimicUs: -1}
}

func (p *timing) device() *tool.DeviceOptions { return &p.dev }
func (p *timing) check() error                { return nil }

func (p *timing) usage() []string {
	return []string{"[-b bind_address] [-c connections] [-p port_number]",
		"-s server_address [-b bind_address] [-c connections] [-p port_number]"}
}

func (p *timing) options() []getopt.Option {
	mesh := getopt.Unsupported("the mesh of rdma-core 59 and later; use -s")
	return []getopt.Option{
		{Short: 's', Arg: "addr", Help: "address of the server; without it, this is the server",
			Set: getopt.String(&p.server)},
		{Short: 'b', Arg: "addr", Help: "local address", Set: getopt.String(&p.bind)},
		{Short: 'c', Arg: "n", Help: "number of connections (default 100), the same on both sides",
			Set: getopt.Int(&p.conns, 1, maxConnections)},
		{Short: 'p', Arg: "port", Help: "RDMA-CM and TCP port (default 7471)", Set: getopt.Int(&p.port, 1, 65535)},
		{Short: 'q', Arg: "qpn", Help: "first number of pretended queue pairs (default 1000)",
			Set: getopt.Int(&p.baseQPN, 2, maxBaseQPN)},
		{Short: 'm', Arg: "us", Help: "pretend that each operation of a queue pair takes so long",
			Set: getopt.Int(&p.mimicUs, 0, maxMimicUs)},
		{Short: 'n', Arg: "threads", Help: "has no effect: one goroutine does all",
			Set: getopt.Int(new(int), 1, maxConnections)},
		{Short: 'r', Arg: "n", Help: "has no effect: addresses are resolved at once",
			Set: getopt.Int(new(int), 0, maxConnections)},
		{Short: 't', Arg: "ms", Help: "has no effect: addresses are resolved at once",
			Set: getopt.Int(new(int), 0, maxMimicUs)},
		{Short: 'S', Set: getopt.Unsupported("the baseline of TCP sockets needs no RDMA: use the original")},
		{Short: 'C', Arg: "addr", Set: mesh},
		{Short: 'L', Set: mesh},
		{Short: 'P', Arg: "peers", Set: mesh},
		{Short: 'B', Arg: "interface", Set: mesh},
	}
}

// timed is one connection.
type timed struct {
	id    *rdmacm.ID
	qp    *verbs.QP // nil if it is pretended
	qpn   ib.QPN
	psn   ib.PSN
	spans spans
}

// clock is one test, of which a run makes one or three.
type clock struct {
	*side
	p       *timing
	cq      *verbs.CQ
	pretend bool // no queue pairs
	delay   time.Duration
	nextQPN ib.QPN          // for those
	used    map[ib.QPN]bool // numbers that the peer may still know connections of
	sync    *syncConn

	conns []*timed
	all   spans
	done  [steps]int
}

func (p *timing) run(ctx context.Context, env *tool.Env) (err error) {
	local, err := lookup(ctx, p.bind)
	if err != nil {
		return err
	}
	peer, err := lookup(ctx, p.server)
	if err != nil {
		return err
	}
	s, err := open("cmtime", env, &p.dev, local, peer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := &clock{side: s, p: p, nextQPN: ib.QPN(p.baseQPN), used: map[ib.QPN]bool{}}
	if c.cq, err = s.dev.CreateCQ(1, nil); err != nil { // nothing completes
		return err
	}
	defer func() { err = errors.Join(err, c.cq.Close()) }()
	if peer.IsValid() {
		return c.client(ctx, local, on(peer, p.port))
	}
	return c.serve(ctx, on(local, p.port))
}

// tests runs the three tests in step with the peer.
func (c *clock) tests(verb string, role string, test func(n int) error) error {
	c.printf("%s warmup\n", role)
	if err := test(1); err != nil {
		return err
	}
	label := "qp_conn"
	if n := c.p.conns; c.p.mimicUs < 0 {
		c.printf("%s (%d) QPs test\n", verb, n)
	} else {
		c.printf("%s (%d) simulated QPs test (delay %d us)\n", verb, n, c.p.mimicUs)
		label, c.pretend, c.delay = "cm_conn", true, time.Duration(c.p.mimicUs)*time.Microsecond
	}
	if err := test(c.p.conns); err != nil {
		return err
	}
	c.table(label, &c.all, c.conns)
	c.printf("%s (%d) test - no QPs\n", verb, c.p.conns)
	c.pretend, c.delay = true, 0
	if err := test(c.p.conns); err != nil {
		return err
	}
	c.table("cm_conn", &c.all, c.conns)
	return nil
}

// reset begins a test.
func (c *clock) reset() {
	c.conns, c.all, c.done = nil, spans{}, [steps]int{}
}

// createQP makes or pretends a queue pair.
func (c *clock) createQP(t *timed) (err error) {
	t.spans[stepCreateQP].start()
	defer t.spans[stepCreateQP].end()
	c.done[stepCreateQP]++
	if c.pretend {
		for c.used[c.nextQPN] {
			c.nextQPN++
		}
		t.qpn = c.nextQPN
		c.used[t.qpn] = true
		return c.pause()
	}
	t.qp, err = c.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: c.cq, Caps: verbs.QPCaps{
		MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
	}})
	if err != nil {
		return err
	}
	t.qpn, t.psn = t.qp.Num(), t.qp.LocalInfo(0).PSN
	c.used[t.qpn] = true
	return nil
}

// pause is -m.
func (c *clock) pause() error {
	time.Sleep(c.delay)
	return nil
}

// modify measures a step of a queue pair.
func (c *clock) modify(t *timed, at step, f func() error) error {
	t.spans[at].start()
	defer t.spans[at].end()
	c.done[at]++
	if t.qp == nil {
		return c.pause()
	}
	return f()
}

func (c *clock) toInit(t *timed) error {
	return c.modify(t, stepInit, func() error { return t.qp.ToInit(roce.RemoteRead | roce.RemoteWrite) })
}

// toRTS connects the queue pair to what the peer said.
func (c *clock) toRTS(t *timed, peer *rdmacm.ConnParam) (err error) {
	var remote verbs.RemoteInfo
	var a verbs.ConnAttr
	t.spans[stepRTRAttr].start()
	if t.qp != nil {
		if remote, a, err = c.connAttr(t.id, t.qp, peer); err != nil {
			return err
		}
	}
	t.spans[stepRTRAttr].end()
	if err := c.modify(t, stepRTR, func() error { return t.qp.ToRTR(remote, a) }); err != nil {
		return err
	}
	return c.modify(t, stepRTS, func() error { return t.qp.ToRTS(a) })
}

// param is what a connection is asked for and accepted with.
func (t *timed) param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, QPN: t.qpn, StartingPSN: t.psn}
}

// destroy ends a test.
func (c *clock) destroy() error {
	var errs []error
	c.all[stepDestroyQP].start()
	for _, t := range c.conns {
		t.spans[stepDestroyQP].start()
		if t.qp != nil {
			errs = append(errs, t.qp.Close())
		}
		t.spans[stepDestroyQP].end()
	}
	c.all[stepDestroyQP].end()
	c.all[stepDestroyID].start()
	for _, t := range c.conns {
		t.spans[stepDestroyID].start()
		errs = append(errs, t.id.Close())
		t.spans[stepDestroyID].end()
	}
	c.all[stepDestroyID].end()
	return errors.Join(errs...)
}

// until handles events until n connections have done a step.
func (c *clock) until(ctx context.Context, at step, n int, handle func(*rdmacm.Event) error) error {
	for c.done[at] < n {
		e, err := next(ctx, c.ch)
		if err != nil {
			return err
		}
		switch e.Type {
		case rdmacm.EventTimewaitExit:
		case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventConnectError, rdmacm.EventUnreachable,
			rdmacm.EventRejected:
			c.printf("event: %v, error: %d\n", e.Type, status(e))
			err := fmt.Errorf("connection %d of %d: %w", c.done[at]+1, n, &eventError{e, rdmacm.EventEstablished})
			if t, ok := e.ID.Context.(*timed); ok {
				err = fmt.Errorf("queue pair %v, %w", t.qpn, err)
			}
			return err
		default:
			if err := handle(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// wildcard makes the zero address one to listen on.
func wildcard(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return fmt.Sprintf(":%d", a.Port())
	}
	return a.String()
}
