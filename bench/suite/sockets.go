package suite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

// socketTime is the least that a measurement of sockets takes: some thousand requests, or
// several downloads.
const socketTime = 250 * time.Millisecond

func (s *Suite) socketTime() time.Duration {
	if s.o.SocketTime != 0 {
		return s.o.SocketTime
	}
	return max(socketTime, time.Duration(s.ns()))
}

// socketUse is something that is done by rsocket and by TCP.
type socketUse struct {
	name    string
	short   string // of its profile
	use     node.UseArgs
	figure  string // that is compared
	unit    string
	measure func(*node.SocketReply) float64
}

func socketUses() []socketUse {
	rate := func(r *node.SocketReply) float64 { return float64(r.Requests) / float64(r.Ns) * 1e9 }
	goodput := func(r *node.SocketReply) float64 { return float64(r.Bytes) / float64(r.Ns) * 8 }
	var us []socketUse
	for _, n := range []int{1, 16, 100} {
		what := report.SocketHTTP(n)
		us = append(us, socketUse{what, fmt.Sprintf("http-%d", n), node.UseArgs{Clients: n}, "requests", "1/s", rate})
	}
	for _, n := range []int{1, 16} {
		what := report.SocketMessages(n)
		us = append(us, socketUse{what, fmt.Sprintf("messages-%d", n),
			node.UseArgs{Clients: n, Messages: true}, "requests", "1/s", rate})
	}
	return append(us,
		socketUse{report.SocketDownload, "download", node.UseArgs{Clients: 1, Download: true}, "goodput",
			"Gb/s", goodput},
		socketUse{report.SocketStream, "stream", node.UseArgs{}, "goodput", "Gb/s", goodput})
}

// socketRun is what became of one use in one round.
type socketRun struct {
	value float64
	cpu   float64 // seconds of both nodes, for a request or a byte
	side  [2]float64
	// traffic is that of both nodes, per how many requests or bytes.
	traffic [2]node.Traffic
	per     float64
}

// String is a run in words.
func (r *socketRun) String(u *socketUse) string {
	scale, unit := u.cpuUnit()
	out := fmt.Sprintf("%.5g %s, CPU %.3g %s: client %.3g, server %.3g", r.value, u.unit, r.cpu*scale, unit,
		r.side[0]*scale, r.side[1]*scale)
	per, of := r.per, "request"
	if u.figure == "goodput" {
		per, of = r.per/(1<<20), "MiB"
	}
	for i, name := range []string{"client", "server"} {
		t := &r.traffic[i]
		f := func(n uint64) float64 { return float64(n) / per }
		out += fmt.Sprintf("\n%s, per %s: sent %.3g packets in %.3g datagrams by %.3g calls, received %.3g in %.3g by %.3g; %.3g work requests, %.3g sleeps",
			name, of, f(t.TxPackets), f(t.TxDatagrams), f(t.TxCalls), f(t.RxPackets), f(t.RxDatagrams),
			f(t.RxCalls), f(t.Messages), f(t.Waits))
	}
	return out
}

// cpuUnit is what CPU time is given in.
func (u *socketUse) cpuUnit() (scale float64, unit string) {
	if u.figure == "goodput" {
		return 1e9, "s/GB"
	}
	return 1e6, "us/request"
}

// profiledSockets finds a case by the name of its profile, of rsocket, or of TCP with a suffix.
func profiledSockets(name string) (u *socketUse, rsocket, ok bool) {
	short, tcp := strings.CutSuffix(name, tcpSuffix)
	for _, u := range socketUses() {
		if u.short == short {
			return &u, !tcp, true
		}
	}
	return nil, false, false
}

// tcpSuffix makes the name of a profile one of the same by TCP.
const tcpSuffix = "-tcp"

func socketProfiles() (names []string) {
	for _, u := range socketUses() {
		names = append(names, u.short, u.short+tcpSuffix)
	}
	return names
}

// sockets is what services do: HTTP and streams by rsocket, and the same programs by TCP.
func (s *Suite) sockets() error {
	var errs error
	for _, link := range s.o.Links {
		if alone(link) {
			continue // package net cannot be measured beside it
		}
		for _, u := range socketUses() {
			c := report.Case{Item: "sockets", Name: u.name + ", " + link, Link: link, Op: u.name,
				MTU: ib.MTU4096.Bytes(), QPs: max(u.use.Clients, 1)}
			for range s.o.Rounds {
				own, err := s.socketRound(link, &u, true)
				var tcp socketRun
				if err == nil {
					tcp, err = s.socketRound(link, &u, false)
				}
				if err != nil {
					errs = errors.Join(errs, fmt.Errorf("%s: %w", c.Name, err))
					break
				}
				c.Add("x TCP", "", own.value/tcp.value)
				c.Add("CPU x TCP", "", own.cpu/tcp.cpu)
				c.Add(u.figure, u.unit, own.value)
				c.Add("TCP", u.unit, tcp.value)
				for _, x := range []struct {
					name string
					r    socketRun
				}{{"", own}, {"TCP ", tcp}} {
					scale, unit := u.cpuUnit()
					c.Add(x.name+"CPU", unit, x.r.cpu*scale)
					c.Add(x.name+"client CPU", unit, x.r.side[0]*scale)
					c.Add(x.name+"server CPU", unit, x.r.side[1]*scale)
				}
			}
			s.o.Logf("%-40s %.5g %s = %.2f x TCP, CPU %.2f x TCP", c.Name, c.Value(u.figure), u.unit,
				c.Value("x TCP"), c.Value("CPU x TCP"))
			s.r.Cases = append(s.r.Cases, c)
		}
	}
	return errs
}

// socketRound connects, uses the connections and closes them.
func (s *Suite) socketRound(link string, u *socketUse, rsocket bool) (r socketRun, err error) {
	err = s.withSockets(link, u, rsocket, func() error {
		r, err = s.useSockets(u)
		return err
	})
	return r, err
}

// withSockets runs f with the connections of a use open.
func (s *Suite) withSockets(link string, u *socketUse, rsocket bool, f func() error) (err error) {
	if rsocket {
		if err = s.openSockets(link); err != nil {
			return errors.Join(err, s.closeDevices())
		}
		defer func() { err = errors.Join(err, s.closeDevices()) }()
	}
	use := u.use
	use.At, err = node.Call[node.SocketArgs, node.Sockets](s.b, "ServeSockets",
		node.SocketArgs{RSocket: rsocket, Addr: s.net.B.Addr})
	if err == nil {
		err = node.Do(s.a, "UseSockets", use)
	}
	if err == nil {
		err = f()
	}
	return errors.Join(err, node.Do(s.a, "CloseSockets", struct{}{}), node.Do(s.b, "CloseSockets", struct{}{}))
}

func (s *Suite) openSockets(link string) error {
	err := node.Do(s.a, "Open",
		node.OpenArgs{LinkArgs: node.LinkArgs{Link: link, Addr: s.net.A.Addr, Port: devicePort}})
	if err == nil {
		err = node.Do(s.b, "Open",
			node.OpenArgs{LinkArgs: node.LinkArgs{Link: link, Addr: s.net.B.Addr, Port: devicePort}})
	}
	return err
}

// useSockets measures.
func (s *Suite) useSockets(u *socketUse) (r socketRun, err error) {
	var before, after [2]node.Usage
	var sent, sentAfter [2]node.Traffic
	usage := func(to *[2]node.Usage, traffic *[2]node.Traffic) {
		for i, p := range []*node.Peer{s.a, s.b} {
			if err == nil {
				to[i], err = node.Call[bool, node.Usage](p, "Usage", false)
			}
			if err == nil {
				traffic[i], err = node.Call[struct{}, node.Traffic](p, "Traffic", struct{}{})
			}
		}
	}
	usage(&before, &sent)
	if err != nil {
		return r, err
	}
	use := u.use
	use.Ns = int64(s.socketTime())
	reply, err := node.Call[node.UseArgs, node.SocketReply](s.a, "RunSockets", use)
	if err != nil {
		return r, err
	}
	usage(&after, &sentAfter)
	r.value = u.measure(&reply)
	r.per = float64(reply.Requests)
	if u.figure == "goodput" {
		r.per = float64(reply.Bytes)
	}
	for i := range r.side {
		r.traffic[i] = sentAfter[i].Minus(sent[i])
		r.side[i] = (after[i].CPU - before[i].CPU) / r.per
		r.cpu += r.side[i]
	}
	return r, err
}
