package suite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/ib"
)

// profiled are the cases that a profile can be stored of.
var profiled = map[string]point{
	"write-1m":    {size: 1 << 20, ops: []string{"WRITE"}},
	"read-1m":     {size: 1 << 20, ops: []string{"READ"}},
	"send-1m":     {size: 1 << 20, ops: []string{"SEND"}},
	"write-64":    {size: 64, ops: []string{"WRITE"}},
	"write-alone": {size: 64, ops: []string{opAlone}},
	"send-64":     {size: 64, ops: []string{"SEND"}},
}

// ProfileNames are the names of the cases that a profile can be stored of.
func ProfileNames() []string { return slices.Sorted(maps.Keys(profiled)) }

// Profile stores CPU profiles of both ends of a case on the first link.
func (s *Suite) Profile(name, dir string) error {
	p, ok := profiled[name]
	if !ok {
		return fmt.Errorf("no case %q to profile", name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	p.link, p.mtu, p.region = s.o.Links[0], ib.MTU4096, node.RegionBytes
	return s.with(setup{link: p.link, qps: 1, wrs: 512, mtu: p.mtu}, func() error {
		if _, err := s.bulk(&p, p.ops[0]); err != nil { // warms up
			return err
		}
		ends := map[string]*node.Peer{"requester": s.a, "responder": s.b}
		for _, n := range ends {
			if err := node.Do(n, "StartProfile", struct{}{}); err != nil {
				return err
			}
		}
		m, err := s.bulk(&p, p.ops[0])
		s.o.Logf("%s: %.2f Gb/s, %.0f messages/s, %.2f s/GB", name, m.gbps, m.msgs, m.cpu)
		for end, n := range ends {
			b, perr := node.Call[struct{}, []byte](n, "StopProfile", struct{}{})
			if perr == nil {
				file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", name, p.link, end))
				perr = os.WriteFile(file, b, 0o644)
				s.o.Logf("%s", file)
			}
			err = errors.Join(err, perr)
		}
		return err
	})
}
