package perftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
)

// session is one run of one test, from the TCP connection to the report.
type session struct {
	env      *tool.Env
	o        *Options
	p        printer
	place    tool.Place
	dev      *roce.Device
	gidIndex int
	x        *exchange
	res      *resources
	rows     []any // for JSON
	mine     bwReport
}

// Command returns the subcommand of test t.
func Command(t Test) tool.Command {
	return tool.Command{
		Name: t.Name(), Summary: t.Summary(),
		Run: func(ctx context.Context, env *tool.Env, args []string) error {
			o, err := Parse(t, args)
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
	place, err := o.Choose(o.Host, o.IPv6)
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
		err = errors.Join(err, release())
	}()
	conn, err := s.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.x = &exchange{conn: conn}
	if err := s.prepare(); err != nil {
		return err
	}
	s.x.keepAlive = s.keepAlive
	if err := s.converse(ctx); err != nil {
		return err
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
func (s *session) meet(ctx context.Context) (*oob.Conn, error) {
	var source netip.Addr
	if s.o.SourceIP != "" {
		var err error
		if source, err = netip.ParseAddr(s.o.SourceIP); err != nil {
			return nil, fmt.Errorf("--source_ip: %w", err)
		}
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

// prepare agrees on what both sides have to do alike, and makes what the test
// needs.
func (s *session) prepare() error {
	mtu := s.dev.Port().ActiveMTU
	if s.o.MTU != 0 {
		asked, _ := ib.MTUFromBytes(s.o.MTU)
		if asked > mtu {
			fmt.Fprintf(s.env.Stderr, "The MTU of %d is more than the port's %d, which is used instead\n", s.o.MTU, mtu.Bytes())
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
	return s.allocate()
}

// chooseGID picks the local address to speak from: as told; or the one the TCP
// connection uses; or the first of the family asked for.
func (s *session) chooseGID() error {
	table := s.dev.Addrs()
	if i := s.o.GIDIndex; i >= 0 {
		if i >= len(table) {
			return fmt.Errorf("-x %d: the GID table has %d entries (%v); --addr takes several addresses, with commas", i, len(table), table)
		}
		s.gidIndex = i
		return nil
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
		var wc [1]roce.WC
		_, _ = s.res.idle.Wait(ctx, wc[:])
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *session) barrier() error { return s.x.barrier() }

// converse is the test itself, in the order of messages that the original of
// each test has.
func (s *session) converse(ctx context.Context) error {
	s.p.banner(s.place.Name(), s.x.mtu, s.gidIndex, s.res.outReads)
	if err := s.introduce(); err != nil {
		return err
	}
	switch {
	case s.o.Test.Latency:
		return s.converseLatency(ctx)
	case s.o.Test.Verb == Send:
		return s.converseSend(ctx)
	case s.o.Bidirectional:
		return s.converseBoth(ctx)
	}
	return s.converseOneWay(ctx)
}

// introduce exchanges keys and connects the QPs. The keys are exchanged twice:
// the second time says that the sender's QPs are connected.
func (s *session) introduce() error {
	t := s.o.Test
	if t.Latency && t.Verb != Send {
		if err := s.barrier(); err != nil {
			return err
		}
	}
	if err := s.x.keys(); err != nil {
		return err
	}
	if err := s.connectQPs(); err != nil {
		return err
	}
	if t.Verb == Send {
		if err := s.barrier(); err != nil {
			return err
		}
	}
	for i := range s.x.mine {
		s.p.dest("local", &s.x.mine[i])
	}
	if err := s.x.keys(); err != nil {
		return err
	}
	for i := range s.x.peer {
		s.p.dest("remote", &s.x.peer[i])
	}
	if t.Verb != Send {
		return s.barrier()
	}
	return nil
}

// converseOneWay is WRITE, READ or atomics in one direction: the server does
// nothing but wait.
func (s *session) converseOneWay(ctx context.Context) error {
	if s.o.Driver() {
		s.p.head()
		for _, size := range s.sizes() {
			if err := s.driveOnce(ctx, size, nil); err != nil {
				return err
			}
		}
		s.p.foot()
		if err := s.barrier(); err != nil {
			return err
		}
		if _, err := s.x.swapReport(s.mine); err != nil {
			return err
		}
		return s.x.finish()
	}
	if s.o.Test.Verb != Atomic {
		s.p.head()
	} else {
		s.p.foot()
	}
	if err := s.barrier(); err != nil { // the client is through
		return err
	}
	theirs, err := s.x.swapReport(bwReport{})
	if err != nil {
		return err
	}
	s.row(theirs)
	s.p.foot()
	return s.x.finish()
}

// row prints a result and keeps it.
func (s *session) row(r bwReport) {
	s.mine = r
	s.rows = append(s.rows, r.json())
	s.p.bw(r)
}

// driveOnce measures one size; before, if not nil, is called between the
// warm-up and the measurement.
func (s *session) driveOnce(ctx context.Context, size int, before func() error) error {
	report, err := s.measure(ctx, size, before)
	if err != nil {
		return err
	}
	s.row(report)
	return nil
}

// measure runs the requester for one size.
func (s *session) measure(ctx context.Context, size int, before func() error) (bwReport, error) {
	s.walkAs(size)
	if s.o.WarmUp && s.o.Test.Verb != Send {
		if err := s.warmUp(ctx, size); err != nil {
			return bwReport{}, err
		}
	}
	if before != nil {
		if err := before(); err != nil {
			return bwReport{}, err
		}
	}
	r := s.newRunner(ctx)
	defer r.close()
	return r.requester(size, uint64(s.o.Iters)).run()
}

// warmUp sends one queue full of messages that do not count.
func (s *session) warmUp(ctx context.Context, size int) error {
	r := s.newRunner(ctx)
	defer r.close()
	r.watch = stopwatch{}
	q := r.requester(size, uint64(s.o.TxDepth))
	q.postedAt, q.doneAt = nil, nil
	_, err := q.run()
	return err
}

// converseBoth is WRITE, READ or atomics in both directions.
func (s *session) converseBoth(ctx context.Context) error {
	s.p.head()
	var theirs bwReport
	for _, size := range s.sizes() {
		mine, err := s.measure(ctx, size, s.barrier)
		if err != nil {
			return err
		}
		if s.o.All {
			if err := s.barrier(); err != nil {
				return err
			}
		}
		if theirs, err = s.x.swapReport(mine); err != nil {
			return err
		}
		s.row(mine.plus(theirs))
		if s.o.ReportBoth && !s.o.All {
			s.p.both(mine, theirs)
		}
	}
	s.p.foot()
	return s.x.finish()
}

// converseSend is SEND in one or both directions: both sides measure.
func (s *session) converseSend(ctx context.Context) error {
	s.p.head()
	for _, size := range s.sizes() {
		if err := s.sendOnce(ctx, size); err != nil {
			return err
		}
		if s.o.All {
			if err := s.barrier(); err != nil {
				return err
			}
		}
	}
	s.p.foot()
	return s.x.finish()
}

func (s *session) sendOnce(ctx context.Context, size int) error {
	r := s.newRunner(ctx)
	defer r.close()
	s.walkAs(size)
	iters := uint64(s.o.Iters)
	var v *receiver
	if s.o.receives() {
		var err error
		if v, err = r.receiver(size, iters); err != nil {
			return err
		}
	}
	if err := s.barrier(); err != nil { // receives are posted
		return err
	}
	var report bwReport
	var err error
	switch {
	case v == nil:
		report, err = r.requester(size, iters).run()
	case s.o.Bidirectional:
		report, err = runBoth(r.requester(size, iters), v)
	default:
		report, err = v.run(size)
	}
	if err != nil {
		return err
	}
	if !s.o.Bidirectional || s.o.durationSet {
		s.row(report)
		return nil
	}
	theirs, err := s.x.swapReport(report)
	if err != nil {
		return err
	}
	s.row(report.plus(theirs))
	if s.o.ReportBoth && !s.o.All {
		s.p.both(report, theirs)
	}
	return nil
}

// lingerAfterTime is how long write_lat with -D keeps answering after its time
// is up: nothing tells the peer, whose last WRITE may still be on its way.
const lingerAfterTime = 200 * time.Millisecond

func (s *session) linger(ctx context.Context) {
	defer s.keepAlive()()
	select {
	case <-time.After(lingerAfterTime):
	case <-ctx.Done():
	}
}

func (s *session) converseLatency(ctx context.Context) error {
	v := s.o.Test.Verb
	if v >= Read && !s.o.Driver() {
		err := s.x.finish() // waits for the client's end
		s.p.foot()
		return err
	}
	s.p.head()
	for _, size := range s.sizes() {
		if err := s.runLatency(ctx, size); err != nil {
			return err
		}
	}
	switch v {
	case Write:
		s.p.foot()
		if s.o.durationSet {
			s.linger(ctx)
		}
		return s.x.conn.Close()
	case Send:
		s.p.foot()
		return s.x.finish()
	}
	if err := s.x.finish(); err != nil {
		return err
	}
	s.p.foot()
	return nil
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
