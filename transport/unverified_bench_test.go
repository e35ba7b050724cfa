package transport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// icrcOf checks packets of one flow.
type icrcOf struct{ ib.ICRC }

func (c *icrcOf) Check(_ int, p *RxPacket) bool {
	_, m := c.Verify(0, p.Data)
	return m != ib.Mismatch
}

// BenchmarkUnverified measures a packet of WRITEs from its check to where it is placed, in memory
// that is in no cache: all packets of a batch checked before the first is placed, and each right
// before. One op is a packet.
func BenchmarkUnverified(b *testing.B) {
	const region = 64 << 20
	for _, c := range []struct{ mtu, size int }{{1024, 1 << 20}, {4096, 1 << 20}, {1024, 64}} {
		for _, late := range []bool{false, true} {
			b.Run(fmt.Sprintf("MTU=%d/size=%d/late=%v", c.mtu, c.size, late), func(b *testing.B) {
				mtu, _ := ib.MTUFromBytes(c.mtu)
				l := newLoop(b, loopOptions{gso: true, cqe: 4096, mtu: mtu, data: region, caps: QPCaps{
					MaxSendWR: 256, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
				}})
				at, turn := min(max(256*1024/c.size, 1), 128), 0
				var wire [128][]byte
				var rx [128]RxPacket
				l.batch = make([]TxPacket, len(wire))
				check := &icrcOf{
					ib.NewICRC(ib.Flow{Src: l.a.addr, Dst: l.b.addr, SrcPort: 0xC000, DstPort: ib.UDPPort}),
				}
				var wc [256]WC
				packets := 0
				b.ReportAllocs()
				b.StopTimer()
				b.ResetTimer()
				for packets < b.N {
					l.now += 1000
					for range at {
						turn = (turn + c.size) % (region - c.size)
						require.NoError(b, l.a.qp.PostSend(l.now, &SendWR{
							Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(turn, c.size)},
							RemoteAddr: l.b.region.IOVA() + uint64(turn), RKey: l.b.region.RKey(),
						}))
					}
					for got := 0; got < at; {
						n := l.a.e.PollTransmit(l.now, l.batch)
						for i := range l.batch[:n] {
							d := l.batch[i].AppendTo(wire[i][:0])
							wire[i] = append(d, 0, 0, 0, 0)
							ib.PutICRC(wire[i][len(d):], check.Checksum(0, d))
							rx[i] = RxPacket{Src: l.a.addr, Dst: l.b.addr, InRun: true, Data: wire[i]}
							if late {
								rx[i].ICRC = ICRCUnknown
							}
						}
						packets += n
						b.StartTimer()
						if late {
							l.b.e.HandleUnverified(l.now, rx[:n], check)
						} else {
							right := 0
							for i := range rx[:n] {
								if check.Check(i, &rx[i]) {
									right++
								}
							}
							l.b.e.HandlePackets(l.now, rx[:right])
						}
						b.StopTimer()
						l.carry(l.b, l.a)
						got += l.a.scq.Poll(wc[:])
					}
				}
			})
		}
	}
}
