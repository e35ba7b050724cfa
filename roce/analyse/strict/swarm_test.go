package strict_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// TestSwarm has two engines work over a bad network that a seed draws, and holds what was recorded
// on either host, and between them, against the rules. Nothing is broken, nor perhaps; and where
// packets are taken out of the capture, doubled, or its beginning is cut off, nothing is certain.
//
// A failure prints its seed: go test -run 'TestSwarm$' -seed N
func TestSwarm(t *testing.T) {
	seeds.Slow(t)
	packets, checked, selective, perhaps := 0, 0, 0, map[strict.Rule]int{}
	n := seeds.Run(t, seeds.Fewer(60), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0x571c7))
		s, faulty := swarm(t, seed, rng)
		for _, v := range []stage.View{stage.At0, stage.At1, stage.Wire} {
			all := packetsAt(t, s, v)
			for _, o := range []strict.Options{{}, {Complete: true}, {Complete: true, Lossless: true}} {
				if o.Lossless && faulty {
					continue
				}
				rep := check(o, all)
				for _, x := range rep.Violations {
					if x.Rule == strict.RuleReserved && !x.Certain {
						continue // the network changed a byte that no checksum covers
					}
					t.Errorf("%v, %+v: %+v", v, o, x)
				}
				packets, checked, selective = packets+rep.Packets, checked+rep.Checked, selective+rep.Selective
			}
			for range 2 {
				for _, x := range check(strict.Options{}, spoil(all, rng)).Violations {
					if x.Certain {
						t.Errorf("%v, spoilt: %+v", v, x)
					}
					perhaps[x.Rule]++
				}
			}
		}
	})
	t.Logf("%d seeds: %d packets, %d followed, %d of selective repeat; perhaps, where the capture was spoilt: %v", n,
		packets, checked, selective, perhaps)
	require.NotZero(t, checked)
}

// packetsAt copies what was recorded at a place.
func packetsAt(t *testing.T, s *stage.Stage, v stage.View) (all []pcap.Packet) {
	require.NoError(t, s.Packets(v, func(p *pcap.Packet) {
		q := *p
		q.Data = append([]byte(nil), p.Data...)
		q.Payload = append([]byte(nil), p.Payload...)
		all = append(all, q)
	}))
	return all
}

func check(o strict.Options, all []pcap.Packet) *strict.Report {
	c := strict.New(o)
	for i := range all {
		c.Add(&all[i])
	}
	return c.Report()
}

// spoil takes packets out of a capture, doubles some, swaps some, and cuts its beginning off.
func spoil(all []pcap.Packet, rng *rand.Rand) (left []pcap.Packet) {
	loss, double, swap := rng.IntN(12), rng.IntN(6), rng.IntN(6)
	if rng.IntN(2) == 0 && len(all) > 0 {
		all = all[rng.IntN(len(all)):]
	}
	for _, p := range all {
		if rng.IntN(100) < loss {
			continue
		}
		left = append(left, p)
		if rng.IntN(100) < double {
			left = append(left, p)
		}
		if n := len(left); n > 1 && rng.IntN(100) < swap {
			left[n-1], left[n-2] = left[n-2], left[n-1]
		}
	}
	return left
}

// swarm plays a seed; faulty is whether the network did anything to packets.
func swarm(t *testing.T, seed uint64, rng *rand.Rand) (s *stage.Stage, faulty bool) {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	cfg := stage.Config{MTU: ib.MTU(1 + rng.IntN(4)),
		Sim: sim.Config{Seed: seed, Up: sim.Pipe{Latency: time.Duration(1+rng.IntN(100)) * time.Microsecond}}}
	var faults [2]sim.Faults
	for i := range faults {
		f := &faults[i]
		if chance(60) {
			f.Loss = rng.Float64() * 0.08
		}
		if chance(30) {
			f.Duplicate = rng.Float64() * 0.06
		}
		if chance(40) {
			f.Reorder, f.ReorderDelay = rng.Float64()*0.08, time.Duration(1+rng.Int64N(500_000))
		}
		if chance(20) {
			f.Corrupt = rng.Float64() * 0.02
		}
		faulty = faulty || *f != sim.Faults{}
	}
	for i := range cfg.PSN {
		cfg.PSN[i] = ib.PSN(1 + rng.Uint32N(ib.PSNMask))
		if chance(30) {
			cfg.PSN[i] = ib.PSN(ib.PSNMask - rng.Uint32N(20))
		}
		cfg.Tuning[i] = transport.Tuning{DisableAckCoalesce: chance(30), EndToEndCredits: chance(40),
			GoBackN: chance(50)}
	}
	depth := uint8(1 + rng.IntN(8))
	cfg.Attr = func(_ int, a *verbs.ConnAttr) {
		a.RetryCnt, a.RNRRetry, a.Timeout, a.MinRNRTimer = 7, 7, ib.TimeoutCode(9+rng.IntN(3)),
			ib.RNRCode(1+rng.IntN(13))
		a.MaxRdAtomic, a.MaxDestRdAtomic = depth, depth
	}
	switch rng.IntN(6) {
	case 0:
		cfg.Type = ib.UC
	case 1, 2:
		return swarmCall(t, cfg, faults, rng), faulty
	}
	s, err := stage.New(cfg)
	require.NoError(t, err)
	a, b := s.Hosts[0].Addr, s.Hosts[1].Addr
	s.Net.SetFaults(a, b, faults[0])
	s.Net.SetFaults(b, a, faults[1])
	late := chance(30)
	bad := -1 // the round in which a request is wrong
	if chance(20) {
		bad = rng.IntN(8)
	}
	for i := range 8 {
		host := rng.IntN(2)
		ws := []verbs.SendWR{drawn(s, host, rng, cfg.Type)}
		for range rng.IntN(8) {
			ws = append(ws, drawn(s, host, rng, cfg.Type))
		}
		if i == bad && cfg.Type != ib.UC {
			w := s.Write(host, 1+rng.IntN(4000))
			w.RKey++
			ws = append(ws[:rng.IntN(len(ws))], w)
		}
		sends := 0
		for _, w := range ws {
			if w.Opcode == verbs.WRSend || w.Opcode == verbs.WRSendImm || w.Opcode == verbs.WRWriteImm {
				sends++
			}
		}
		if !late {
			require.NoError(t, s.Recv(1-host, sends, 8000))
		}
		for j := range ws {
			ws[j].ID, ws[j].Flags = uint64(j+1), ws[j].Flags|verbs.SendSignaled
			require.NoError(t, s.Post(host, &ws[j]))
		}
		if late {
			s.Net.RunFor(time.Duration(rng.IntN(2000)) * time.Microsecond)
			require.NoError(t, s.Recv(1-host, sends, 8000))
		}
		wcs, err := s.Await(host, len(ws))
		require.NoError(t, err)
		if wcs[len(wcs)-1].Status != verbs.WCSuccess {
			break
		}
	}
	s.Net.RunFor(time.Second)
	require.NoError(t, s.Close())
	return s, faulty
}

// drawn is a work request.
func drawn(s *stage.Stage, host int, rng *rand.Rand, typ ib.Transport) verbs.SendWR {
	n := rng.IntN(6000)
	if rng.IntN(4) == 0 {
		n = rng.IntN(10)
	}
	w := s.Send(host, n)
	k := rng.IntN(8)
	if typ == ib.UC {
		k = rng.IntN(4)
	}
	switch k {
	case 0:
		w.Opcode = verbs.WRSendImm
	case 1:
		w = s.Write(host, n)
	case 2:
		w = s.Write(host, n)
		w.Opcode = verbs.WRWriteImm
	case 3:
	case 4, 5:
		w = s.Read(host, n)
	case 6:
		w = s.FetchAdd(host, 1)
	case 7:
		w = s.FetchAdd(host, 1)
		w.Opcode = verbs.WRCompareSwap
	}
	if rng.IntN(10) == 0 {
		w.Flags |= verbs.SendFence
	}
	return w
}

// swarmCall plays a connection, or several, through RDMA-CM.
func swarmCall(t *testing.T, cfg stage.Config, faults [2]sim.Faults, rng *rand.Rand) (s *stage.Stage) {
	sim.Test(t, cfg.Sim, func(t *testing.T, net *sim.Fabric) {
		var err error
		s, err = stage.New(stage.Config{Net: net, Bare: true, Tuning: cfg.Tuning})
		require.NoError(t, err)
		a, b := s.Hosts[0], s.Hosts[1]
		net.SetFaults(a.Addr, b.Addr, faults[0])
		net.SetFaults(b.Addr, a.Addr, faults[1])
		ctx, stop := context.WithCancel(t.Context())
		l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: b.Device, KeepAlive: -1}}).ListenAddr(
			netip.AddrPortFrom(b.Addr, 7000))
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = l.Serve(ctx, echo)
		}()
		for range 1 + rng.IntN(3) {
			c, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: a.Device, KeepAlive: -1}}).DialAddr(ctx,
				netip.AddrPortFrom(b.Addr, 7000))
			if err != nil {
				continue // the network was too bad
			}
			m, err := c.Shared(ctx)
			for range rng.IntN(12) {
				if err != nil {
					break
				}
				switch rng.IntN(3) {
				case 0:
					err = c.Write(ctx, make([]byte, 1+rng.IntN(20000)), m)
				case 1:
					err = c.Read(ctx, make([]byte, 1+rng.IntN(20000)), m)
				default:
					if err = c.Send(ctx, make([]byte, 1+rng.IntN(100))); err == nil {
						_, err = c.Recv(ctx, make([]byte, 100))
					}
				}
			}
			_ = c.Close()
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		}
		stop()
		<-done
		require.NoError(t, s.Close())
	})
	return s
}

// echo shows the peer some memory, and then sends back what it gets.
func echo(ctx context.Context, c *roce.Conn) error {
	if _, err := c.Share(ctx, make([]byte, 1<<16), verbs.AccessAll); err != nil {
		return err
	}
	b := make([]byte, 100)
	for {
		n, err := c.Recv(ctx, b)
		if err == nil {
			err = c.Send(ctx, b[:n])
		}
		if err != nil {
			return err
		}
	}
}
