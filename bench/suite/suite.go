// Package suite runs the measurements of the project: two nodes, in two network
// namespaces where that is permitted, and in every round goroce, the same link with no
// protocol on top, and TCP, one after the other. All ratios are of figures from the same
// round; what is reported is the median over the rounds.
//
// # Limits
//
// Linux. The figures of a machine that does other things at the same time mean little
// each by itself; the ratios hold better, and the report says how much else ran.
package suite

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/bench/netlab"
	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

// UDP ports of the device and of the ceiling.
const (
	devicePort = ib.UDPPort
	rawPort    = 4801
)

// Options say what to run.
type Options struct {
	Items   []string // of Items
	Links   []string
	Full    bool
	Rounds  int
	RoundMs int
	// Loopback measures without namespaces even if they are permitted.
	Loopback bool
	Logf     func(string, ...any)
}

// Items are the names of what can be run.
var Items = []string{"single", "latency", "scale", "engine"}

// Suite is a run.
type Suite struct {
	o    Options
	r    *report.Report
	net  *netlab.Net
	a, b *node.Peer
	tcp  netip.AddrPort
}

// New makes the network and starts the nodes.
func New(o Options, r *report.Report) (*Suite, error) {
	s := &Suite{o: o, r: r}
	var err error
	if o.Loopback {
		s.net = netlab.Loopback("as asked for")
	} else if s.net, err = netlab.New(); err != nil {
		return nil, err
	}
	counter, err := node.NewCounter()
	if err == nil {
		defer counter.Close()
		s.a, err = node.Start(counter, s.net.A.Start)
	}
	if err == nil {
		s.b, err = node.Start(counter, s.net.B.Start)
	}
	if err == nil {
		s.tcp, err = node.Call[netip.Addr, netip.AddrPort](s.b, "Listen", s.net.B.Addr)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	r.Network = s.net.Kind
	return s, nil
}

// Close ends the nodes and the network.
func (s *Suite) Close() error {
	var err error
	for _, p := range []*node.Peer{s.a, s.b} {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
	}
	return errors.Join(err, s.net.Close())
}

func (s *Suite) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	s.o.Logf("%s", n)
	s.r.Notes = append(s.r.Notes, n)
}

func (s *Suite) ns() int64 { return int64(s.o.RoundMs) * int64(time.Millisecond) }

// setup is what both nodes open.
type setup struct {
	link      string
	polling   bool
	noOffload bool
	raw       bool // the link of the ceiling too
	qps, wrs  int
	mtu       ib.MTU
}

// open opens devices, and connects their queue pairs.
func (s *Suite) open(o setup) error {
	sides := []struct {
		p        *node.Peer
		self, to netip.Addr
	}{{s.a, s.net.A.Addr, s.net.B.Addr}, {s.b, s.net.B.Addr, s.net.A.Addr}}
	var ends []node.Remote
	for _, x := range sides {
		l := node.LinkArgs{Link: o.link, Addr: x.self, Port: devicePort, NoOffload: o.noOffload}
		if err := node.Do(x.p, "Open", node.OpenArgs{LinkArgs: l, Polling: o.polling, CQE: 4 * o.qps}); err != nil {
			return err
		}
		if o.raw {
			l.Port = rawPort
			if err := node.Do(x.p, "RawOpen", l); err != nil {
				return err
			}
			if err := node.Do(x.p, "RawConnect", x.to); err != nil {
				return err
			}
		}
		e, err := node.Call[node.QPArgs, node.Remote](x.p, "AddQPs", node.QPArgs{N: o.qps, SendWR: o.wrs, RecvWR: o.wrs})
		if err != nil {
			return err
		}
		ends = append(ends, e)
	}
	for i, x := range sides {
		if err := node.Do(x.p, "Connect", node.ConnectArgs{Remote: ends[1-i], MTU: o.mtu}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) closeDevices() error {
	return errors.Join(node.Do(s.a, "Close", struct{}{}), node.Do(s.b, "Close", struct{}{}))
}

// with runs f with devices open.
func (s *Suite) with(o setup, f func() error) error {
	err := s.open(o)
	if err == nil {
		err = f()
	}
	return errors.Join(err, s.closeDevices())
}

// cpu is the CPU time of both nodes so far, in seconds.
func (s *Suite) cpu() (float64, error) {
	a, err := node.Call[bool, node.Usage](s.a, "Usage", false)
	if err != nil {
		return 0, err
	}
	b, err := node.Call[bool, node.Usage](s.b, "Usage", false)
	return a.CPU + b.CPU, err
}

// serving runs f while the other node serves.
func (s *Suite) serving(method string, a node.ServeArgs, f func() error) error {
	if err := node.Do(s.b, method, a); err != nil {
		return err
	}
	return errors.Join(f(), node.Do(s.b, "Stop", struct{}{}))
}

// Run runs the items. What an item could not do becomes a note, so that the others still
// run; the error says so too.
func (s *Suite) Run() error {
	var errs error
	for _, item := range s.o.Items {
		f := map[string]func() error{
			"single": s.single, "latency": s.latency, "scale": s.scale, "engine": s.engine,
		}[item]
		if f == nil {
			return fmt.Errorf("no item %q", item)
		}
		start := time.Now()
		if err := f(); err != nil {
			s.note("%s: not complete: %v", item, err)
			errs = errors.Join(errs, fmt.Errorf("%s: %w", item, err))
		}
		s.o.Logf("%s: %.0f s", item, time.Since(start).Seconds())
	}
	return errs
}

// SelfUsage sums the CPU seconds of this process and the nodes.
func (s *Suite) SelfUsage() float64 {
	c, err := s.cpu()
	if err != nil {
		s.o.Logf("CPU time of the nodes: %v", err)
	}
	return c
}
