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
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
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
	// PingTime bounds a round of round trips; 0 is 1.5 s.
	PingTime time.Duration
	// Pings is how many round trips a round has; 0 is 2000, or 20,000 with Full.
	Pings int
	// LockTime is how long locks are watched; 0 is 500 ms.
	LockTime time.Duration
	// SocketTime is how long a measurement of sockets takes; 0 is 250 ms, or RoundMs if that is
	// more.
	SocketTime time.Duration
	// LoadTime is how long a measurement of contended takes; 0 is 300 ms, or 1 s with Full or Only.
	LoadTime time.Duration
	// Only picks cases of contended by their names, of all that Full has; nil: no choice is made.
	Only *regexp.Regexp
	// Pin keeps each node to a CPU of its own.
	Pin bool
	// Loopback measures without namespaces even if they are permitted.
	Loopback bool
	Logf     func(string, ...any)
}

// Items are the names of what is run unless something else is asked for.
var Items = []string{"single", "latency", "sockets", "scale", "shards", "engine", "verbs"}

// Contended is an item that is a run of its own: it takes as long as all the others.
const Contended = report.ItemContended

// Suite is a run.
type Suite struct {
	o   Options
	r   *report.Report
	net *network
	nodes
	beside []nodes // that do the same as nodes at a time
	free   nodes   // that the scheduler may move, but for Options.Pin; never changed
}

// nodes are the two ends.
type nodes struct {
	a, b *node.Peer
	tcp  netip.AddrPort
}

// New makes the network and starts the nodes.
func New(o Options, r *report.Report) (*Suite, error) {
	s := &Suite{o: o, r: r}
	var err error
	if o.Loopback {
		s.net = loopback("as asked for")
	} else if s.net, err = newNetwork(); err != nil {
		return nil, err
	}
	a, b, err := o.places()
	if err == nil {
		s.free, err = start(s.net, a, b)
	}
	if err != nil {
		return nil, errors.Join(err, s.net.Close())
	}
	s.nodes = s.free
	if o.Pin {
		s.note("each node is kept to one CPU: %d and %d", a.CPUs[0], b.CPUs[0])
	}
	r.Network = s.net.Kind
	if os.Getenv(node.EnvUnprivileged) != "" {
		s.note("the nodes have no privileges: socket buffers are what net.core.rmem_max and wmem_max grant")
	}
	return s, nil
}

// places returns where the nodes are to run.
func (o *Options) places() (a, b node.Place, err error) {
	if !o.Pin {
		return a, b, nil
	}
	cpus, err := node.CPUs()
	if err == nil && len(cpus) < 2 {
		err = errors.New("there is one CPU, and the two nodes cannot have one each")
	}
	if err != nil {
		return a, b, err
	}
	return node.Place{CPUs: cpus[:1]}, node.Place{CPUs: cpus[1:2]}, nil
}

// start starts nodes at their places.
func start(net *network, a, b node.Place) (n nodes, err error) {
	counter, err := node.NewCounter()
	if err == nil {
		defer counter.Close()
		n.a, err = node.Start(counter, a, net.A.Start)
	}
	if err == nil {
		n.b, err = node.Start(counter, b, net.B.Start)
	}
	if err == nil {
		n.tcp, err = node.Call[netip.Addr, netip.AddrPort](n.b, "Listen", net.B.Addr)
	}
	if err != nil {
		return nodes{}, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *nodes) close() error {
	var err error
	for _, p := range []*node.Peer{n.a, n.b} {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
	}
	return err
}

// Close ends the nodes and the network.
func (s *Suite) Close() error {
	return errors.Join(s.free.close(), s.net.Close())
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
	spin      time.Duration // see node.OpenArgs
	noOffload bool
	raw       bool // the link of the ceiling too
	noDevice  bool // only that
	frames    int  // see node.LinkArgs
	qps, wrs  int
	cqs       int // see node.OpenArgs
	shards    int
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
		l := node.LinkArgs{Link: o.link, Addr: x.self, Port: rawPort, NoOffload: o.noOffload, Frames: o.frames}
		if o.raw {
			if err := node.Do(x.p, "RawOpen", l); err != nil {
				return err
			}
			if err := node.Do(x.p, "RawConnect", x.to); err != nil {
				return err
			}
		}
		if o.noDevice {
			continue
		}
		l.Port = devicePort
		if err := node.Do(x.p, "Open", node.OpenArgs{
			LinkArgs: l, Polling: o.polling, Spin: o.spin, CQE: 4 * o.qps, CQs: o.cqs, Shards: o.shards,
		}); err != nil {
			return err
		}
		recvs := o.wrs
		if o.qps <= max(1, o.cqs) {
			recvs *= 2 // see recvDepth
		}
		e, err := node.Call[node.QPArgs, node.Remote](x.p, "AddQPs",
			node.QPArgs{N: o.qps, SendWR: o.wrs, RecvWR: recvs})
		if err != nil {
			return err
		}
		ends = append(ends, e)
	}
	for i, x := range sides[:len(ends)] {
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
	u, err := s.usage()
	return u.CPU, err
}

// usage is the CPU time and the cycles of both nodes so far.
func (s *Suite) usage() (node.Usage, error) {
	a, err := node.Call[bool, node.Usage](s.a, "Usage", false)
	if err != nil {
		return a, err
	}
	b, err := node.Call[bool, node.Usage](s.b, "Usage", false)
	return node.Usage{CPU: a.CPU + b.CPU, Cycles: a.Cycles + b.Cycles}, err
}

// serving runs f while the other node serves.
func (s *Suite) serving(method string, a node.ServeArgs, f func() error) error {
	if err := node.Do(s.b, method, a); err != nil {
		return err
	}
	return errors.Join(f(), node.Do(s.b, "Stop", struct{}{}))
}

// probe leaves out links that cannot be opened here, which is noted, and says how the others
// are attached.
func (s *Suite) probe() error {
	var links []string
	for _, l := range s.o.Links {
		var c link.Capabilities
		err := s.with(setup{link: l, raw: true, noDevice: true}, func() (err error) {
			c, err = node.Call[struct{}, link.Capabilities](s.a, "RawCapabilities", struct{}{})
			return err
		})
		if err != nil {
			s.note("%s: not measured: %v", l, err)
			continue
		}
		links = append(links, l)
		s.r.Links = append(s.r.Links, describe(&c))
	}
	if len(links) == 0 {
		return errors.New("no link can be measured")
	}
	s.o.Links = links
	return nil
}

// describe is a link in words.
func describe(c *link.Capabilities) string {
	with := []string{fmt.Sprintf("ICRC checked with %d bits over IPv4", c.ICRCBits)}
	if c.Mode != "" {
		with = append(with, c.Mode)
	}
	for _, x := range []struct {
		on   bool
		name string
	}{{c.GSO, "GSO"}, {c.GRO, "GRO"}} {
		if x.on {
			with = append(with, x.name)
		} else {
			with = append(with, "no "+x.name)
		}
	}
	return c.Name + ": " + strings.Join(with, ", ")
}

// Run runs the items. What an item could not do becomes a note, so that the others still
// run; the error says so too.
func (s *Suite) Run() error {
	began := time.Now()
	defer func() { s.r.Seconds = time.Since(began).Seconds() }()
	if err := s.probe(); err != nil {
		return err
	}
	var errs error
	for _, item := range s.o.Items {
		f := map[string]func() error{
			"single": s.single, "latency": s.latency, "sockets": s.sockets, "scale": s.scale,
			"shards": s.shards, "engine": s.engine, "verbs": s.verbs, Contended: s.contended,
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
