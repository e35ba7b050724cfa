package suite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/ib"
)

// profiled are the cases that a profile can be stored of.
var profiled = map[string]point{
	"write-1m":          {size: 1 << 20, ops: []string{"WRITE"}},
	"read-1m":           {size: 1 << 20, ops: []string{"READ"}},
	"send-1m":           {size: 1 << 20, ops: []string{"SEND"}},
	"write-64":          {size: 64, ops: []string{"WRITE"}},
	"write-1m-mtu1024":  {size: 1 << 20, mtu: ib.MTU1024, ops: []string{"WRITE"}},
	"read-1m-mtu1024":   {size: 1 << 20, mtu: ib.MTU1024, ops: []string{"READ"}},
	"send-1m-mtu1024":   {size: 1 << 20, mtu: ib.MTU1024, ops: []string{"SEND"}},
	"write-4k-mtu1024":  {size: 4 << 10, mtu: ib.MTU1024, ops: []string{"WRITE"}},
	"read-4k-mtu1024":   {size: 4 << 10, mtu: ib.MTU1024, ops: []string{"READ"}},
	"write-64k-mtu1024": {size: 64 << 10, mtu: ib.MTU1024, ops: []string{"WRITE"}},
	"read-64k-mtu1024":  {size: 64 << 10, mtu: ib.MTU1024, ops: []string{"READ"}},
	"write-64k":         {size: 64 << 10, ops: []string{"WRITE"}},
	"read-64k":          {size: 64 << 10, ops: []string{"READ"}},
	"write-4k":          {size: 4 << 10, ops: []string{"WRITE"}},
	"read-4k":           {size: 4 << 10, ops: []string{"READ"}},
	"send-4k":           {size: 4 << 10, ops: []string{"SEND"}},
	"read-64":           {size: 64, ops: []string{"READ"}},
	"write-alone":       {size: 64, ops: []string{opAlone}},
	"send-64":           {size: 64, ops: []string{"SEND"}},
	"write-1k-10000qp":  {size: scaleMessage, mtu: ib.MTU1024, ops: []string{opEach}, qps: maxQPs},
	"write-1k-1000qp":   {size: scaleMessage, mtu: ib.MTU1024, ops: []string{opEach}, qps: 1000},
	"ping-event":        {size: 64, ops: []string{opPing}},
	"ping-polling":      {size: 64, ops: []string{opPing}, mode: "polling"},
}

// opPing is a round trip of a SEND each way.
const opPing = "ping"

// profileMs makes for some hundred samples of each process.
const profileMs = 3000

// ProfileNames are the names of the cases that a profile can be stored of.
func ProfileNames() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(profiled)), socketProfiles()...)))
}

// topCount is how many functions are named.
const topCount = 20

// top names the functions that took most of a profile.
func top(file string) string {
	out, err := exec.Command("go", "tool", "pprof", "-top", fmt.Sprintf("-nodecount=%d", topCount),
		file).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("go tool pprof: %v: %s", err, out)
	}
	_, table, ok := strings.Cut(string(out), "Showing nodes")
	if !ok {
		return string(out)
	}
	return "Showing nodes" + table
}

// Profile stores CPU profiles of both ends of a case on the first link, and prints the
// functions that took most. A round of a profile lasts profileMs at least.
func (s *Suite) Profile(name, dir string) error {
	s.o.RoundMs = max(s.o.RoundMs, profileMs)
	if u, rsocket, ok := profiledSockets(name); ok {
		return s.withSockets(s.o.Links[0], u, rsocket, func() error {
			return s.store(name, dir, func() (string, error) {
				r, err := s.useSockets(u)
				return r.String(u), err
			})
		})
	}
	p, ok := profiled[name]
	if !ok {
		return fmt.Errorf("no case %q to profile", name)
	}
	p.link, p.region = s.o.Links[0], node.RegionBytes
	if p.mtu == 0 {
		p.mtu = ib.MTU4096
	}
	run := func() (string, error) {
		m, err := s.bulk(&p, p.ops[0])
		return fmt.Sprintf("%.2f Gb/s, %.0f messages/s, %.2f s/GB", m.gbps, m.msgs, m.cpu), err
	}
	if p.ops[0] == opPing {
		run = func() (what string, err error) {
			serve := node.ServeArgs{Size: p.size, Region: p.region, Echo: true}
			err = s.serving("Serve", serve, func() error {
				r, err := node.Call[node.PingArgs, node.PingReply](s.a, "Ping",
					node.PingArgs{Size: p.size, N: 1 << 20, Ns: s.ns()})
				what = fmt.Sprintf("half round trip p50 %.1f us, p99 %.1f us", r.P50, r.P99)
				return err
			})
			return what, err
		}
	}
	return s.with(setup{link: p.link, polling: p.mode == "polling", qps: max(p.qps, 1),
		wrs: 512 / max(1, min(p.qps, 32)), mtu: p.mtu}, func() error {
		if _, err := run(); err != nil { // warms up
			return err
		}
		return s.store(name, dir, run)
	})
}

// store profiles both nodes while something runs.
func (s *Suite) store(name, dir string, run func() (string, error)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ends := map[string]*node.Peer{"requester": s.a, "responder": s.b}
	for _, n := range ends {
		if err := node.Do(n, "StartProfile", struct{}{}); err != nil {
			return err
		}
	}
	link := s.o.Links[0]
	what, err := run()
	s.o.Logf("%s, %s: %s", name, link, what)
	for end, n := range ends {
		b, perr := node.Call[struct{}, []byte](n, "StopProfile", struct{}{})
		if perr == nil {
			file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", name, link, end))
			perr = os.WriteFile(file, b, 0o644)
			if perr == nil {
				s.o.Logf("\n%s: %s\n%s", end, file, top(file))
			}
		}
		err = errors.Join(err, perr)
	}
	return err
}
