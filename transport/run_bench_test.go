package transport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// BenchmarkRuns measures what the receiving engine does for a packet of WRITEs, SENDs and READs,
// with the copy, for packets that come together and one by one. One op is a packet.
func BenchmarkRuns(b *testing.B) {
	for _, c := range []struct {
		name string
		op   WROpcode
		size int
	}{
		{"WRITE/1MiB", WRWrite, 1 << 20}, {"SEND/1MiB", WRSend, 1 << 20}, {"READ/1MiB", WRRead, 1 << 20},
		{"WRITE/64", WRWrite, 64}, {"SEND/64", WRSend, 64}, {"READ/64", WRRead, 64}, {"WRITE/4KiB", WRWrite, 4 << 10},
	} {
		for _, together := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/together=%v", c.name, together), func(b *testing.B) {
				benchmarkRuns(b, c.op, c.size, together)
			})
		}
	}
}

func benchmarkRuns(b *testing.B, op WROpcode, size int, together bool) {
	l := newLoop(b, loopOptions{
		gso: true, cqe: 4096, attr: func(a *QPAttr) { a.MaxRdAtomic, a.MaxDestRdAtomic = 128, 128 },
		caps: QPCaps{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	wr := SendWR{
		Opcode: op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, size)},
		RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
	}
	recv := RecvWR{SGList: []SGE{l.b.at(0, size)}}
	at := max(128*1024/size, 1) // messages at a time
	at = min(at, 128)
	data := [2]*side{l.a, l.b} // who sends data, and who gets it
	if op == WRRead {
		data = [2]*side{l.b, l.a}
	}
	var wire [128][]byte
	var rx [128]RxPacket
	for i := range wire {
		wire[i] = make([]byte, 0, ib.MaxPacketBytes)
	}
	l.batch = make([]TxPacket, len(wire))
	var wc [256]WC
	packets := 0
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for packets < b.N {
		l.now += 1000
		for range at {
			if op == WRSend {
				require.NoError(b, l.b.qp.PostRecv(&recv))
			}
			require.NoError(b, l.a.qp.PostSend(l.now, &wr))
		}
		for got := 0; got < at; {
			if op == WRRead {
				l.carry(l.a, l.b)
			}
			n := data[0].e.PollTransmit(l.now, l.batch)
			for i := range l.batch[:n] {
				wire[i] = append(l.batch[i].AppendTo(wire[i][:0]), 0, 0, 0, 0)
				rx[i] = RxPacket{Src: data[0].addr, Dst: data[1].addr, InRun: true, Data: wire[i]}
			}
			packets += n
			b.StartTimer()
			if together {
				data[1].e.HandlePackets(l.now, rx[:n])
			} else {
				for i := range n {
					data[1].e.HandlePacket(l.now, &rx[i])
				}
			}
			b.StopTimer()
			l.carry(data[1], data[0])
			got += l.a.scq.Poll(wc[:])
			l.b.rcq.Poll(wc[:])
		}
	}
}

// BenchmarkSendRuns measures what the sending engine does for a packet of long messages: of WRITEs,
// and of responses to READs.
func BenchmarkSendRuns(b *testing.B) {
	for _, op := range []WROpcode{WRWrite, WRSend, WRRead} {
		b.Run(fmt.Sprintf("%v/1MiB", op), func(b *testing.B) {
			l := newLoop(b, loopOptions{gso: true})
			wr := SendWR{
				Opcode: op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 1<<20)},
				RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
			}
			recv := RecvWR{SGList: []SGE{l.b.at(0, 1<<20)}}
			from, to := l.a, l.b
			if op == WRRead {
				from, to = to, from
			}
			var wc [4]WC
			packets := 0
			b.ReportAllocs()
			b.StopTimer()
			b.ResetTimer()
			for packets < b.N {
				l.now += 1000
				if op == WRSend {
					require.NoError(b, l.b.qp.PostRecv(&recv))
				}
				require.NoError(b, l.a.qp.PostSend(l.now, &wr))
				for l.a.scq.Poll(wc[:]) == 0 {
					if op == WRRead {
						l.carry(to, from)
					}
					b.StartTimer()
					n := from.e.PollTransmit(l.now, l.batch)
					b.StopTimer()
					packets += n
					for i := range l.batch[:n] {
						l.buf = append(l.batch[i].AppendTo(l.buf[:0]), 0, 0, 0, 0)
						to.e.HandlePacket(l.now, &RxPacket{Src: from.addr, Dst: to.addr, InRun: true, Data: l.buf})
					}
					l.carry(to, from)
					l.b.rcq.Poll(wc[:])
				}
			}
		})
	}
}
