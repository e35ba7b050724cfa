package perftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// session is one run of one test, from the TCP connection to the report.
type session struct {
	env      *tool.Env
	o        *Options
	p        printer
	place    tool.Place
	dev      *verbs.Device
	gidIndex int
	x        *exchange
	res      *resources
	rows     []any // for JSON
	mine     bwReport
	cm       *cmEnd // -R, -z
}

// Command returns the subcommand of test t.
func Command(t Test) tool.Command {
	return tool.Command{
		Name: t.Name(), Summary: t.Summary(),
		Run: func(ctx context.Context, env *tool.Env, args []string) error {
			o, err := parse(t, args)
			if err != nil {
				return err
			}
			return run(ctx, env, o)
		},
	}
}

// run does everything; whatever it made is gone when it returns.
func run(ctx context.Context, env *tool.Env, o *Options) (err error) {
	s := &session{env: env, o: o, p: printer{w: env.Stdout, o: o}}
	place, err := o.Choose(o.Host, o.IPv6 || o.IPv6Addr && (o.CM || o.ControlCM))
	if err != nil {
		return err
	}
	dev, release, place, err := o.Open(env, place)
	if err != nil {
		return err
	}
	s.dev, s.place = dev, place
	defer func() {
		if s.res != nil {
			err = errors.Join(err, s.res.free())
		}
		if s.cm != nil {
			err = errors.Join(err, s.cm.free())
		}
		if s.res != nil {
			err = errors.Join(err, s.res.freePD())
		}
		err = errors.Join(err, release())
	}()
	conn, err := s.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.x = &exchange{conn: conn}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.cm == nil {
		s.x.keepAlive = s.keepAlive
	}
	if err := s.converse(ctx); err != nil {
		return err
	}
	if s.cm != nil {
		if err := s.cm.hangUp(ctx); err != nil {
			return err
		}
	}
	if err := s.writeJSON(); err != nil {
		return err
	}
	return s.checkLimits()
}

// side is this side's name in messages.
func (s *session) side() string {
	if s.o.Host != "" {
		return "client"
	}
	return "server"
}

// meet connects to the peer's tool, or waits for it.
func (s *session) meet(ctx context.Context) (carrier, error) {
	var source netip.Addr
	if s.o.SourceIP != "" {
		var err error
		if source, err = netip.ParseAddr(s.o.SourceIP); err != nil {
			return nil, fmt.Errorf("--source_ip: %w", err)
		}
	}
	if s.o.CM || s.o.ControlCM {
		var err error
		if s.cm, err = s.openCM(ctx, source); err != nil {
			return nil, err
		}
		return s.cm.control, s.cm.meet(ctx)
	}
	if s.o.Host != "" {
		return oob.Dial(ctx, s.o.Host, s.o.Port, source)
	}
	l, err := oob.Listen(ctx, s.o.Port, source)
	if err != nil {
		return nil, err
	}
	s.p.waiting()
	if s.env.Listening != nil {
		s.env.Listening(l.Addr())
	}
	return l.Accept(ctx)
}

// prepare agrees on what both sides have to do alike, and makes what the test needs.
func (s *session) prepare(ctx context.Context) error {
	mtu := s.dev.Port().ActiveMTU
	if s.o.MTU != 0 {
		asked, _ := ib.MTUFromBytes(s.o.MTU)
		if asked > mtu {
			fmt.Fprintf(s.env.Stderr, "The MTU of %d is more than the port's %d, which is used instead\n",
				s.o.MTU, mtu.Bytes())
		}
		mtu = min(mtu, asked)
	}
	if s.o.NoVersions {
		s.x.withoutPreamble(mtu)
	} else if err := s.x.preamble(mtu); err != nil {
		return err
	}
	if most := s.x.mtu.Bytes(); s.o.Transport == ib.UD && s.o.Size > most {
		if s.o.sizeSet {
			return fmt.Errorf("-s %d is more than the MTU of %d: a UD message is one packet", s.o.Size, most)
		}
		s.o.Size = most
	}
	if err := s.chooseGID(); err != nil {
		return err
	}
	if err := s.allocate(); err != nil {
		return err
	}
	if s.o.CM {
		if err := s.cm.connectTest(ctx); err != nil {
			return err
		}
	}
	return s.fillKeys()
}

// chooseGID picks the local address to speak from: as told; or the one the TCP
// connection uses; or the first of the family asked for.
func (s *session) chooseGID() error {
	table := s.dev.Addrs()
	if i := s.o.GIDIndex; i >= 0 {
		var err error
		s.gidIndex, err = tool.GIDIndex("-x", i, table)
		return err
	}
	local := s.x.conn.LocalAddr()
	for i, a := range table {
		if a == local && a.Is6() == s.o.IPv6 {
			s.gidIndex = i
			return nil
		}
	}
	for i, a := range table {
		if a.Is6() == s.o.IPv6 {
			s.gidIndex = i
			return nil
		}
	}
	s.gidIndex = 0
	return nil
}

// keepAlive lets a device that works in its users' threads go on while this
// side waits on the TCP connection; stop ends it.
func (s *session) keepAlive() (stop func()) {
	if s.res == nil || s.res.idle == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Nothing ever completes on this queue: waiting on it does the work.
		var wc [1]verbs.WC
		_, _ = s.res.idle.Wait(ctx, wc[:])
	}()
	return func() {
		cancel()
		<-done
	}
}

// checkLimits is -w and -y.
func (s *session) checkLimits() error {
	if s.o.Test.Latency {
		return nil
	}
	if s.o.LimitBW > 0 && s.mine.Average < s.o.LimitBW {
		return fmt.Errorf("the bandwidth of %.2f is below the limit of %.2f", s.mine.Average, s.o.LimitBW)
	}
	if s.o.LimitRate > 0 && s.mine.Rate < s.o.LimitRate {
		return fmt.Errorf("the message rate of %.6f million/s is below the limit of %.6f", s.mine.Rate, s.o.LimitRate)
	}
	return nil
}
