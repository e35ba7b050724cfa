package suite

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

// point is what is compared in a round.
type point struct {
	link         string
	size, region int
	mtu          ib.MTU
	mode         string // "", or which offload is off
	ops          []string
	qps          int // for profiles; 0 is one
}

// posting says how messages of a size are posted. Small ones are posted in batches,
// "alone" one by one.
func posting(op string, size int) (base string, batch, depth int) {
	const small, total = 2048, 512
	switch {
	case op == opAlone:
		return "WRITE", 1, 64
	case op == opEach:
		return "WRITE", 1, 1
	case size <= small:
		return op, 32, total / 32
	}
	return op, 1, max(16, min(64, 4<<20/size))
}

// opAlone is a WRITE that is posted by itself: a datagram and a system call of its own.
const opAlone = "WRITE alone"

// opEach is a WRITE under way on each queue pair, for profiles.
const opEach = "WRITE each"

// measured is one measurement of a round.
type measured struct {
	node.BulkReply
	gbps, msgs, cpu float64 // Gb/s, 1/s, s/GB
	cycles          float64 // of a message; NaN if they are not counted
}

// timed runs a bulk measurement with the CPU time of both nodes.
func (s *Suite) timed(size int, f func() (node.BulkReply, error)) (m measured, err error) {
	before, err := s.usage()
	if err != nil {
		return m, err
	}
	if m.BulkReply, err = f(); err != nil {
		return m, err
	}
	after, err := s.usage()
	bytes := float64(m.Msgs) * float64(size)
	m.gbps = m.Goodput(size) * 8 / 1e9
	m.msgs = float64(m.Msgs) / float64(m.Ns) * 1e9
	m.cpu = (after.CPU - before.CPU - m.WaitCPU) / (bytes / 1e9)
	m.cycles = math.NaN()
	if after.Cycles > before.Cycles {
		m.cycles = float64(after.Cycles-before.Cycles) / float64(m.Msgs)
	}
	return m, err
}

func (s *Suite) bulk(p *point, op string) (m measured, err error) {
	base, batch, depth := posting(op, p.size)
	run := func() error {
		m, err = s.timed(p.size, func() (node.BulkReply, error) {
			return node.Call[node.BulkArgs, node.BulkReply](s.a, "Bulk", node.BulkArgs{
				Op: base, Size: p.size, Region: p.region, Batch: batch, Depth: depth,
				NoDelay: op == opAlone, Ns: s.ns(),
			})
		})
		return err
	}
	if base != "SEND" {
		return m, run()
	}
	return m, s.serving("Serve", node.ServeArgs{Size: p.size, Region: p.region}, run)
}

func (s *Suite) tcpBulk(p *point) (measured, error) {
	return s.timed(p.size, func() (node.BulkReply, error) {
		return node.Call[node.TCPArgs, node.BulkReply](s.a, "TCPBulk",
			node.TCPArgs{To: s.tcp, Size: p.size, Region: p.region, Ns: s.ns()})
	})
}

func (s *Suite) rawBulk(p *point) (m measured, err error) {
	err = s.serving("RawServe", node.ServeArgs{Size: p.size, Region: p.region}, func() error {
		m, err = s.timed(p.size, func() (node.BulkReply, error) {
			return node.Call[node.RawArgs, node.BulkReply](s.a, "RawBulk",
				node.RawArgs{Size: p.size, MTU: p.mtu.Bytes(), Region: p.region, Ns: s.ns()})
		})
		return err
	})
	return m, err
}

// alone reports whether an interface takes only one such link at a time, so that device and
// ceiling have to be opened in turn. While TCP is measured neither is open.
func alone(link string) bool { return link == "xdp" }

// points measures points of a link with devices of setup o.
func (s *Suite) points(o setup, ps ...*point) error {
	f := func(with func(setup, func() error) error) error {
		for _, p := range ps {
			if err := s.compare(o, p, with); err != nil {
				return err
			}
		}
		return nil
	}
	if alone(o.link) {
		return f(s.with)
	}
	o.raw = true
	return s.with(o, func() error {
		return f(func(_ setup, g func() error) error { return g() })
	})
}

// compare runs the rounds of a point and adds a case for each operation. with runs its function
// with what is needed open.
func (s *Suite) compare(o setup, p *point, with func(setup, func() error) error) error {
	cases := make([]report.Case, len(p.ops))
	for i, op := range p.ops {
		name := fmt.Sprintf("%s %s, MTU %d, %s", op, report.Bytes(p.size), p.mtu.Bytes(), p.link)
		if p.region != node.RegionBytes {
			name += ", region " + report.Bytes(p.region)
		}
		if p.mode != "" {
			name += ", " + p.mode
		}
		cases[i] = report.Case{
			Item: "single", Name: name, Link: p.link, Op: op, Size: p.size, MTU: p.mtu.Bytes(), QPs: 1,
			Mode: p.mode, Region: p.region,
		}
	}
	for range s.o.Rounds {
		var of []measured
		err := with(o, func() error {
			for i, op := range p.ops {
				m, err := s.bulk(p, op)
				if err != nil {
					return fmt.Errorf("%s: %w", cases[i].Name, err)
				}
				of = append(of, m)
			}
			return nil
		})
		if err != nil {
			return err
		}
		ceiling := o
		ceiling.noDevice, ceiling.raw = true, true
		var raw measured
		err = with(ceiling, func() (err error) {
			raw, err = s.rawBulk(p)
			return err
		})
		if err != nil {
			return fmt.Errorf("ceiling of %s: %w", cases[0].Name, err)
		}
		tcp, err := s.tcpBulk(p)
		if err != nil {
			return err
		}
		for i, m := range of {
			c := &cases[i]
			c.Add("x TCP", "", m.gbps/tcp.gbps)
			c.Add("x ceiling", "", m.gbps/raw.gbps)
			c.Add("CPU x TCP", "", m.cpu/tcp.cpu)
			c.Add("CPU x ceiling", "", m.cpu/raw.cpu)
			c.Add("goodput", "Gb/s", m.gbps)
			c.Add("messages", "1/s", m.msgs)
			c.Add("CPU", "s/GB", m.cpu)
			c.Add("TCP", "Gb/s", tcp.gbps)
			c.Add("TCP CPU", "s/GB", tcp.cpu)
			c.Add("ceiling", "Gb/s", raw.gbps)
			c.Add("ceiling CPU", "s/GB", raw.cpu)
			c.Add("ceiling lost", "packets", float64(raw.Lost))
			c.Add(report.CyclesPerPacket, "", m.cycles/float64(packetsOf(p)))
			c.Add("packets/datagram", "", m.PerDatagram)
			c.Add("sent again", "packets", float64(m.Resent))
		}
	}
	for _, c := range cases {
		s.o.Logf("%-60s %6.2f Gb/s = %.2f x TCP, %.2f x ceiling, CPU %.2f x TCP", c.Name, c.Value("goodput"),
			c.Value("x TCP"), c.Value("x ceiling"), c.Value("CPU x TCP"))
	}
	s.r.Cases = append(s.r.Cases, cases...)
	return nil
}

// packetsOf is how many packets a message is.
func packetsOf(p *point) int { return max(1, (p.size+p.mtu.Bytes()-1)/p.mtu.Bytes()) }

// single is item 1.
func (s *Suite) single() error {
	sizes := []int{64, 1 << 10, 4 << 10, 64 << 10, 1 << 20}
	if s.o.Full {
		sizes = []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	}
	all := []string{"WRITE", "READ", "SEND"}
	var errs error
	for _, link := range s.o.Links {
		for _, mtu := range []ib.MTU{ib.MTU4096, ib.MTU1024} {
			var ps []*point
			for _, size := range sizes {
				p := &point{link: link, size: size, region: node.RegionBytes, mtu: mtu, ops: all}
				if size == 64 {
					p.ops = append(all[:3:3], opAlone)
				}
				ps = append(ps, p)
			}
			ps = append(ps, &point{link: link, size: 1 << 20, region: 1 << 20, mtu: mtu, ops: all[:2]})
			if err := s.points(setup{link: link, qps: 1, wrs: 512, mtu: mtu}, ps...); err != nil {
				errs = errors.Join(errs, err)
				break // the other links may still do
			}
		}
	}
	return errors.Join(errs, s.ethernet(), s.offloads())
}

// ethernetMTU is that of report.ModeEther: of most networks. The path MTU is 1024 then.
const ethernetMTU = 1500

// ethernet measures with interfaces of the MTU that most have.
func (s *Suite) ethernet() error {
	if !s.net.SetMTU(ethernetMTU) {
		s.note("%s: not measured: needs a veth pair", report.ModeEther)
		return nil
	}
	defer s.net.SetMTU(vethMTU)
	var errs error
	for _, link := range s.o.Links {
		var ps []*point
		for _, size := range []int{4 << 10, 1 << 20} {
			ps = append(ps, &point{link: link, size: size, region: node.RegionBytes, mtu: ib.MTU1024,
				mode: report.ModeEther, ops: []string{"WRITE", "READ", "SEND"}})
		}
		errs = errors.Join(errs, s.points(setup{link: link, qps: 1, wrs: 512, mtu: ib.MTU1024}, ps...))
	}
	return errs
}

// offloads measures what is left without segmentation offload.
func (s *Suite) offloads() error {
	const link = "udp"
	if !slices.Contains(s.o.Links, link) {
		return nil
	}
	p := point{link: link, size: 1 << 20, region: node.RegionBytes, mtu: ib.MTU4096, ops: []string{"WRITE"}}
	p.mode = "no GSO, no GRO"
	err := s.points(setup{link: link, noOffload: true, qps: 1, wrs: 512, mtu: p.mtu}, &p)
	if err != nil {
		return err
	}
	if !s.net.Offload(false) {
		s.note("software segmentation: not measured: needs a veth pair and ethtool")
		return nil
	}
	defer s.net.Offload(true)
	p.mode = "software segmentation"
	return s.points(setup{link: link, qps: 1, wrs: 512, mtu: p.mtu}, &p)
}
