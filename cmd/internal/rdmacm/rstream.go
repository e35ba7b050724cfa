package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// streamSession is one run.
type streamSession struct {
	Ctx  context.Context
	Opt  *streamOptions
	Conn net.Conn // an *rsocket.Conn, except with -T sockets
	Buf  []byte
	Sent streamPattern
	Got  streamPattern

	env      *tool.Env
	dev      *verbs.Device
	listener net.Listener
}

func (o *streamOptions) run(ctx context.Context, env *tool.Env) (err error) {
	s := &streamSession{Ctx: ctx, Opt: o, env: env}
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
func (s *streamSession) tests(local, remote netip.AddrPort) error {
	o := s.Opt
	streamHeader(s.env.Stdout)
	parts := [][]streamTest{{o.Test}}
	if !o.Custom {
		parts = [][]streamTest{nil, nil}
		for _, n := range streamSizes(o.All) {
			parts[0] = append(parts[0], latencyTest(n))
			parts[1] = append(parts[1], throughputTest(n))
		}
	}
	largest := streamSyncBytes
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
func (s *streamSession) measure(t streamTest) error {
	var start time.Time
	test := stream
	if s.Opt.mapped {
		test = mapped
	}
	err := test(s, t, func() { start = time.Now() })
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	t.row(s.env.Stdout, time.Since(start))
	return nil
}

// Client reports whether this side begins.
func (s *streamSession) Client() bool { return s.Opt.Server != "" }

// Sync exchanges a few bytes both ways, so that both sides are ready. With
// verify they are part of the pattern.
func (s *streamSession) Sync(verify bool) error {
	b := s.Buf[:streamSyncBytes]
	if s.Client() {
		return errors.Join(s.send(b, verify), s.recv(b, verify))
	}
	if err := s.recv(b, verify); err != nil {
		return err
	}
	return s.send(b, verify)
}

func (s *streamSession) send(b []byte, verify bool) error {
	if verify {
		s.Sent.Fill(b)
	}
	_, err := s.Conn.Write(b)
	return err
}

func (s *streamSession) recv(b []byte, verify bool) error {
	if _, err := io.ReadFull(s.Conn, b); err != nil {
		return err
	}
	if verify {
		return s.Got.Check(b)
	}
	return nil
}

// stream is a test of rstream.
func stream(s *streamSession, t streamTest, start func()) error {
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
func (s *streamSession) interrupt() {
	if s.dev != nil {
		_ = s.dev.Close() // closed again, which is checked, at the end
	}
}

// addresses resolves -b and -s.
func (s *streamSession) addresses() (local, remote netip.AddrPort, err error) {
	if local, err = s.lookup(s.Opt.Bind); err == nil {
		remote, err = s.lookup(s.Opt.Server)
	}
	return local, remote, err
}

func (s *streamSession) lookup(host string) (netip.AddrPort, error) {
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
func (s *streamSession) open(local, remote netip.Addr) (release func() error, err error) {
	o := s.Opt.DeviceOptions
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

func (s *streamSession) listen(local netip.AddrPort) (err error) {
	if !local.IsValid() {
		local = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(s.Opt.Port))
	}
	if s.Opt.TCP {
		var lc net.ListenConfig
		host := local.Addr().String()
		if s.Opt.Bind == "" {
			host = ""
		}
		s.listener, err = lc.Listen(s.Ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(s.Opt.Port)))
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
	fmt.Fprintf(s.env.Stderr, "%s: listening on %v\n", s.Opt.name(), at)
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
func (s *streamSession) connect(local, remote netip.AddrPort) (err error) {
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

func (s *streamSession) accept() (net.Conn, error) {
	if s.Opt.TCP {
		stop := context.AfterFunc(s.Ctx, func() { s.listener.Close() })
		defer stop()
	}
	return s.listener.Accept()
}

func (s *streamSession) showKeepAlive() {
	if s.Opt.KeepAlive > 0 {
		fmt.Fprintf(s.env.Stdout, "Keepalive: ON\n  time: %d\n", s.Opt.KeepAlive)
	}
}
