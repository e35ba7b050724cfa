package suite

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/quota"
	"github.com/goroce/goroce/bench/report"
)

// How long a measurement of contended takes: as long as ten periods of a quota, or as three.
const (
	loadTime      = time.Second
	loadTimeQuick = 300 * time.Millisecond
	// warmShare is which part of it comes before, and does not count.
	warmShare = 5
	// serverTimes is how many times as long it takes where a server computes, which may answer 25
	// requests a second, or where processes wait for each other's time slices.
	serverTimes = 3
	// computeOn is how many goroutines compute in a server; in a neighbour it is one.
	computeOn = 2
	// pairs is how many pairs of nodes run at a time where there are far more processes than CPUs.
	pairs = 8
)

// setting is what the two ends have of the machine.
type setting struct {
	name   string
	a, b   node.Place
	quota  float64 // CPUs of each; 0: no limit
	beside []int   // CPUs that a neighbour computes on
	// server computes.
	server bool
	// pairs of nodes do the same at a time; 0: one does.
	pairs int
}

// settings returns those of this machine, and notes what it has not got.
func (s *Suite) settings() ([]setting, error) {
	cpus, err := node.CPUs()
	if err != nil {
		return nil, err
	}
	all := []setting{{name: report.FreeCPUs}}
	for _, q := range []float64{1, 0.5, 0.2} {
		all = append(all, setting{name: report.Quota(q), quota: q})
	}
	one := node.Place{CPUs: cpus[:1]}
	all = append(all, setting{name: report.OneCPU, a: one, b: one})
	if len(cpus) < 2 {
		s.note("contended: with one CPU, the two ends cannot have one each, and there is no other for a neighbour")
		return append(all, setting{name: report.BusyEach, beside: cpus}, setting{name: report.Pairs, pairs: pairs}), nil
	}
	two := node.Place{CPUs: cpus[:2]}
	return append(all,
		setting{name: report.OwnCPU, a: one, b: node.Place{CPUs: cpus[1:2]}},
		setting{name: report.BusyEach, a: two, b: two, beside: cpus[:2]},
		setting{name: report.BusyOne, a: two, b: two, beside: cpus[1:2]},
		setting{name: report.Pairs, a: two, b: two, pairs: pairs},
		setting{name: report.BusyServer, b: node.Place{Procs: 1}, server: true}), nil
}

// loadCase is what is done on a number of connections, by each of several means and by TCP.
type loadCase struct {
	size, conns int
	by          []string
}

// loads returns those of a setting.
func (s *Suite) loads(set *setting) (all []loadCase) {
	sockets := []string{node.ByRSocket, node.ByConn}
	sizes, conns, streams := []int{128}, []int{1, 16}, []int(nil)
	if s.allLoads() {
		sizes, conns, streams = []int{128, 4 << 10}, []int{1, 4, 16, 64}, []int{1, 4, 16}
	}
	if set.server {
		sockets, sizes, streams = append(sockets, node.ByRead), sizes[:1], nil
		if conns = conns[:1]; s.allLoads() {
			conns = []int{1, 16}
		}
	}
	if set.pairs > 0 {
		sizes, conns, streams = sizes[:1], conns[:1], nil
	}
	for _, size := range sizes {
		for _, n := range conns {
			all = append(all, loadCase{size, n, sockets})
		}
	}
	for _, n := range streams {
		all = append(all, loadCase{0, n, sockets})
	}
	var kept []loadCase
	for _, l := range all {
		var by []string
		for _, b := range l.by {
			if s.o.Only == nil || s.o.Only.MatchString(report.ContendedName(set.name, l.size, l.conns, b)) {
				by = append(by, b)
			}
		}
		if len(by) > 0 {
			kept = append(kept, loadCase{l.size, l.conns, by})
		}
	}
	return kept
}

// allLoads reports whether all are measured, or picked from.
func (s *Suite) allLoads() bool { return s.o.Full || s.o.Only != nil }

func (s *Suite) loadTime(set *setting) time.Duration {
	t := loadTimeQuick
	if s.allLoads() {
		t = loadTime
	}
	if set.server || set.pairs > 0 {
		t *= serverTimes
	}
	return cmp.Or(s.o.LoadTime, max(t, time.Duration(s.ns())))
}

// contended is programs that do not have the machine to themselves.
func (s *Suite) contended() error {
	all, err := s.settings()
	if err != nil {
		return err
	}
	var errs error
	found := false
	for _, set := range all {
		ls := s.loads(&set)
		if len(ls) == 0 {
			continue
		}
		found = true
		if err := s.inSetting(&set, ls); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", set.name, err))
		}
	}
	if !found {
		return fmt.Errorf("no case has a name that matches %q", s.o.Only)
	}
	return errs
}

// inSetting measures with nodes of their own.
func (s *Suite) inSetting(set *setting, ls []loadCase) (err error) {
	if set.quota > 0 {
		for _, end := range []struct {
			name string
			at   *node.Place
		}{{"a", &set.a}, {"b", &set.b}} {
			g, err := quota.New(fmt.Sprintf("goroce-bench-%d-%s", os.Getpid(), end.name), set.quota)
			if err != nil {
				s.note("contended: %s: not measured: it needs root, and control groups: %v", set.name, err)
				return nil
			}
			defer func() { err = errors.Join(err, g.Close()) }()
			end.at.Group = g.Dir()
		}
	}
	n, err := start(s.net, set.a, set.b)
	if err != nil {
		return err
	}
	all := []nodes{n}
	for len(all) < set.pairs && err == nil {
		if n, err = start(s.net, set.a, set.b); err == nil {
			all = append(all, n)
		}
	}
	neighbours, e := neighbours(set.beside)
	if err = errors.Join(err, e); err == nil {
		s.nodes, s.beside = all[0], all[1:]
		for _, l := range ls {
			if e := s.contend(set, &l); e != nil { // others may do
				err = errors.Join(err, fmt.Errorf("%s: %w", report.ContendedLoad(l.size, l.conns), e))
			}
		}
		s.nodes, s.beside = s.free, nil
	}
	for _, p := range neighbours {
		err = errors.Join(err, p.Close())
	}
	for i := range all {
		err = errors.Join(err, all[i].close())
	}
	return err
}

// neighbours starts processes that compute, each on a CPU.
func neighbours(cpus []int) (ps []*node.Peer, err error) {
	counter, err := node.NewCounter()
	if err != nil {
		return nil, err
	}
	defer counter.Close()
	for _, cpu := range cpus {
		p, err := node.Start(counter, node.Place{CPUs: []int{cpu}}, (*exec.Cmd).Start)
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
		if err := node.Do(p, "Compute", 1); err != nil {
			return ps, err
		}
	}
	return ps, nil
}

// loadRun is what became of a load in one round.
type loadRun struct {
	value   float64 // requests a second, or Gb/s
	cpu     float64 // seconds of both nodes, for a request or a byte
	times   node.PingReply
	traffic node.Traffic // of both
	per     float64      // requests, or bytes
}

// contend does the rounds of a load.
func (s *Suite) contend(set *setting, l *loadCase) error {
	cases := make([]report.Case, len(l.by))
	for i, by := range l.by {
		cases[i] = report.Case{
			Item: Contended, Name: report.ContendedName(set.name, l.size, l.conns, by), Link: s.o.Links[0],
			Op: by, Size: l.size, QPs: l.conns, Place: set.name,
			Run: fmt.Sprintf("%d rounds, %v a measurement", s.o.Rounds, s.loadTime(set)),
		}
	}
	var errs error
	for range s.o.Rounds {
		tcp, err := s.runLoads(set, l, node.ByTCP)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", node.ByTCP, err))
			continue
		}
		for i, by := range l.by {
			own, err := s.runLoads(set, l, by)
			if err != nil { // other rounds, and other means, may do
				errs = errors.Join(errs, fmt.Errorf("%s: %w", by, err))
				continue
			}
			addLoad(&cases[i], &own, &tcp)
		}
	}
	for i := range cases {
		c := &cases[i]
		if len(c.Figures) == 0 {
			continue
		}
		switch {
		case l.size == 0:
			s.o.Logf("%-68s %.5g Gb/s = %.2f x TCP, CPU %.2f x TCP", c.Name, c.Value("goodput"),
				c.Value("x TCP"), c.Value("CPU x TCP"))
		case set.server:
			s.o.Logf("%-68s %.0f/s = %.2f x TCP; p50 %.0f us = %.2f x, p99 %.0f us = %.2f x", c.Name,
				c.Value("requests"), c.Value("x TCP"), c.Value("p50"), c.Value("p50 x TCP"), c.Value("p99"),
				c.Value("p99 x TCP"))
		default:
			s.o.Logf("%-68s %.0f/s = %.2f x TCP, CPU %.1f us = %.2f x TCP; p50 %.0f us = %.2f x, p99.9 %.0f us = %.2f x; %.2f datagrams, %.1f sleeps (TCP %.1f)",
				c.Name, c.Value("requests"), c.Value("x TCP"), c.Value("CPU"), c.Value("CPU x TCP"),
				c.Value("p50"), c.Value("p50 x TCP"), c.Value("p99.9"), c.Value("p99.9 x TCP"),
				c.Value("datagrams"), c.Value("sleeps"), c.Value("TCP sleeps"))
		}
		s.r.Cases = append(s.r.Cases, *c)
	}
	return errs
}

// addLoad adds a round to a case.
func addLoad(c *report.Case, own, tcp *loadRun) {
	c.Add("x TCP", "", own.value/tcp.value)
	if c.Place != report.BusyServer { // where the server's CPU time is that of what it computes
		c.Add("CPU x TCP", "", own.cpu/tcp.cpu)
	}
	if c.Size == 0 {
		c.Add("goodput", "Gb/s", own.value)
		c.Add("TCP", "Gb/s", tcp.value)
		c.Add("CPU", "s/GB", own.cpu*1e9)
		c.Add("TCP CPU", "s/GB", tcp.cpu*1e9)
		return
	}
	c.Add("p50 x TCP", "", own.times.P50/tcp.times.P50)
	c.Add("p99 x TCP", "", own.times.P99/tcp.times.P99)
	c.Add("p99.9 x TCP", "", own.times.P999/tcp.times.P999)
	c.Add("requests", "1/s", own.value)
	c.Add("TCP", "1/s", tcp.value)
	for _, x := range []struct {
		name string
		r    *loadRun
	}{{"", own}, {"TCP ", tcp}} {
		if c.Place != report.BusyServer {
			c.Add(x.name+"CPU", "us/request", x.r.cpu*1e6)
		}
		c.Add(x.name+"p50", "us", x.r.times.P50)
		c.Add(x.name+"p99", "us", x.r.times.P99)
		c.Add(x.name+"p99.9", "us", x.r.times.P999)
		c.Add(x.name+"sleeps", "1/request", float64(x.r.traffic.Waits)/x.r.per)
	}
	c.Add("datagrams", "1/request", float64(own.traffic.TxDatagrams)/own.per)
}

// runLoads is runLoad on all pairs of nodes at a time: requests are those of all, times the means.
func (s *Suite) runLoads(set *setting, l *loadCase, by string) (sum loadRun, err error) {
	runs, errs := make([]loadRun, 1+len(s.beside)), make([]error, 1+len(s.beside))
	var all sync.WaitGroup
	for i := range runs {
		one := *s
		if i > 0 {
			one.nodes = s.beside[i-1]
		}
		all.Go(func() { runs[i], errs[i] = one.runLoad(set, l, by) })
	}
	all.Wait()
	share := 1 / float64(len(runs))
	for i := range runs {
		r := &runs[i]
		sum.value += r.value
		sum.cpu += r.cpu * r.per
		sum.per += r.per
		sum.times.P50 += r.times.P50 * share
		sum.times.P99 += r.times.P99 * share
		sum.times.P999 += r.times.P999 * share
		sum.traffic = sum.traffic.Plus(r.traffic)
	}
	sum.cpu /= cmp.Or(sum.per, 1)
	return sum, errors.Join(errs...)
}

// runLoad connects, warms up, measures, and closes everything.
func (s *Suite) runLoad(set *setting, l *loadCase, by string) (r loadRun, err error) {
	a := node.LoadArgs{By: by, Addr: s.net.B.Addr, Conns: l.conns, Size: l.size}
	if by != node.ByTCP {
		if err := s.openSockets(s.o.Links[0]); err != nil {
			return r, errors.Join(err, s.closeDevices())
		}
		defer func() { err = errors.Join(err, s.closeDevices()) }()
	}
	a.At, err = node.Call[node.LoadArgs, netip.AddrPort](s.b, "ServeLoad", a)
	if err == nil {
		err = node.Do(s.a, "OpenLoad", a)
	}
	if err == nil && set.server {
		err = node.Do(s.b, "Compute", computeOn)
	}
	if err == nil {
		r, err = s.useLoad(a, s.loadTime(set))
	}
	if set.server {
		err = errors.Join(err, node.Do(s.b, "StopComputing", struct{}{}))
	}
	return r, errors.Join(err, node.Do(s.a, "CloseLoad", struct{}{}), node.Do(s.b, "CloseLoad", struct{}{}))
}

// useLoad measures. CPU time of the client is that of the run alone; that of the server is from
// before to after.
func (s *Suite) useLoad(a node.LoadArgs, t time.Duration) (r loadRun, err error) {
	a.Ns = int64(t) / warmShare
	if a.Size > 0 { // a stream ends with its run
		if _, err := node.Call[node.LoadArgs, node.LoadReply](s.a, "RunLoad", a); err != nil {
			return r, err
		}
	}
	before, err := s.loadUse()
	if err != nil {
		return r, err
	}
	a.Ns = int64(t)
	reply, err := node.Call[node.LoadArgs, node.LoadReply](s.a, "RunLoad", a)
	if err != nil {
		return r, err
	}
	after, err := s.loadUse()
	if err != nil {
		return r, err
	}
	r.traffic = after.traffic.Minus(before.traffic)
	if a.Size == 0 {
		r.per = float64(reply.Bytes)
		r.value = r.per / float64(reply.Ns) * 8
	} else {
		r.per = float64(reply.Requests)
		r.value = r.per / float64(reply.Ns) * 1e9
		r.times, err = node.Call[struct{}, node.PingReply](s.a, "LoadTimes", struct{}{})
	}
	r.cpu = (reply.CPU + after.server - before.server) / cmp.Or(r.per, 1)
	return r, err
}

// loadUse is what the server has used of its CPU, and what both have sent and slept.
type loadUse struct {
	server  float64
	traffic node.Traffic
}

func (s *Suite) loadUse() (u loadUse, err error) {
	b, err := node.Call[bool, node.Usage](s.b, "Usage", false)
	u.server = b.CPU
	for _, p := range []*node.Peer{s.a, s.b} {
		if err == nil {
			var t node.Traffic
			t, err = node.Call[struct{}, node.Traffic](p, "Traffic", struct{}{})
			u.traffic = u.traffic.Plus(t)
		}
	}
	return u, err
}
