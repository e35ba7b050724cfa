package analyse_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// changed analyses the packets of a capture after a change: change calls add for each that there is
// to be.
func changed(t *testing.T, name string, snaplen int,
	change func(p *pcap.Packet, add func(*pcap.Packet))) *analyse.Report {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(captureDir, name))
	require.NoError(t, err)
	r, err := pcap.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	a, d := analyse.New(analyse.Options{}), &pcap.Decoder{}
	var f pcap.Frame
	for {
		err := r.Next(&f)
		if err == io.EOF {
			return a.Report()
		}
		require.NoError(t, err)
		if snaplen > 0 {
			f.Data = f.Data[:min(len(f.Data), snaplen)]
		}
		for _, p := range d.Decode(&f) {
			change(&p, func(q *pcap.Packet) { a.Add(q) })
		}
	}
}

// A capture that is cut behind the headers (tcpdump -s) is followed as a whole one.
func TestCutCapture(t *testing.T) {
	for _, name := range []string{"write_bw.pcap", "read_bw.pcap", "atomic_fa.pcap", "rping.pcap",
		"rc_pingpong_loss.pcap"} {
		same := func(p *pcap.Packet, add func(*pcap.Packet)) { add(p) }
		whole, cut := changed(t, name, 0, same), changed(t, name, 96, same)
		require.Equal(t, len(whole.Findings), len(cut.Findings), name)
		for i, f := range cut.Findings {
			require.Equal(t, whole.Findings[i].Kind, f.Kind, name)
			require.Equal(t, whole.Findings[i].Frames, f.Frames, name)
		}
		require.Zero(t, cut.Malformed, name)
	}
}

// What is captured at two interfaces (tcpdump -i any, on a host with a bridge) counts once.
func TestCapturedTwice(t *testing.T) {
	r := changed(t, "read_bw.pcap", 0, func(p *pcap.Packet, add func(*pcap.Packet)) {
		add(p)
		p.Iface++
		add(p)
	})
	require.Empty(t, r.Findings)
	require.Equal(t, r.Packets, 2*r.Twice)
}

// If no ICRC of an address is right, its packets were not damaged one by one.
func TestRewrittenICRC(t *testing.T) {
	r := changed(t, "write_bw.pcap", 0, func(p *pcap.Packet, add func(*pcap.Packet)) {
		p.ICRC = pcap.ICRCWrong
		add(p)
	})
	require.Equal(t, "icrc-rewritten icrc-rewritten", kindsFound(r))
}

// A damaged packet is told apart from those.
func TestOneDamaged(t *testing.T) {
	r := changed(t, "write_bw.pcap", 0, func(p *pcap.Packet, add func(*pcap.Packet)) {
		if p.Frame == 1 { // the first of its address, so that it is judged when the next one comes
			p.ICRC = pcap.ICRCWrong
		}
		add(p)
	})
	require.Equal(t, "corrupt", kindsFound(r))
	require.Equal(t, 1, r.Findings[0].Frames[0])
}

// Only one direction was captured: nobody can say why something was sent again, nor that the peer
// is gone.
func TestOneDirection(t *testing.T) {
	for _, name := range []string{"write_bw.pcap", "read_bw.pcap", "rping.pcap", "send_bw.pcap", "rstream.pcap"} {
		for _, src := range []string{"10.77.0.2", "10.77.0.3"} {
			r := changed(t, name, 0, func(p *pcap.Packet, add func(*pcap.Packet)) {
				if p.Flow.Src.String() == src {
					add(p)
				}
			})
			require.Empty(t, r.Findings, "%s, only from %s", name, src)
		}
	}
}

// What routers say ends as findings that name the packet.
func TestICMP(t *testing.T) {
	for what, kind := range map[pcap.ICMPKind]string{pcap.TooBig: "pmtu-blackhole",
		pcap.PortUnreachable: "peer-gone", pcap.Unreachable: "peer-gone"} {
		r := changed(t, "write_bw.pcap", 0, func(p *pcap.Packet, add func(*pcap.Packet)) {
			if p.Frame > 3 {
				return
			}
			add(p)
			if p.Frame == 3 {
				m := *p
				m.Frame = 4
				m.ICMP = &pcap.ICMP{From: p.Flow.Dst, What: what, MTU: 576, HasBTH: true}
				add(&m)
			}
		})
		require.Equal(t, kind, kindsFound(r))
		require.Equal(t, []int{4, 3}, r.Findings[0].Frames)
		require.True(t, r.Findings[0].Certain)
	}
}

// A packet of UC that comes late was overtaken, unless so many are missing that its gap is
// forgotten.
func TestLateOnUC(t *testing.T) {
	const maxGaps = 256
	for _, missing := range []int{1, maxGaps, maxGaps + 1} {
		s := &script{}
		for i := range missing + 1 {
			s.add(0, 1, ib.UCWriteOnly, ib.PSN(2*i))
		}
		s.add(0, 1, ib.UCWriteOnly, 1)
		f := analyseAll(s.all, analyse.Options{}).Findings
		require.Len(t, f, missing)
		late := f[missing-1] // they are in the order of their packets
		if missing > maxGaps {
			require.Equal(t, analyse.UCLost, late.Kind)
			continue
		}
		require.Equal(t, analyse.Reordered, late.Kind)
		require.Equal(t, []int{missing + 2, 2}, late.Frames)
	}
}

// A receiver that was not ready, and is now, is no reason why a long packet vanishes.
func TestBlackholeAfterRNR(t *testing.T) {
	s := &script{}
	s.add(0, 1, ib.RCSendOnly, 7)
	s.answer(10, ib.RNRNAK(12), 7)
	s.add(0, 1000, ib.RCSendOnly, 7)
	s.answer(10, ib.ACKNoCredits, 7)
	for range 4 {
		p := s.add(0, 67_000, ib.RCWriteFirst, 8)
		p.Bytes, p.PayloadBytes, p.RETH.Len = 1100, 1024, 2048
	}
	var kinds []analyse.Kind
	for _, f := range analyseAll(s.all, analyse.Options{}).Findings {
		kinds = append(kinds, f.Kind)
	}
	require.Contains(t, kinds, analyse.PMTUBlackhole)
	require.NotContains(t, kinds, analyse.RNRExceeded)
}

// What was found about a connection says nothing about another one with the same numbers.
func TestNumbersAgain(t *testing.T) {
	s := &script{here: 1}
	s.writes(7).answer(10, ib.ACKNoCredits, 7)
	s.add(0, 100, ib.RCWriteOnly, 8).AckReq = true
	s.add(0, 67_000, ib.RCWriteOnly, 8).AckReq = true
	s.answer(10, ib.ACKNoCredits, 8)
	before := analyseAll(s.all, analyse.Options{}).Findings
	require.Len(t, before, 1)

	const far = 8 + 1<<17
	s.add(0, 100, ib.RCWriteOnly, far)
	s.answer(10, ib.ACKNoCredits, far)
	s.add(0, 20, ib.RCWriteOnly, far)
	s.answer(10, ib.ACKNoCredits, far)
	after := analyseAll(s.all, analyse.Options{}).Findings
	require.Equal(t, before[0].Kind, after[0].Kind)
	require.Equal(t, before[0].Or, after[0].Or)
	require.Equal(t, before[0].Frames, after[0].Frames)
	require.Equal(t, before[0].Text, after[0].Text)
}

// Of several packets that are missing among those that were sent again each can come the next time,
// and be lost behind the capture.
func TestMissingAgain(t *testing.T) {
	s := &script{here: 1}
	s.writes(10, 11, 12, 13, 14, 15, 16)
	s.add(0, 67_000, ib.RCWriteOnly, 10)
	s.writes(12, 13, 15, 16) // 11 and 14 are missing
	s.add(0, 67_000, ib.RCWriteOnly, 10)
	s.writes(12, 13, 14)
	came := len(s.all)
	s.writes(15, 16).answer(10, ib.NAKSequence, 14)
	f := analyseAll(s.all, analyse.Options{}).Findings
	last := f[len(f)-1]
	require.Equal(t, analyse.SlowReceiver, last.Kind)
	require.Equal(t, []int{came, len(s.all)}, last.Frames)
}

// A peer has stopped to answer if nothing since its last packet was answered, and not if something
// before it was not.
func TestUnansweredFirst(t *testing.T) {
	a, b := judged.Ends[0].Addr.String(), judged.Ends[1].Addr.String()
	ask := func(s *script) {
		p := *madPacket(t, len(s.all)+1, a, b, (&mad.REQ{LocalCommID: 7, QPN: 17, MTU: ib.MTU1024}).Put, mad.AttrREQ)
		p.AtNs = s.at
		s.all = append(s.all, p)
	}
	for _, first := range []bool{false, true} {
		s := &script{}
		if first {
			ask(s)
		}
		s.writes(7).answer(10, ib.ACKNoCredits, 7)
		if !first {
			ask(s)
		}
		for range 8 {
			s.add(0, 500_000, ib.RCWriteOnly, 8)
		}
		gone := slices.ContainsFunc(analyseAll(s.all, analyse.Options{}).Findings,
			func(f *analyse.Finding) bool { return f.Kind == analyse.PeerGone })
		require.Equal(t, !first, gone)
	}
}
