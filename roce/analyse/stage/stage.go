package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// Config says how the stage is. The zero value is two hosts 2 us apart with an RC queue pair each,
// connected.
type Config struct {
	Sim  sim.Config
	Net  *sim.Fabric  // to play on, in place of a new one: that of a sim.Test
	Type ib.Transport // of the queue pairs; 0 is RC
	MTU  ib.MTU       // of the connection; 0 is 1024
	PSN  [2]ib.PSN    // first ones; 0 is 1000 and 5000
	Attr func(host int, a *verbs.ConnAttr)
	Caps verbs.QPCaps
	// Tuning of the devices.
	Tuning [2]transport.Tuning
	// Bytes of memory that each host registers; 0 is 1 MiB. Receives use its second half.
	Bytes int
	// Access that each host gives to its memory; 0 is all.
	Access verbs.Access
	// Bare leaves the hosts without queue pairs, for who makes his own.
	Bare bool
}

// Host is one end.
type Host struct {
	Name   string
	Addr   netip.Addr
	Device *verbs.Device
	PD     *verbs.PD
	CQ     *verbs.CQ
	QP     *verbs.QP
	MR     *verbs.MR
	// Faults acts on what the host sends and receives.
	Faults *fault.Link

	// States are those of the queues, after each step; Posted is what [Stage.Post] has posted.
	States []State
	Posted []string

	own, wire bytes.Buffer // traces above and below Faults
	recvs     int
	packets   int // in the trace above
	port      *sim.Link
	observer  *observer
}

// Stage is two hosts and the network between them.
type Stage struct {
	Net   *sim.Fabric
	Hosts [2]*Host
}

// View is where a capture is taken.
type View int

// The views.
const (
	At0  View = iota // on host 0: what it sent, before anything happened to it, and what it received
	At1              // on host 1
	Wire             // between: what came off either host, after the faults on its way out
	// Below1 is on host 1 where tcpdump sees it: with packets that the host drops after that.
	Below1
)

func (v View) String() string {
	return [...]string{"on host A", "on host B", "on the wire", "below host B"}[v&3]
}

// wait bounds waiting for what never happens, in real time. Virtual time passes at once.
const wait = time.Minute

// New sets the stage.
func New(cfg Config) (*Stage, error) {
	if cfg.Sim.Seed == 0 {
		cfg.Sim.Seed = 1
	}
	if cfg.MTU == 0 {
		cfg.MTU = ib.MTU1024
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 1 << 20
	}
	if cfg.Access == 0 {
		cfg.Access = verbs.AccessAll
	}
	if cfg.Type == 0 {
		cfg.Type = ib.RC
	}
	for i, p := range []ib.PSN{1000, 5000} {
		if cfg.PSN[i] == 0 {
			cfg.PSN[i] = p
		}
	}
	s := &Stage{Net: cfg.Net}
	if s.Net == nil {
		s.Net = sim.New(cfg.Sim)
	}
	for i, name := range []string{"A", "B"} {
		h := &Host{Name: name, Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}
		s.Hosts[i] = h
		if err := s.open(h, &cfg, i); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if cfg.Bare {
		return s, nil
	}
	for i, h := range s.Hosts {
		if err := h.connect(&cfg, i, s.Hosts[1-i]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.Use([2]*verbs.QP{s.Hosts[0].QP, s.Hosts[1].QP})
	return s, nil
}

func (s *Stage) open(h *Host, cfg *Config, i int) error {
	l, err := s.Net.Link(h.Addr)
	if err != nil {
		return err
	}
	h.port = l
	h.Device, err = verbs.Open(verbs.Config{Link: l, Rand: s.Net.Rand(), Tuning: cfg.Tuning[i],
		WrapLink: func(l link.Link) (link.Link, error) {
			below, err := trace.New(l, &h.wire)
			if err != nil {
				return nil, err
			}
			h.Faults = fault.New(below)
			above, err := trace.New(h.Faults, &h.own)
			h.observer = &observer{Driven: h.port, above: above, h: h}
			return h.observer, err
		}})
	if err != nil {
		return err
	}
	if h.PD, err = h.Device.AllocPD(); err != nil {
		return err
	}
	if h.CQ, err = h.Device.CreateCQ(1024, nil); err != nil {
		return err
	}
	// The addresses are the same in every run, and so are the packets.
	iova := verbs.MROptions{SetIOVA: true, IOVA: 0x10_0000_0000 * uint64(i+1)}
	if h.MR, err = h.PD.RegisterMR(make([]byte, cfg.Bytes), cfg.Access, &iova); err != nil || cfg.Bare {
		return err
	}
	h.QP, err = h.PD.CreateQP(
		verbs.QPInitAttr{Type: cfg.Type, SendCQ: h.CQ, Caps: cfg.Caps, QPN: ib.QPN(0x11 + i*0x11)})
	if err == nil {
		h.QP.SetPSN(cfg.PSN[i])
	}
	return err
}

// QKey is the key of the stage's UD queue pairs.
const QKey ib.QKey = 0x11111111

func (h *Host) connect(cfg *Config, i int, peer *Host) error {
	if cfg.Type == ib.UD {
		if err := h.QP.ToInitUD(QKey); err != nil {
			return err
		}
		return h.QP.Activate(QKey)
	}
	a := verbs.DefaultConnAttr()
	a.MTU = cfg.MTU
	if cfg.Attr != nil {
		cfg.Attr(i, &a)
	}
	return h.QP.Connect(peer.QP.LocalInfo(0), &a)
}

// Close ends the stage. Its captures stay.
func (s *Stage) Close() (err error) {
	for _, h := range s.Hosts {
		if h != nil && h.Device != nil {
			err = errors.Join(err, h.Device.Close())
		}
	}
	return err
}

// Recv posts n receives of size bytes on a host.
func (s *Stage) Recv(host, n, size int) error {
	h := s.Hosts[host]
	for range n {
		h.recvs++
		if err := h.QP.PostRecv(&verbs.RecvWR{
			ID: uint64(1000 + h.recvs), SGList: []verbs.SGE{h.MR.SGE(h.MR.Len()/2, size)},
		}); err != nil {
			return err
		}
	}
	h.note()
	return nil
}

// Write is a WRITE of n bytes from a host to the other.
func (s *Stage) Write(host, n int) verbs.SendWR {
	h, o := s.Hosts[host], s.Hosts[1-host]
	return verbs.SendWR{Opcode: verbs.WRWrite, SGList: []verbs.SGE{h.MR.SGE(0, n)}, RemoteAddr: o.MR.Addr(),
		RKey: o.MR.RKey()}
}

// Read is a READ of n bytes by a host from the other.
func (s *Stage) Read(host, n int) verbs.SendWR {
	w := s.Write(host, n)
	w.Opcode = verbs.WRRead
	return w
}

// FetchAdd is an atomic of a host on the first 8 bytes of the other's memory.
func (s *Stage) FetchAdd(host int, add uint64) verbs.SendWR {
	w := s.Write(host, ib.AtomicBytes)
	w.Opcode, w.CompareAdd = verbs.WRFetchAdd, add
	return w
}

// Send is a SEND of n bytes from a host.
func (s *Stage) Send(host, n int) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{s.Hosts[host].MR.SGE(0, n)}}
}

// Do posts work requests on a host at once and waits for all their completions, which it returns.
// The completions of receives in between are passed over.
func (s *Stage) Do(host int, wrs ...verbs.SendWR) ([]verbs.WC, error) {
	for i := range wrs {
		wrs[i].ID = uint64(i + 1)
		wrs[i].Flags |= verbs.SendSignaled
		if err := s.Post(host, &wrs[i]); err != nil {
			return nil, err
		}
	}
	return s.Await(host, len(wrs))
}

// Await waits for n completions of sends on a host.
func (s *Stage) Await(host, n int) (all []verbs.WC, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for len(all) < n {
		var wc [16]verbs.WC
		k, err := s.Hosts[host].CQ.Wait(ctx, wc[:])
		if err != nil {
			return all, fmt.Errorf("%d of %d completions came: %w", len(all), n, err)
		}
		for _, c := range wc[:k] {
			if c.ID < 1000 {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// Capture is what was recorded at a place, as a pcapng file.
func (s *Stage) Capture(v View) []byte {
	switch v {
	case At0:
		return s.Hosts[0].own.Bytes()
	case At1:
		return s.Hosts[1].own.Bytes()
	case Below1:
		return s.Hosts[1].wire.Bytes()
	}
	return s.Hosts[0].wire.Bytes()
}

// Packets calls use with every packet that was recorded at a place. Those of the wire have no
// direction.
func (s *Stage) Packets(v View, use func(p *pcap.Packet)) error {
	r, err := pcap.NewReader(bytes.NewReader(s.Capture(v)))
	if err != nil {
		return err
	}
	d := &pcap.Decoder{}
	var f pcap.Frame
	for {
		if err := r.Next(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if v == Wire {
			f.Dir = pcap.Unknown
		}
		packets := d.Decode(&f)
		for i := range packets {
			use(&packets[i])
		}
	}
}

// Report is what the analyser says of a capture.
func (s *Stage) Report(v View) (*analyse.Report, error) {
	a := analyse.New(analyse.Options{})
	err := s.Packets(v, func(p *pcap.Packet) { a.Add(p) })
	return a.Report(), err
}

// Try carries out a work request of host 0 on a new connection, the nth, and returns its status.
// The queue pairs are those of the hosts from then on.
func (s *Stage) Try(w verbs.SendWR, n int) (verbs.WCStatus, error) {
	var qps [2]*verbs.QP
	for i, h := range s.Hosts {
		var err error
		qps[i], err = h.PD.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: h.CQ, QPN: ib.QPN(0x100 + 2*n + i)})
		if err != nil {
			return 0, err
		}
		qps[i].SetPSN(ib.PSN(0x10000*(i+1) + n*0x100))
	}
	for i := range qps {
		if err := qps[i].Connect(qps[1-i].LocalInfo(0), nil); err != nil {
			return 0, err
		}
	}
	s.Use(qps)
	wcs, err := s.Do(0, w)
	if err != nil {
		return 0, err
	}
	return wcs[0].Status, nil
}
