package rstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// Kind is one of the two tools.
type Kind struct {
	Name    string
	Summary string
	Mapped  bool // transfers go into mappings
	// Run runs one test on a connection, whose clock starts at the call of
	// its argument.
	Run func(s *Session, t Test, start func()) error
}

// Command returns the subcommand rstream.
func Command() tool.Command {
	return (&Kind{
		Name: "rstream", Summary: "streams over rsocket back and forth, as rstream", Run: stream,
	}).Command()
}

// Command returns the subcommand of a kind.
func (k *Kind) Command() tool.Command {
	return tool.Command{Name: k.Name, Summary: k.Summary, Run: func(ctx context.Context, env *tool.Env, args []string) error {
		o, err := parse(k, args)
		if err != nil {
			return err
		}
		for _, h := range []string{o.Server, o.Bind} {
			if err := o.numeric(h); err != nil {
				return err
			}
		}
		return run(ctx, env, k, o)
	}}
}

// Session is one run.
type Session struct {
	Ctx  context.Context
	Opt  *Options
	Conn net.Conn // an *rsocket.Conn, except with -T sockets
	Buf  []byte
	Sent Pattern
	Got  Pattern

	k        *Kind
	env      *tool.Env
	dev      *verbs.Device
	listener net.Listener
}

func run(ctx context.Context, env *tool.Env, k *Kind, o *Options) (err error) {
	s := &Session{Ctx: ctx, Opt: o, k: k, env: env}
	local, remote, err := s.addresses()
	if err != nil {
		return err
	}
	if !o.TCP {
		release, err := s.open(local.Addr(), remote.Addr())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	// A signal ends every wait.
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	if o.Server == "" {
		if err := s.listen(local); err != nil {
			return err
		}
		defer s.listener.Close()
	}
	return s.tests(local, remote)
}

// tests runs what is to be run, with a connection for each part of the table.
func (s *Session) tests(local, remote netip.AddrPort) error {
	o := s.Opt
	header(s.env.Stdout)
	parts := [][]Test{{o.Test}}
	if !o.Custom {
		parts = [][]Test{nil, nil}
		for _, n := range sizes(o.All) {
			parts[0] = append(parts[0], latency(n))
			parts[1] = append(parts[1], throughput(n))
		}
	}
	largest := syncBytes
	for _, t := range parts[0] {
		largest = max(largest, t.Size)
	}
	s.Buf = make([]byte, largest)
	for _, part := range parts {
		if err := s.connect(local, remote); err != nil {
			return err
		}
		for _, t := range part {
			if err := s.measure(t); err != nil {
				return errors.Join(err, s.Conn.Close())
			}
		}
		if err := s.Conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one test and prints its line.
func (s *Session) measure(t Test) error {
	var start time.Time
	err := s.k.Run(s, t, func() { start = time.Now() })
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	t.row(s.env.Stdout, time.Since(start))
	return nil
}

// Client reports whether this side begins.
func (s *Session) Client() bool { return s.Opt.Server != "" }

// Sync exchanges a few bytes both ways, so that both sides are ready. With
// verify they are part of the pattern.
func (s *Session) Sync(verify bool) error {
	b := s.Buf[:syncBytes]
	if s.Client() {
		return errors.Join(s.send(b, verify), s.recv(b, verify))
	}
	if err := s.recv(b, verify); err != nil {
		return err
	}
	return s.send(b, verify)
}

func (s *Session) send(b []byte, verify bool) error {
	if verify {
		s.Sent.Fill(b)
	}
	_, err := s.Conn.Write(b)
	return err
}

func (s *Session) recv(b []byte, verify bool) error {
	if _, err := io.ReadFull(s.Conn, b); err != nil {
		return err
	}
	if verify {
		return s.Got.Check(b)
	}
	return nil
}

// stream is a test of rstream.
func stream(s *Session, t Test, start func()) error {
	if err := s.Sync(s.Opt.Verify); err != nil {
		return err
	}
	start()
	first, second := s.send, s.recv
	if !s.Client() {
		first, second = s.recv, s.send
	}
	b := s.Buf[:t.Size]
	for range t.Iterations {
		for _, step := range []func([]byte, bool) error{first, second} {
			for range t.Transfers {
				if err := step(b, s.Opt.Verify); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// interrupt makes everything that waits return.
func (s *Session) interrupt() {
	if s.dev != nil {
		_ = s.dev.Close() // closed again, which is checked, at the end
	}
}

// addresses resolves -b and -s.
func (s *Session) addresses() (local, remote netip.AddrPort, err error) {
	if local, err = s.lookup(s.Opt.Bind); err == nil {
		remote, err = s.lookup(s.Opt.Server)
	}
	return local, remote, err
}

func (s *Session) lookup(host string) (netip.AddrPort, error) {
	if host == "" {
		return netip.AddrPort{}, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(s.Ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(all[0].Unmap(), uint16(s.Opt.Port)), nil
}

// open opens the device: where the options say; else on the local address; else
// where the kernel would reach the server from.
func (s *Session) open(local, remote netip.Addr) (release func() error, err error) {
	o := s.Opt.Dev
	if o.Addr == "" && o.Dev == "" && local.IsValid() && !local.IsUnspecified() {
		o.Addr = local.String()
	}
	host, ipv6 := "", local.Is6()
	if remote.IsValid() && !remote.IsUnspecified() {
		host, ipv6 = remote.String(), remote.Is6()
	}
	place, err := o.Choose(host, ipv6)
	if err != nil {
		return nil, err
	}
	s.dev, release, _, err = o.Open(s.env, place)
	return release, err
}

func (s *Session) listen(local netip.AddrPort) (err error) {
	if !local.IsValid() {
		local = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(s.Opt.Port))
	}
	if s.Opt.TCP {
		var lc net.ListenConfig
		host := local.Addr().String()
		if s.Opt.Bind == "" {
			host = ""
		}
		s.listener, err = lc.Listen(s.Ctx, "tcp", net.JoinHostPort(host, portString(s.Opt.Port)))
	} else {
		lc := rsocket.ListenConfig{Device: s.dev, Config: s.Opt.socket()}
		s.listener, err = lc.ListenAddr(local)
	}
	if err != nil {
		return err
	}
	at := addrPort(s.listener.Addr())
	if at.Addr().IsUnspecified() && s.dev != nil {
		at = netip.AddrPortFrom(s.dev.Addrs()[0], at.Port())
	}
	fmt.Fprintf(s.env.Stderr, "%s: listening on %v\n", s.k.Name, at)
	if s.env.Listening != nil {
		s.env.Listening(at)
	}
	return nil
}

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case rsocket.Addr:
		return a.AddrPort
	case *net.TCPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// connect makes the connection.
func (s *Session) connect(local, remote netip.AddrPort) (err error) {
	switch {
	case !s.Client():
		s.showKeepAlive() // the original sets it on both sockets
		s.Conn, err = s.accept()
	case s.Opt.TCP:
		var d net.Dialer
		if local.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(local)
		}
		s.Conn, err = d.DialContext(s.Ctx, "tcp", remote.String())
	default:
		d := rsocket.Dialer{Device: s.dev, Config: s.Opt.socket(), LocalAddr: local}
		var c *rsocket.Conn
		if c, err = d.DialAddr(s.Ctx, remote); err == nil {
			s.Conn = c
		}
	}
	if err != nil {
		return err
	}
	s.showKeepAlive()
	if s.Opt.TCP {
		context.AfterFunc(s.Ctx, func() { s.Conn.Close() })
	}
	return nil
}

func (s *Session) accept() (net.Conn, error) {
	if s.Opt.TCP {
		stop := context.AfterFunc(s.Ctx, func() { s.listener.Close() })
		defer stop()
	}
	return s.listener.Accept()
}

func (s *Session) showKeepAlive() {
	if s.Opt.KeepAlive > 0 {
		fmt.Fprintf(s.env.Stdout, "Keepalive: ON\n  time: %d\n", s.Opt.KeepAlive)
	}
}
