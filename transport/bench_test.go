package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// benchLoop is a loop whose packets are kept, so that sending and receiving
// can be measured apart: wire holds what a sent, back what b answered.
type benchLoop struct {
	*loop
	wire [][]byte
	used int
	wc   [64]WC
	// icrc, if not nil, is summed over every packet sent, and over every packet
	// received and compared, as a link does.
	icrc *ib.ICRC
	bad  uint32 // of all sums, what was wrong
}

func newBenchLoop(b testing.TB, mtu ib.MTU) *benchLoop {
	l := &benchLoop{loop: newLoop(b, loopOptions{
		mtu: mtu, cqe: 4096, tuning: Tuning{MaxUnackedPackets: 1 << 12},
		caps: QPCaps{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 1, MaxRecvSGE: 1},
	})}
	for range 64 {
		l.wire = append(l.wire, make([]byte, 0, ib.MaxPacketBytes))
	}
	return l
}

// capture keeps what from sends, as the link would: a copy, without the time
// of an ICRC or a system call.
func (l *benchLoop) capture(from *side) {
	l.used = 0
	for {
		n := from.e.PollTransmit(l.now, l.batch)
		if n == 0 {
			return
		}
		for i := range l.batch[:n] {
			l.wire[l.used] = append(l.batch[i].AppendTo(l.wire[l.used][:0]), 0, 0, 0, 0)
			l.used++
		}
	}
}

// deliver gives what was captured to to.
func (l *benchLoop) deliver(from, to *side) {
	to.rx.Src, to.rx.Dst = from.addr, to.addr
	for _, b := range l.wire[:l.used] {
		if l.icrc != nil {
			l.bad |= l.icrc.Checksum(0, b[:len(b)-ib.ICRCBytes]) ^ ib.TrailingICRC(b)
		}
		to.rx.Data = b
		to.e.HandlePacket(l.now, &to.rx)
	}
}

const benchBatch = 32

// round moves a batch of single-packet messages and their acknowledgement.
// Only the parts that the caller times are measured.
func (l *benchLoop) round(b testing.TB, wr *SendWR, recv *RecvWR, start, stop func(part string)) {
	if recv != nil {
		for range benchBatch {
			if err := l.b.qp.PostRecv(recv); err != nil {
				b.Fatal(err)
			}
		}
	}
	l.now += 1000
	start("send")
	for range benchBatch {
		if err := l.a.qp.PostSend(l.now, wr); err != nil {
			b.Fatal(err)
		}
	}
	n := l.a.e.PollTransmit(l.now, l.batch)
	var sums [benchBatch]uint32
	if l.icrc != nil {
		for i := range l.batch[:min(n, benchBatch)] {
			p := &l.batch[i]
			sums[i] = l.icrc.Head(p.UDPPayloadLen(), 0, p.Headers())
			for _, f := range p.Frags[:p.NumFrags] {
				sums[i] = ib.Extend(sums[i], f)
			}
		}
	}
	stop("send")
	if n != benchBatch {
		b.Fatal(n)
	}
	for i := range l.batch[:n] {
		l.wire[i] = append(l.batch[i].AppendTo(l.wire[i][:0]), 0, 0, 0, 0)
		ib.PutICRC(l.wire[i][len(l.wire[i])-ib.ICRCBytes:], sums[i])
	}
	l.used = n
	start("receive")
	l.deliver(l.a, l.b)
	stop("receive")
	if l.bad != 0 {
		b.Fatal("an ICRC was wrong")
	}
	icrc := l.icrc
	l.icrc = nil // the answers have none
	l.capture(l.b)
	start("ack")
	l.deliver(l.b, l.a)
	l.a.e.NextTimeout()
	stop("ack")
	l.icrc = icrc
	if got := l.a.scq.Poll(l.wc[:]); got != benchBatch {
		b.Fatal("send completions: ", got)
	}
	if got := l.b.rcq.Poll(l.wc[:]); recv != nil && got != benchBatch {
		b.Fatal("receive completions: ", got)
	}
}

// BenchmarkPacket measures the engine's share of one packet: "send" is PostSend and PollTransmit,
// "receive" HandlePacket with the copy to memory and the completion, "ack" the coalesced
// acknowledgement and the completions of the batch. System calls are not in it; ICRCs are in
// "send+icrc" and "receive+icrc", as the links compute and check them.
func BenchmarkPacket(b *testing.B) {
	for _, op := range []WROpcode{WRSend, WRWrite} {
		for _, size := range []int{64, 1024, 4096} {
			for _, name := range []string{"send", "receive", "ack", "send+icrc", "receive+icrc"} {
				part, _, withICRC := strings.Cut(name, "+")
				b.Run(fmt.Sprintf("%v/%d/%s", op, size, name), func(b *testing.B) {
					l := newBenchLoop(b, ib.MTU4096)
					if withICRC {
						c := ib.NewICRC(ib.Flow{Src: l.a.addr, Dst: l.b.addr, SrcPort: ib.UDPPort, DstPort: ib.UDPPort})
						l.icrc = &c
					}
					wr := SendWR{
						Opcode: op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, size)},
						RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
					}
					var recv *RecvWR
					if op == WRSend {
						recv = &RecvWR{SGList: []SGE{l.b.at(0, size)}}
					}
					start := func(p string) {
						if p == part {
							b.StartTimer()
						}
					}
					stop := func(p string) {
						if p == part {
							b.StopTimer()
						}
					}
					none := func(string) {}
					l.round(b, &wr, recv, none, none)
					b.ReportAllocs()
					b.SetBytes(int64(size))
					b.StopTimer()
					b.ResetTimer()
					for n := 0; n < b.N; n += benchBatch {
						l.round(b, &wr, recv, start, stop)
					}
				})
			}
		}
	}
}

// BenchmarkStream measures both engines on long WRITEs: one op is a packet.
func BenchmarkStream(b *testing.B) {
	for mtu := ib.MTU1024; mtu <= ib.MTU4096; mtu += 2 {
		for a := range cc.DCQCNMellanox {
			benchmarkStream(b, mtu, cc.Config{Algorithm: a})
		}
	}
}

func benchmarkStream(b *testing.B, mtu ib.MTU, conf cc.Config) {
	b.Run(fmt.Sprintf("mtu=%v/cc=%v", mtu, conf.Algorithm), func(b *testing.B) {
		l := newLoop(b, loopOptions{mtu: mtu, psn: 1, tuning: Tuning{Congestion: conf}})
		wr := SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 1<<20)},
			RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
		}
		var wc [4]WC
		b.ReportAllocs()
		b.SetBytes(int64(mtu.Bytes()))
		for n := 0; n < b.N; n += 1 << 20 / mtu.Bytes() {
			require.NoError(b, l.a.qp.PostSend(l.now, &wr))
			for l.a.scq.Poll(wc[:]) == 0 {
				l.carry(l.a, l.b)
				l.carry(l.b, l.a)
			}
		}
	})
}

// BenchmarkPingPong is a 64-byte SEND each way: one op is both, posted,
// carried, acknowledged and completed, with the timers that this takes.
func BenchmarkPingPong(b *testing.B) {
	l := newBenchLoop(b, ib.MTU1024)
	wr := SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 64)}}
	wrB := SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{l.b.at(0, 64)}}
	rv := RecvWR{SGList: []SGE{l.a.at(64, 64)}}
	rvB := RecvWR{SGList: []SGE{l.b.at(64, 64)}}
	b.ReportAllocs()
	for b.Loop() {
		l.now += 1000
		_ = l.a.qp.PostRecv(&rv)
		_ = l.b.qp.PostRecv(&rvB)
		_ = l.a.qp.PostSend(l.now, &wr)
		l.carry(l.a, l.b)
		l.carry(l.b, l.a)
		_ = l.b.qp.PostSend(l.now, &wrB)
		l.carry(l.b, l.a)
		l.carry(l.a, l.b)
		l.a.e.NextTimeout()
		l.b.e.NextTimeout()
		if l.a.scq.Poll(l.wc[:])+l.b.scq.Poll(l.wc[:])+l.a.rcq.Poll(l.wc[:])+l.b.rcq.Poll(l.wc[:]) != 4 {
			b.Fatal("completions")
		}
	}
}

// BenchmarkManyQPs is a 64-byte WRITE on each of many connections in turn, with
// its ACK and completion: nothing of a QP is in the cache when its turn comes.
func BenchmarkManyQPs(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := loopOptions{
				typ: ib.RC, mtu: ib.MTU1024, cqe: 64, data: 1 << 20, psn: 1,
				caps: QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
			}
			l := newLoop(b, o)
			var as []*QP
			for range n {
				for _, s := range []*side{l.a, l.b} {
					var err error
					s.qp, err = s.e.CreateQP(
						QPInitAttr{Type: ib.RC, PD: s.pd, SendCQ: s.scq, RecvCQ: s.rcq, Caps: o.caps})
					require.NoError(b, err)
				}
				l.connect(l.a, l.b, o)
				l.connect(l.b, l.a, o)
				as = append(as, l.a.qp)
			}
			wr := SendWR{
				Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 64)},
				RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
			}
			var wc [4]WC
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				l.now += 1000
				_ = as[i%n].PostSend(l.now, &wr)
				i++
				l.carry(l.a, l.b)
				l.carry(l.b, l.a)
				l.a.e.NextTimeout()
				if l.a.scq.Poll(wc[:]) != 1 || wc[0].Status != WCSuccess {
					b.Fatal("not complete")
				}
			}
		})
	}
}
