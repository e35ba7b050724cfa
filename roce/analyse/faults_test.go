package analyse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
	"github.com/stretchr/testify/require"
)

// scene is a fault that is injected on a stage.
type scene struct {
	name string
	cfg  stage.Config
	play func(t *testing.T, s *stage.Stage)
	// want is the kinds that have to be found, and nothing else: at A, at B, on the wire. Empty is
	// none; "a|b" is that the two cannot be told apart from there.
	want  [3]string
	views []stage.View // nil: those three
}

// do carries out work requests of A, which succeed.
func do(t *testing.T, s *stage.Stage, wrs ...verbs.SendWR) {
	t.Helper()
	wcs, err := s.Do(0, wrs...)
	require.NoError(t, err)
	for _, wc := range wcs {
		require.Equal(t, verbs.WCSuccess, wc.Status)
	}
}

// fails carries out a work request of A, which does not.
func fails(t *testing.T, s *stage.Stage, want verbs.WCStatus, wrs ...verbs.SendWR) {
	t.Helper()
	wcs, err := s.Do(0, wrs...)
	require.NoError(t, err)
	require.Equal(t, want, wcs[len(wcs)-1].Status)
}

// warm measures round trips: three WRITEs. The next PSN of A is 1003.
func warm(t *testing.T, s *stage.Stage) {
	t.Helper()
	for range 3 {
		do(t, s, s.Write(0, 64))
	}
}

// rule makes host h do something to a packet that it sends, the first time.
func rule(s *stage.Stage, h int, a fault.Action, psn ib.PSN, op ib.Opcode) {
	s.Hosts[h].Faults.Add(fault.Rule{Action: a, PSN: psn, HasPSN: true, Opcode: op, HasOpcode: true, Iteration: 1})
}

const (
	psn0 = ib.PSN(1003) // of the first request after warm
	full = 8 * 1024     // 8 packets: PSN 1003 to 1010
)

func scenes() []scene {
	hit := func(h int, a fault.Action, psn ib.PSN, op ib.Opcode,
		wrs func(s *stage.Stage) []verbs.SendWR) func(*testing.T, *stage.Stage) {
		return func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			rule(s, h, a, psn, op)
			do(t, s, wrs(s)...)
			require.Equal(t, 1, s.Hosts[h].Faults.Hits(0), "the fault did not happen")
			s.Net.RunFor(2_000_000) // what may be late has come by then
			do(t, s, s.Write(0, 64))
		}
	}
	write := func(n int) func(s *stage.Stage) []verbs.SendWR {
		return func(s *stage.Stage) []verbs.SendWR { return []verbs.SendWR{s.Write(0, n)} }
	}
	read := func(n int) func(s *stage.Stage) []verbs.SendWR {
		return func(s *stage.Stage) []verbs.SendWR { return []verbs.SendWR{s.Read(0, n)} }
	}
	atomic := func(s *stage.Stage) []verbs.SendWR { return []verbs.SendWR{s.FetchAdd(0, 1)} }
	same := func(k string) [3]string { return [3]string{k, k, k} }
	return []scene{
		{name: "clean", play: func(t *testing.T, s *stage.Stage) {
			require.NoError(t, s.Recv(1, 4, 8192))
			warm(t, s)
			for _, n := range []int{0, 1, 1024, full} {
				do(t, s, s.Write(0, n), s.Read(0, n), s.Send(0, n), s.FetchAdd(0, 1))
			}
		}},
		{name: "clean, both directions, PSNs wrap", cfg: stage.Config{
			PSN: [2]ib.PSN{0xFFFFF0, 0xFFFFF8},
		}, play: func(t *testing.T, s *stage.Stage) {
			for range 4 {
				do(t, s, s.Write(0, full), s.Read(0, full))
				_, err := s.Do(1, s.Write(1, full), s.Read(1, full))
				require.NoError(t, err)
			}
		}},
		{name: "lost request in the middle", play: hit(0, fault.Drop, psn0+3, ib.RCWriteMiddle, write(full)),
			want: [3]string{"lost-request|reordered", "lost-request", "lost-request"}},
		{name: "lost first request", play: hit(0, fault.Drop, psn0, ib.RCWriteFirst, write(full)),
			want: [3]string{"lost-request|reordered", "lost-request", "lost-request"}},
		{name: "lost last request", play: hit(0, fault.Drop, psn0+7, ib.RCWriteLast, write(full)),
			want: [3]string{"lost-request|lost-ack|late-ack", "", ""}},
		{name: "lost lone request", play: hit(0, fault.Drop, psn0, ib.RCWriteOnly, write(64)),
			want: [3]string{"lost-request|lost-ack|late-ack", "", ""}},
		{name: "lost request, and again when it is sent again", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: psn0 + 3, HasPSN: true, Times: 2})
			do(t, s, s.Write(0, full))
			s.Net.RunFor(2_000_000)
			do(t, s, s.Write(0, 64))
		}, want: [3]string{"lost-request lost-request|reordered", "lost-request lost-request|reordered",
			"lost-request lost-request|reordered"}},
		{name: "lost READ request", play: hit(0, fault.Drop, psn0, ib.RCReadRequest, read(full)),
			want: [3]string{"lost-read-request|lost-read-response", "", ""}},
		{name: "lost READ request before others",
			play: hit(0, fault.Drop, psn0, ib.RCReadRequest, func(s *stage.Stage) []verbs.SendWR {
				return []verbs.SendWR{s.Read(0, full), s.Write(0, 64)}
			}), want: [3]string{"lost-read-request|reordered", "lost-read-request", "lost-read-request"}},
		{name: "lost READ response in the middle", play: hit(1, fault.Drop, psn0+3, ib.RCReadRespMiddle, read(full)),
			want: [3]string{"lost-read-response", "lost-read-response|reordered", "lost-read-response"}},
		{name: "lost first READ response", play: hit(1, fault.Drop, psn0, ib.RCReadRespFirst, read(full)),
			want: [3]string{"lost-read-response", "lost-read-response|reordered", "lost-read-response"}},
		{name: "lost last READ response", play: hit(1, fault.Drop, psn0+7, ib.RCReadRespLast, read(full)),
			want: [3]string{"lost-read-response|reordered", "lost-read-response|late-ack",
				"lost-read-response|reordered"}},
		{name: "lost only READ response", play: hit(1, fault.Drop, psn0, ib.RCReadRespOnly, read(64)),
			want: [3]string{"lost-read-request|lost-read-response", "lost-read-response|late-ack",
				"lost-read-response|lost-read-request"}},
		{name: "lost ACK", play: hit(1, fault.Drop, psn0, ib.RCAcknowledge, write(64)),
			want: [3]string{"lost-request|lost-ack|late-ack", "lost-ack|late-ack", "lost-ack|lost-request|late-ack"}},
		{name: "lost ACK of a long message", play: hit(1, fault.Drop, psn0+7, ib.RCAcknowledge, write(full)),
			want: [3]string{"lost-request|lost-ack|late-ack", "lost-ack|late-ack", "lost-ack|lost-request|late-ack"}},
		{name: "lost atomic", play: hit(0, fault.Drop, psn0, ib.RCFetchAdd, atomic),
			want: [3]string{"lost-request|lost-atomic-ack", "", ""}},
		{name: "lost answer to an atomic", play: hit(1, fault.Drop, psn0, ib.RCAtomicAck, atomic),
			want: [3]string{"lost-request|lost-atomic-ack", "lost-atomic-ack|late-ack",
				"lost-atomic-ack|lost-request"}},
		{name: "doubled request", play: hit(0, fault.Duplicate, psn0+3, ib.RCWriteMiddle, write(full)),
			want: [3]string{"", "duplicate-request|reordered", "duplicate-request|reordered"}},
		{name: "doubled READ request", play: hit(0, fault.Duplicate, psn0, ib.RCReadRequest, read(full)),
			want: [3]string{"duplicate-ack|duplicate-request", "duplicate-request|reordered",
				"duplicate-request|reordered"}},
		{name: "doubled atomic", play: hit(0, fault.Duplicate, psn0, ib.RCFetchAdd, atomic),
			want: [3]string{"duplicate-ack|duplicate-request", "duplicate-request|reordered",
				"duplicate-request|reordered"}},
		{name: "doubled ACK", play: hit(1, fault.Duplicate, psn0, ib.RCAcknowledge, write(64)),
			want: [3]string{"duplicate-ack|duplicate-request", "", "duplicate-ack|duplicate-request"}},
		{name: "doubled READ response", play: hit(1, fault.Duplicate, psn0+3, ib.RCReadRespMiddle, read(full)),
			want: [3]string{"duplicate-ack|duplicate-request", "", "duplicate-ack|duplicate-request"}},
		{name: "overtaken request", play: hit(0, fault.Delay, psn0+3, ib.RCWriteMiddle, write(full)),
			// Three round trips are too few to be sure.
			want: [3]string{"lost-request|reordered", "reordered", "reordered"}},
		{name: "overtaken READ response", play: hit(1, fault.Delay, psn0+3, ib.RCReadRespMiddle, read(full)),
			want: [3]string{"reordered", "lost-read-response|reordered", "reordered"}},
		{name: "damaged request", play: hit(0, fault.Corrupt, psn0+3, ib.RCWriteMiddle, write(full)),
			want: [3]string{"lost-request|reordered", "lost-request", "corrupt"}},
		{name: "damaged last request", play: hit(0, fault.Corrupt, psn0+7, ib.RCWriteLast, write(full)),
			want: [3]string{"lost-request|lost-ack|late-ack", "", "corrupt"}},
		{name: "damaged READ response", play: hit(1, fault.Corrupt, psn0+3, ib.RCReadRespMiddle, read(full)),
			// On the wire it would be before the trace of A, whose link drops it.
			want: [3]string{"lost-read-response", "lost-read-response|reordered", "lost-read-response"}},
		{name: "marked packets and CNPs", cfg: stage.Config{Tuning: [2]transport.Tuning{
			{Congestion: cc.Config{Algorithm: cc.DCQCNPaper}}, {Congestion: cc.Config{Algorithm: cc.DCQCNPaper}},
		}}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Hosts[1].Faults.Add(fault.Rule{Dir: fault.Receive, Action: fault.MarkCE, PSN: psn0 + 2, HasPSN: true})
			do(t, s, s.Write(0, full))
		}, want: [3]string{"rate-cut", "ce-marked rate-cut", "rate-cut"}},
		{name: "no receive is posted", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Net.At(s.Net.Now()+2_000_000, func() { require.NoError(t, s.Recv(1, 1, 8192)) })
			do(t, s, s.Send(0, full))
		}, want: same("rnr")},
		{name: "no receive is ever posted", cfg: stage.Config{Attr: func(_ int, a *verbs.ConnAttr) { a.RNRRetry = 3 }},
			play: func(t *testing.T, s *stage.Stage) {
				warm(t, s)
				fails(t, s, verbs.WCRNRRetryExcErr, s.Send(0, 64))
				s.Net.RunFor(time.Second)
				keepTalking(t, s)
			}, want: same("rnr rnr-retry-exceeded")},
		{name: "wrong key", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			w := s.Write(0, 64)
			w.RKey ^= 0x100
			fails(t, s, verbs.WCRemoteAccessErr, w)
		}, want: same("remote-access")},
		{name: "READ beyond the end", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			w := s.Read(0, 64)
			w.RemoteAddr += uint64(s.Hosts[1].MR.Len())
			fails(t, s, verbs.WCRemoteAccessErr, w)
		}, want: same("remote-access")},
		{name: "misaligned atomic", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			w := s.FetchAdd(0, 1)
			w.RemoteAddr++
			fails(t, s, verbs.WCRemoteInvReqErr, w)
		}, want: same("invalid-request")},
		{name: "the receive's memory is gone", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			h := s.Hosts[1]
			require.NoError(t, h.QP.PostRecv(&verbs.RecvWR{
				ID: 1001, SGList: []verbs.SGE{{Addr: h.MR.Addr(), Length: 64, LKey: h.MR.LKey() ^ 0x100}},
			}))
			fails(t, s, verbs.WCRemoteOpErr, s.Send(0, 64))
		}, want: same("remote-operational")},
		{name: "nothing of a request arrives", cfg: stage.Config{
			Attr: func(_ int, a *verbs.ConnAttr) { a.RetryCnt = 3 },
		}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: psn0, HasPSN: true})
			fails(t, s, verbs.WCRetryExcErr, s.Write(0, 64))
			s.Net.RunFor(time.Second)
			keepTalking(t, s)
		}, want: [3]string{"retry-exceeded|lost-request|lost-ack", "", ""}},
		{name: "no ACK arrives", cfg: stage.Config{
			Attr: func(_ int, a *verbs.ConnAttr) { a.RetryCnt = 3 },
		}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Hosts[1].Faults.Add(fault.Rule{Action: fault.Drop, PSN: psn0, HasPSN: true})
			fails(t, s, verbs.WCRetryExcErr, s.Write(0, 64))
			s.Net.RunFor(time.Second)
			keepTalking(t, s)
		}, want: [3]string{"retry-exceeded|lost-request|lost-ack",
			"lost-ack|late-ack retry-exceeded|late-ack", "retry-exceeded|lost-request|lost-ack"}},
		{name: "path MTUs differ", cfg: stage.Config{Attr: func(h int, a *verbs.ConnAttr) {
			if h == 1 {
				a.MTU = ib.MTU512
			}
		}}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			fails(t, s, verbs.WCRemoteInvReqErr, s.Write(0, full))
		}, want: same("mtu-mismatch|invalid-request")},
		{name: "long packets vanish", cfg: stage.Config{
			Attr: func(_ int, a *verbs.ConnAttr) { a.RetryCnt = 3 },
		}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			for _, o := range []ib.Opcode{ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLast} {
				s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, Opcode: o, HasOpcode: true})
			}
			fails(t, s, verbs.WCRetryExcErr, s.Write(0, full))
			s.Net.RunFor(time.Second)
			keepTalking(t, s)
		}, want: [3]string{"pmtu-blackhole|retry-exceeded|lost-request retry-exceeded|lost-request|lost-ack", "", ""}},
		{name: "late ACK", cfg: stage.Config{}, play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Net.SetFaults(s.Hosts[1].Addr, s.Hosts[0].Addr, sim.Faults{Reorder: 1, ReorderDelay: 1_500_000})
			do(t, s, s.Write(0, 64))
			s.Net.SetFaults(s.Hosts[1].Addr, s.Hosts[0].Addr, sim.Faults{})
			s.Net.RunFor(10_000_000)
			do(t, s, s.Write(0, 64))
		}, want: [3]string{"late-ack", "lost-ack|late-ack", "late-ack"}},
		{name: "no credits", cfg: stage.Config{
			Tuning: [2]transport.Tuning{{EndToEndCredits: true}, {EndToEndCredits: true}},
		}, play: func(t *testing.T, s *stage.Stage) {
			require.NoError(t, s.Recv(1, 1, 8192))
			warm(t, s)
			s.Net.At(s.Net.Now()+1_000_000, func() { require.NoError(t, s.Recv(1, 4, 8192)) })
			do(t, s, s.Send(0, 64), s.Send(0, 64), s.Send(0, 64), s.Send(0, 64))
		}, want: same("credits-exhausted rnr")},
		{name: "the socket buffer is full", play: func(t *testing.T, s *stage.Stage) {
			warm(t, s)
			s.Hosts[1].Faults.Add(
				fault.Rule{Dir: fault.Receive, Action: fault.Drop, PSN: psn0 + 3, HasPSN: true, Iteration: 1})
			do(t, s, s.Write(0, full))
		}, views: []stage.View{stage.At0, stage.Below1, stage.Wire},
			want: [3]string{"lost-request|reordered", "slow-receiver", "lost-request|reordered"}},
		{name: "lost on UC", cfg: stage.Config{Type: ib.UC}, play: func(t *testing.T, s *stage.Stage) {
			do(t, s, s.Write(0, full))
			rule(s, 0, fault.Drop, 1010, ib.UCWriteMiddle)
			do(t, s, s.Write(0, full))
			do(t, s, s.Write(0, full))
			s.Net.RunFor(1_000_000)
		}, want: [3]string{"", "uc-lost", "uc-lost"}},
		{name: "lost on UD", cfg: stage.Config{Type: ib.UD}, play: func(t *testing.T, s *stage.Stage) {
			require.NoError(t, s.Recv(1, 8, 2048))
			ah, err := s.Hosts[0].PD.CreateAHTo(ib.GIDFromAddr(s.Hosts[1].Addr))
			require.NoError(t, err)
			for i := range 8 {
				if i == 5 {
					s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, Times: 1})
				}
				w := s.Send(0, 64)
				w.AH, w.RemoteQPN, w.RemoteQKey = ah, s.Hosts[1].QP.Num(), stage.QKey
				do(t, s, w)
			}
			s.Net.RunFor(1_000_000)
		}, want: [3]string{"", "ud-lost", "ud-lost"}},
	}
}

// keepTalking lets hosts be heard after a failure, so that the end of the capture is not its last
// packet: by another pair of queue pairs.
func keepTalking(t *testing.T, s *stage.Stage) {
	t.Helper()
	var qps [2]*verbs.QP
	for i, h := range s.Hosts {
		var err error
		qps[i], err = h.PD.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: h.CQ, QPN: ib.QPN(0x100 + i)})
		require.NoError(t, err)
		qps[i].SetPSN(ib.PSN(0x10000 * (i + 1)))
	}
	for i := range qps {
		require.NoError(t, qps[i].Connect(qps[1-i].LocalInfo(0), nil))
	}
	w := s.Write(0, 64)
	w.ID, w.Flags = 1, verbs.SendSignaled
	require.NoError(t, qps[0].PostSend(&w))
	_, err := s.Await(0, 1)
	require.NoError(t, err)
}

// kindsFound are the kinds of a report's findings, with what each may be else.
func kindsFound(r *analyse.Report) string {
	var all []string
	for _, f := range r.Findings {
		k := string(f.Kind)
		for _, o := range f.Or {
			k += "|" + string(o)
		}
		all = append(all, k)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Each fault is found by what can be seen of it, on either host and on the wire between, and
// nothing else is. The table has the packets.
func TestFaults(t *testing.T) {
	var b strings.Builder
	for _, c := range scenes() {
		for i := range c.cfg.Tuning { // packets do not wait for answers to those before
			c.cfg.Tuning[i].MaxUnackedPackets = transport.DefaultMaxUnackedPackets
		}
		s, err := stage.New(c.cfg)
		require.NoError(t, err, c.name)
		c.play(t, s)
		require.NoError(t, s.Close())
		fmt.Fprintf(&b, "%s\n", c.name)
		views := c.views
		if views == nil {
			views = []stage.View{stage.At0, stage.At1, stage.Wire}
		}
		for i, v := range views {
			r, err := s.Report(v)
			require.NoError(t, err)
			require.Zero(t, r.Malformed)
			fmt.Fprintf(&b, "  %v\n", v)
			for _, f := range r.Findings {
				fmt.Fprintf(&b, "    %s\n      %s\n", line(f), f.Text)
			}
			if got := kindsFound(r); got != c.want[i] {
				t.Errorf("%s, %v: found %q, want %q", c.name, v, got, c.want[i])
				dump(t, s, v)
			}
		}
	}
	golden(t, "faults.txt", b.String())
}

// dump logs a capture.
func dump(t *testing.T, s *stage.Stage, v stage.View) {
	var b strings.Builder
	require.NoError(t, s.Packets(v, func(p *pcap.Packet) {
		var h mad.Header
		if p.DestQP == ib.QPNGSI && len(p.Payload) == mad.Bytes {
			_, _ = mad.Parse(p.Payload, &h)
			fmt.Fprintf(&b, "%3d %9.3fus %v %v %x\n", p.Frame, float64(p.AtNs)/1000, p.Flow.Src, h.Attribute,
				p.Payload[24:44])
			return
		}
		fmt.Fprintf(&b, "%3d %9.3fus %v %-24v psn %d a=%v %v msn %d icrc %v\n", p.Frame, float64(p.AtNs)/1000,
			p.Flow.Src, p.Opcode, p.PSN, p.AckReq, p.AETH.Syndrome, p.AETH.MSN, p.ICRC)
	}))
	t.Log("\n" + b.String())
}
