package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// Config says which path to try.
type Config struct {
	Local  netip.Addr
	Remote netip.AddrPort
	// GoodputTime is how long goodput is measured; 0: not at all.
	GoodputTime time.Duration
	// LocalMTU is the MTU of the interface.
	LocalMTU int
	// Patience is how long an answer is waited for at least; 0: 100 ms. A path that drops what is
	// long takes eight times as long to be told from one that is slow.
	Patience time.Duration
	// Step, if not nil, is told what is tried next.
	Step func(what string)
}

// errSilent is returned when no answer has come.
var errSilent = errors.New("no answer")

// client tries a path.
type client struct {
	ctx    context.Context
	sock   socket // of a port such as queue pairs send from
	home   socket // of port 4791; nil if it cannot be had
	remote netip.AddrPort
	token  [16]byte
	run    uint32
	seq    uint32
	began  time.Time
	rtt    time.Duration // about
	// patience is the least timeout of a question.
	patience time.Duration
	buf      []byte
	out      []byte
	burst    int   // packets of tryBurst
	said     error // what the network said last
}

// Run tries the path. The error is about this machine, or that of the context; that the path is bad
// is in the result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	sock, err := openEntropy(cfg.Local, true)
	if err != nil {
		return nil, err
	}
	defer sock.close()
	var home socket
	untried := ""
	if h, err := openSocket(netip.AddrPortFrom(cfg.Local, ib.UDPPort), false); err == nil {
		defer h.close()
		home = h
	} else {
		untried = fmt.Sprintf("UDP port %d is in use here (%v)", ib.UDPPort, errors.Unwrap(err))
	}
	c := newClient(ctx, sock, home, cfg.Remote)
	if cfg.Patience > 0 {
		c.patience = cfg.Patience
	}
	r, err := c.try(&cfg)
	if r != nil && home == nil {
		r.Untried = untried
	}
	return r, err
}

func newClient(ctx context.Context, sock, home socket, remote netip.AddrPort) *client {
	return &client{
		ctx: ctx, sock: sock, home: home, remote: remote, began: time.Now(), patience: leastTimeout,
		run: rand.Uint32(), burst: burstPackets, buf: make([]byte, 64<<10), out: make([]byte, 0, 64<<10),
	}
}

// try asks one thing after the other.
func (c *client) try(cfg *Config) (*Result, error) {
	r := &Result{Local: c.sock.local(), Remote: c.remote}
	step := cfg.Step
	if step == nil {
		step = func(string) {}
	}
	step("is anybody there?")
	if err := c.greet(r); err != nil || !r.Reachable {
		return r, err
	}
	for _, s := range []struct {
		what string
		f    func(*Result) error
	}{
		{"addresses and ICRC", c.tryHeaders},
		{"packets of the peer's own", c.tryUnasked},
		{"traffic class and ECN", c.tryMarks},
		{"path MTU", func(r *Result) error { return c.tryMTU(r, cfg.LocalMTU) }},
		{"loss and order", c.tryBurst},
		{"round trips", c.tryRTT},
		{"goodput", func(r *Result) error { return c.tryGoodput(r, cfg.GoodputTime) }},
	} {
		step(s.what)
		c.run, c.seq = rand.Uint32(), 0
		if err := s.f(r); err != nil {
			return r, err
		}
		if err := context.Cause(c.ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// question is a message of the run.
func (c *client) question(typ, flags, tos uint8) *message {
	m := &message{
		Type: typ, Flags: flags, TOS: tos, Token: c.token, Run: c.run, Seq: c.seq,
		Stamp: int64(time.Since(c.began)), Src: endpointOf(c.sock.local()), Dst: endpointOf(c.remote),
	}
	c.seq++
	return m
}

// reply is an answer, and how it arrived.
type reply struct {
	message
	at      arrival
	verdict Verdict
	drops   drops // of the server, in the answer to count
	counted bool
}

// receive waits for an answer on a socket. What the network says about packets is
// noted, and no error: it may be about any of them.
func (c *client) receive(s socket, until time.Time) (*reply, error) {
	for {
		if err := context.Cause(c.ctx); err != nil {
			return nil, err
		}
		// Short waits, so that the context can end them.
		slice := time.Now().Add(100 * time.Millisecond)
		if slice.After(until) {
			slice = until
		}
		n, a, err := s.recv(c.buf, slice)
		var r reply
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !time.Now().Before(until) {
				return nil, errSilent
			}
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			c.said = err
			if !time.Now().Before(until) {
				return nil, errSilent
			}
		case r.decode(c.buf[:n]) && (r.Type == answer || r.Type == tallied || r.Type == welcome) &&
			a.from.Addr() == c.remote.Addr():
			r.at, r.verdict = a, r.judge(c.buf[:n], a.from, s.local())
			if r.Type == tallied {
				r.drops, r.counted = decodeDrops(behind(c.buf[:n]))
			}
			return &r, nil
		}
	}
}

// timeout is how long an answer may take.
func (c *client) timeout() time.Duration { return max(c.patience, rttFactor*c.rtt) }

// ask sends a question of size bytes up to n times until it is answered on s.
func (c *client) ask(s socket, typ, flags, tos uint8, size, n int) (*reply, error) {
	for range n {
		m := c.question(typ, flags, tos)
		if err := c.sock.send(m.encode(c.out, size), c.remote, tos); err != nil {
			if errors.Is(err, unix.EMSGSIZE) {
				return nil, err
			}
			c.said = err
		}
		until := time.Now().Add(c.timeout())
		for {
			r, err := c.receive(s, until)
			if errors.Is(err, errSilent) {
				break
			}
			if err != nil {
				return nil, err
			}
			if r.Run == c.run && r.Type == typ+1 {
				return r, nil
			}
		}
	}
	return nil, errSilent
}

// greet gets a token, and finds out about how long a round trip takes.
func (c *client) greet(r *Result) error {
	wait := max(firstTimeout, c.patience)
	before, _ := c.sock.drops()
	for n := range helloTries {
		c.rtt = wait / rttFactor
		sent := time.Now()
		a, err := c.ask(c.sock, hello, 0, 0, 0, 1)
		if err == nil {
			c.token, c.rtt = a.Token, time.Since(sent)
			r.Reachable = true
			return nil
		}
		if !errors.Is(err, errSilent) {
			return err
		}
		if n >= 1 && errors.Is(c.said, unix.ECONNREFUSED) {
			break // that is not loss
		}
		wait *= 2
	}
	r.Silence = silence(c.said)
	if now, ok := c.sock.drops(); ok {
		r.Damaged = int(now.since(before).Damaged)
	}
	return nil
}

// silence says in words what the network said.
func silence(said error) string {
	var no syscall.Errno
	switch {
	case !errors.As(said, &no):
		return "nothing comes back"
	case no == unix.ECONNREFUSED:
		return "the other machine says that nobody has the port"
	case no == unix.EHOSTUNREACH, no == unix.ENETUNREACH:
		return "there is no way to it: " + no.Error()
	case no == unix.EACCES, no == unix.EPERM:
		return "this machine does not let the packets out: " + no.Error()
	}
	return no.Error()
}

// tryHeaders looks at what becomes of addresses, ports and the rest of what the ICRC covers.
func (c *client) tryHeaders(r *Result) error {
	a, err := c.ask(c.sock, ask, 0, 0, 256, tries)
	if errors.Is(err, errSilent) {
		return nil // the burst tells of loss
	}
	if err != nil {
		return err
	}
	f, b := &r.Forward, &r.Back
	f.Src, f.Dst = c.sock.local(), c.remote
	f.SeenSrc, f.SeenDst = a.Seen.Src.addrPort(), a.Seen.Dst.addrPort()
	f.ICRC, f.TTL, f.Header, f.ID, f.NoDF = a.Seen.ICRC, a.Seen.TTL, a.Seen.Header == 1, a.Seen.ID, a.Seen.NoDF == 1
	b.Src, b.Dst = a.Src.addrPort(), a.Dst.addrPort()
	b.SeenSrc, b.SeenDst = a.at.from, c.sock.local()
	b.ICRC, b.TTL, b.Header, b.ID, b.NoDF = a.verdict, a.at.ttl, a.at.header, a.at.id, a.at.noDF
	return nil
}

// tryUnasked has the peer send from a port to which nothing went: a firewall that keeps state lets
// answers in, and not those.
func (c *client) tryUnasked(r *Result) error {
	if c.home == nil {
		r.Untried = fmt.Sprintf("UDP port %d is in use here", ib.UDPPort)
		return nil
	}
	_, err := c.ask(c.home, ask, wantCross, 0, 0, tries)
	if err != nil && !errors.Is(err, errSilent) {
		return err
	}
	r.Unasked = err == nil
	return nil
}

// tryMarks sends packets with a DSCP and each of the codes of ECN that matter.
func (c *client) tryMarks(r *Result) error {
	for _, code := range []uint8{ecnECT0, ecnCE} {
		tos := uint8(dscp<<2 | code)
		a, err := c.ask(c.sock, ask, 0, tos, 256, tries)
		if errors.Is(err, errSilent) {
			continue
		}
		if err != nil {
			return err
		}
		r.Forward.ECN.note(tos, a.Seen.TOS)
		r.Back.ECN.note(tos, a.at.tos)
	}
	return nil
}

// note takes down what a packet was sent with and came with.
func (m *Mark) note(sent, came uint8) {
	m.Tried, m.Sent, m.DSCP = true, sent>>2, came>>2
	switch sent & ecnMask {
	case ecnECT0:
		m.ECT = came&ecnMask == ecnECT0 || came&ecnMask == ecnCE
		if came&ecnMask == ecnCE {
			m.Congest++
		}
	case ecnCE:
		m.CE = came&ecnMask == ecnCE
	}
}

// roceOverhead is what a packet of a reliable connection has around its payload at most: BTH, RETH,
// immediate data, ICRC. (An atomic is longer than that and has no payload.)
const roceOverhead = ib.BTHBytes + ib.RETHBytes + ib.ImmDtBytes + ib.ICRCBytes

// tryMTU sends packets as long as those of each path MTU.
func (c *client) tryMTU(r *Result, localMTU int) error {
	own, _ := ib.MTUForInterface(localMTU)
	for m := ib.MTU256; m <= own; m++ {
		size := m.Bytes() + roceOverhead
		c.said = nil
		// The whole way first: long answers to long questions.
		_, err := c.ask(c.sock, ask, 0, 0, size, tries)
		if err == nil {
			r.Forward.MTU, r.Back.MTU = m.Bytes(), m.Bytes()
			continue
		}
		if errors.Is(err, unix.EMSGSIZE) {
			r.Forward.Told, err = true, nil // a router said so, or the interface has changed
		} else if errors.Is(err, errSilent) {
			_, err = c.ask(c.sock, ask, wantShort, 0, size, tries)
			if err == nil {
				r.Forward.MTU = m.Bytes()
			}
		}
		if err != nil && !errors.Is(err, errSilent) && !errors.Is(err, unix.EMSGSIZE) {
			return err
		}
		r.Forward.Told = r.Forward.Told || errors.Is(c.said, unix.EMSGSIZE)
		if r.Forward.MTU < m.Bytes() {
			break
		}
	}
	r.Forward.Narrower, r.Back.Narrower = r.Forward.MTU < own.Bytes(), r.Back.MTU < own.Bytes()
	return nil
}
