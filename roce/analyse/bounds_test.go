package analyse_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// traffic is n packets of random requests and answers on a number of connections, most of which
// make sense.
func traffic(seed uint64, n, conns int, wild bool) []pcap.Packet {
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	next := make([]ib.PSN, conns)
	ops := []ib.Opcode{ib.RCSendOnly, ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLast, ib.RCReadRequest,
		ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast, ib.RCReadRespOnly, ib.RCAcknowledge,
		ib.RCAtomicAck, ib.RCFetchAdd, ib.CNP, ib.UDSendOnly, ib.UCSendOnly, ib.RCFlush}
	var all []pcap.Packet
	for i := range n {
		c := rng.IntN(conns)
		p := pcap.Packet{Frame: i + 1, AtNs: int64(i) * 1000, Bytes: 1040, PayloadBytes: 1024, ICRC: pcap.ICRCRight}
		p.Flow = ib.Flow{Src: a, Dst: b, SrcPort: uint16(c), DstPort: ib.UDPPort}
		p.DestQP = ib.QPN(100 + c)
		p.Opcode, p.AckReq = ib.RCWriteOnly, true
		switch {
		case wild:
			p.Opcode = ops[rng.IntN(len(ops))]
			p.PSN = (next[c] + ib.PSN(rng.IntN(300)) - 100) & ib.PSNMask
			p.AETH.Syndrome = ib.Syndrome(rng.IntN(256))
			p.RETH.Len = rng.Uint32() >> rng.IntN(32)
			p.AtNs = int64(rng.IntN(1 << 30))
			if rng.IntN(20) == 0 {
				p.PSN = ib.PSN(rng.Uint32() & ib.PSNMask)
			}
			next[c]++
		case rng.IntN(2) == 0:
			p.PSN = next[c]
			next[c] = next[c].Next()
		default:
			p.Opcode, p.PSN = ib.RCAcknowledge, next[c].Prev()
		}
		if p.Opcode.Info().Response || wild && rng.IntN(2) == 0 {
			p.Flow.Src, p.Flow.Dst = b, a
		}
		all = append(all, p)
	}
	return all
}

func analyseAll(all []pcap.Packet, opt analyse.Options) *analyse.Report {
	a := analyse.New(opt)
	for i := range all {
		a.Add(&all[i])
	}
	return a.Report()
}

// Work grows as the number of packets does, whatever the packets are: steps are counted, not time.
func TestLinear(t *testing.T) {
	seeds.Long(t)
	for _, c := range []struct {
		name  string
		conns int
		wild  bool
		each  int64 // steps a packet at most
	}{{"one connection", 1, false, 20}, {"a thousand", 1000, false, 40}, {"nonsense", 1, true, 900},
		{"nonsense on many", 100, true, 900}} {
		var steps [2]float64
		for i, n := range []int{5_000, 20_000} {
			steps[i] = float64(analyseAll(traffic(1, n, c.conns, c.wild), analyse.Options{}).Steps) / float64(n)
		}
		t.Logf("%s: %.1f and %.1f steps a packet", c.name, steps[0], steps[1])
		require.Less(t, steps[1], 1.3*steps[0]+5, c.name)
		require.Less(t, steps[1], float64(c.each), c.name)
	}
}

// A capture without losses has no finding, at any path MTU, and from both sides; and if it is begun
// in the middle there is none either.
func TestMiddle(t *testing.T) {
	seeds.Long(t)
	s, err := stage.New(stage.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Recv(1, 20, 8192))
	for range 20 {
		_, err := s.Do(0, s.Write(0, 5000), s.Read(0, 5000), s.Send(0, 3000), s.FetchAdd(0, 1), s.Read(0, 100))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	for _, v := range []stage.View{stage.At0, stage.At1, stage.Wire} {
		var all []pcap.Packet
		require.NoError(t, s.Packets(v, func(p *pcap.Packet) {
			q := *p
			q.Data, q.Payload = nil, nil
			q.Bytes = 0
			all = append(all, q)
		}))
		for from := range all {
			r := analyseAll(all[from:], analyse.Options{})
			require.Empty(t, r.Findings, "%v, from packet %d", v, from)
		}
	}
}

// What a capture lacks is no loss, if it was acknowledged: the analyser says so.
func TestCaptureHoles(t *testing.T) {
	s, err := stage.New(stage.Config{})
	require.NoError(t, err)
	for range 50 {
		_, err := s.Do(0, s.Write(0, 5000))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	a := analyse.New(analyse.Options{})
	dropped := 0
	require.NoError(t, s.Packets(stage.At0, func(p *pcap.Packet) {
		if p.Frame%17 == 0 && p.Opcode == ib.RCWriteMiddle {
			dropped++
			return
		}
		a.Add(p)
	}))
	r := a.Report()
	require.NotZero(t, dropped)
	require.Empty(t, r.Findings)
	require.Equal(t, dropped, r.Connections[0].Ways[0].Missing)
	require.NotEmpty(t, r.Connections[0].Notes)
}

// Under random loss the analyser sees as many NAKs as there were, reports no more losses than
// packets were lost, and never a failure: nothing failed. Where several packets of one round trip
// are lost, it may take one for something else; that is rare.
func TestRandomLoss(t *testing.T) {
	n := seeds.Fewer(60)
	if testing.Short() {
		n = seeds.Fewer(15)
	}
	found, odd := 0, 0
	for seed := range uint64(n) {
		s, err := stage.New(stage.Config{Sim: sim.Config{Seed: seed + 1, Faults: sim.Faults{Loss: 0.03}}})
		require.NoError(t, err)
		for range 30 {
			_, err := s.Do(0, s.Write(0, 5000), s.Read(0, 5000), s.FetchAdd(0, 1))
			require.NoError(t, err)
		}
		naks := s.Hosts[0].Device.Counters().RcvdSeqErr
		lost := s.Net.Stats().Lost
		require.NoError(t, s.Close())
		for _, v := range []stage.View{stage.At0, stage.At1} {
			r, err := s.Report(v)
			require.NoError(t, err)
			for _, f := range r.Findings {
				found++
				switch f.Kind {
				case analyse.LostRequest, analyse.LostReadRequest, analyse.LostReadResponse, analyse.LostAck,
					analyse.LostAtomicAck:
				case analyse.DuplicateRequest, analyse.Reordered, analyse.LateAck:
					odd++
					t.Logf("seed %d, %v: %s: %s", seed, v, line(f), f.Text)
				default:
					t.Errorf("seed %d, %v: %s", seed, v, line(f))
				}
			}
			require.LessOrEqual(t, uint64(len(r.Findings)), lost, "seed %d, %v", seed, v)
			if v == stage.At0 {
				require.EqualValues(t, naks, r.Connections[0].Ways[0].Sequence, "seed %d", seed)
			}
		}
	}
	t.Logf("%d findings, %d of another kind", found, odd)
	require.LessOrEqual(t, 200*odd, found)
}

// Limits hold, and what they left out is counted.
func TestLimits(t *testing.T) {
	r := analyseAll(traffic(3, 50_000, 500, true),
		analyse.Options{MaxConnections: 10, MaxRecords: 1000, MaxFindings: 7})
	require.LessOrEqual(t, len(r.Connections), 10)
	require.NotZero(t, r.MoreConnections)
	require.LessOrEqual(t, len(r.Findings), 7)
	require.NotZero(t, r.MoreFindings)
}

// Any file is read, and any packets are analysed, without a panic; what is reported refers to
// frames that there are.
func FuzzAnalyse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(captureDir, "*.pcap"))
	require.NoError(f, err)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(b[:min(len(b), 3000)], uint64(0))
	}
	// A tail was lost behind a packet that the capture lacks.
	f.Add([]byte(nil), uint64(6330534999471211973))
	f.Fuzz(func(t *testing.T, file []byte, seed uint64) {
		check := func(r *analyse.Report, frames int) {
			for _, x := range r.Findings {
				for _, n := range x.Frames {
					if n < 1 || n > frames {
						t.Errorf("%s: frame %d of %d", x.Kind, n, frames)
					}
				}
				if x.Text == "" || x.Advice == "" || len(x.Frames) == 0 || x.Certain != (len(x.Or) == 0) && x.Certain {
					t.Errorf("a finding that says nothing: %+v", x)
				}
			}
		}
		if r, _, _ := analyse.Read(bytes.NewReader(file), analyse.Options{}); r != nil {
			check(r, len(file))
		}
		all := traffic(seed, 300, 1+int(seed%5), true)
		check(analyseAll(all, analyse.Options{}), 300)
		loss := analyse.Loss{Requester: analyse.Endpoint{Addr: all[0].Flow.Src}, Responder: analyse.Endpoint{
			Addr: all[0].Flow.Dst, QPN: 100,
		}, PSN: ib.PSN(seed % 300), Response: seed%2 == 0}
		known := analyse.Known{Ends: [2]analyse.Endpoint{loss.Requester, loss.Responder}, MTU: 1024,
			Tries: [2]int{2, 2}}
		r := analyseAll(all, analyse.Options{Recall: 50, Conduct: &analyse.Conduct{
			Losses: []analyse.Loss{loss}, Connections: []analyse.Known{known},
		}})
		check(r, 300)
		require.Len(t, r.Repairs, 1)
		if x := r.Exhausted(all[0].Flow.Src, all[0].Flow.Dst); x != nil {
			require.GreaterOrEqual(t, x.Times, 3)
		}
	})
}
