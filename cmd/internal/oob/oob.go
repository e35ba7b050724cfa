package oob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

// DefaultPort is the TCP port that the tools of rdma-core and of perftest use.
const DefaultPort = 18515

// Conn is the connection to the peer's tool.
type Conn struct {
	c      net.Conn
	ctx    context.Context
	cancel func() bool
	client bool
}

// Error says which step of the exchange failed and, where that is known, what
// to do about it. It wraps the cause.
type Error struct {
	Step string // "connect to ...", "read the peer's keys"
	Err  error
	Hint string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", e.Step, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ErrPeerClosed is a connection that the peer closed in the middle of the exchange.
var ErrPeerClosed = errors.New("the peer closed the connection")

// Dial connects to the server's tool. A valid source is the local address to use.
func Dial(ctx context.Context, host string, port int, source netip.Addr) (*Conn, error) {
	var d net.Dialer
	if source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	target := net.JoinHostPort(host, strconv.Itoa(port))
	c, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := &Error{Step: "connect to " + target, Err: err}
		if errors.Is(err, syscall.ECONNREFUSED) {
			e.Hint = "nothing listens there: start the same tool without a host on that machine first"
		}
		return nil, e
	}
	return newConn(ctx, c, true), nil
}

// Listener waits for the one client that a server of these tools serves.
type Listener struct {
	l net.Listener
}

// Listen opens the server's port. Port 0 takes any free port; a valid source
// is the only local address to listen on.
func Listen(ctx context.Context, port int, source netip.Addr) (*Listener, error) {
	host := ""
	if source.IsValid() {
		host = source.String()
	}
	target := net.JoinHostPort(host, strconv.Itoa(port))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", target)
	if err != nil {
		e := &Error{Step: "listen on TCP port " + strconv.Itoa(port), Err: err}
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			e.Hint = "another server runs there: choose another port with -p on both sides"
		case errors.Is(err, syscall.EACCES):
			e.Hint = "ports below 1024 are for root: choose a higher one with -p on both sides"
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			e.Hint = "that is not an address of this machine"
		}
		return nil, e
	}
	return &Listener{l: l}, nil
}

// Addr returns the address that the listener is on.
func (l *Listener) Addr() netip.AddrPort {
	return l.l.Addr().(*net.TCPAddr).AddrPort()
}

// Accept waits for a client and stops listening, as the originals do.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { l.l.Close() })
	defer stop()
	c, err := l.l.Accept()
	l.l.Close()
	if ctx.Err() != nil {
		if err == nil {
			c.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &Error{Step: "accept a client", Err: err}
	}
	return newConn(ctx, c, false), nil
}

func newConn(ctx context.Context, c net.Conn, client bool) *Conn {
	oc := &Conn{c: c, ctx: ctx, client: client}
	// A deadline in the past ends any read or write that is under way.
	oc.cancel = context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	return oc
}

// Client reports whether this side connected, rather than accepted.
func (c *Conn) Client() bool { return c.client }

// LocalAddr returns this side's address of the TCP connection.
func (c *Conn) LocalAddr() netip.Addr {
	return c.c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// Write sends one message; what names it in errors.
func (c *Conn) Write(what string, msg []byte) error {
	if _, err := c.c.Write(msg); err != nil {
		return c.fail("send "+what, err)
	}
	return nil
}

// Read receives one message of exactly len(msg) bytes.
func (c *Conn) Read(what string, msg []byte) error {
	if _, err := io.ReadFull(c.c, msg); err != nil {
		return c.fail("read "+what, err)
	}
	return nil
}

// Swap exchanges one message: the client writes first and then reads, the server reads first and
// then writes, so that a server's answer also says that it got here.
func (c *Conn) Swap(what string, mine, theirs []byte) error {
	if c.client {
		if err := c.Write(what, mine); err != nil {
			return err
		}
		return c.Read("the peer's "+what, theirs)
	}
	if err := c.Read("the peer's "+what, theirs); err != nil {
		return err
	}
	return c.Write(what, mine)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.cancel()
	return c.c.Close()
}

func (c *Conn) fail(step string, err error) error {
	if c.ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(c.ctx)
	}
	e := &Error{Step: step, Err: err}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		e.Err = fmt.Errorf("%w (%w)", ErrPeerClosed, err)
		e.Hint = "its own output says why; both sides must run the same test with the same options"
	}
	return e
}
