package receive

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

var source = link.Source{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC001}

// run makes a run of packets of the lengths (BTH through ICRC), numbered up from ident.
func run(ident uint16, lengths ...int) (all []byte, packets [][]byte) {
	c := ib.NewICRC(ib.Flow{Src: source.Src, Dst: source.Dst, SrcPort: source.SrcPort, DstPort: ib.UDPPort})
	r := rand.New(rand.NewPCG(1, 1))
	for i, n := range lengths {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		b[0] = byte(ib.RCWriteMiddle)
		ib.PutICRC(b[n-ib.ICRCBytes:], c.Checksum(ident+uint16(i), b[:n-ib.ICRCBytes]))
		packets = append(packets, b)
		all = append(all, b...)
	}
	return all, packets
}

func splitter() *Splitter {
	s := &Splitter{}
	s.Init(ib.UDPPort)
	return s
}

func stats(s *Splitter) (o link.Stats) {
	s.Publish()
	s.Read(&o)
	return o
}

// However small the batches, every packet of a run comes up once, in order,
// with what the datagram says of it.
func TestSplit(t *testing.T) {
	lengths := []int{100, 100, 100, 100, 100, 60}
	for _, known := range []bool{false, true} {
		for size := 1; size < 8; size++ {
			s := splitter()
			ident := uint16(0)
			if known {
				ident = 0xFFFE // the number wraps in the run
			}
			all, want := run(ident, lengths...)
			require.True(t, s.Begin(&Datagram{
				Data: all, Source: source, TrafficClass: 5, HopLimit: 6, Ident: ident, Known: known, Segment: 100,
			}))
			batch := make([]edge.RxPacket, size)
			i := 0
			for s.Pending() {
				for _, p := range batch[:s.Split(batch)] {
					require.Equal(t, edge.RxPacket{Data: want[i], Src: source.Src, Dst: source.Dst,
						SrcPort: source.SrcPort, TrafficClass: 5, HopLimit: 6, InRun: true}, p)
					i++
				}
			}
			require.Equal(t, len(want), i)
			o := stats(s)
			require.EqualValues(t, len(want), o.RxPackets)
			require.EqualValues(t, len(all), o.RxBytes)
			require.Zero(t, o.RxICRC+o.RxShort+o.RxTruncated+o.RxSolved)
		}
	}
}

// A packet that is wrong does not harm its neighbours, nor a tail that is no packet.
func TestSplitWrong(t *testing.T) {
	s := splitter()
	all, want := run(9, 100, 100, 100, 100)
	all[150] ^= 1
	all = append(all, make([]byte, ib.BTHBytes)...)
	require.True(t, s.Begin(&Datagram{Data: all, Source: source, Ident: 9, Known: true, Segment: 100}))
	batch := make([]edge.RxPacket, 3)
	require.Equal(t, 3, s.Split(batch))
	for i, k := range []int{0, 2, 3} {
		require.Equal(t, want[k], batch[i].Data)
	}
	require.Zero(t, s.Split(batch))
	require.False(t, s.Pending())
	o := stats(s)
	require.Equal(t, link.Stats{RxPackets: 3, RxBytes: 300, RxICRC: 1, RxShort: 1}, o)
}

// A tail of one byte is no packet, whatever came before.
func TestSplitTail(t *testing.T) {
	s := splitter()
	all, _ := run(9, 100)
	require.True(t, s.Begin(&Datagram{Data: append(all, 0), Source: source, Ident: 9, Known: true, Segment: 100}))
	require.Equal(t, 1, s.Split(make([]edge.RxPacket, 3)))
	require.Equal(t, link.Stats{RxPackets: 1, RxBytes: 100, RxShort: 1}, stats(s))
}

// Packets that may be another device's are offered, and those that it takes are not handed up,
// wherever they are in a datagram.
func TestHandOn(t *testing.T) {
	s := splitter()
	s.Slot = ib.Slot{Index: 3, Bits: 6}
	mine, other := s.Slot.QPN(5), ib.Slot{Index: 4, Bits: 6}.QPN(5)
	offered, taken := 0, 0
	s.HandOn = func(p *edge.RxPacket) bool {
		offered++
		if ib.QPN(binary.BigEndian.Uint32(p.Data[4:]))&ib.QPNMask != other {
			return false
		}
		taken++
		return true
	}
	c := ib.NewICRC(ib.Flow{Src: source.Src, Dst: source.Dst, SrcPort: source.SrcPort, DstPort: ib.UDPPort})
	var all []byte
	var want [][]byte
	for i, qpn := range []ib.QPN{other, mine, ib.QPNGSI, other, other, mine} {
		b := make([]byte, 50)
		binary.BigEndian.PutUint32(b[4:], uint32(qpn)|uint32(i)<<24) // there is more in that word
		ib.PutICRC(b[46:], c.Checksum(uint16(i), b[:46]))
		all = append(all, b...)
		if qpn != other {
			want = append(want, b)
		}
	}
	require.True(t, s.Begin(&Datagram{Data: all, Source: source, Known: true, Segment: 50}))
	batch := make([]edge.RxPacket, 9)
	require.Equal(t, len(want), s.Split(batch))
	for i, b := range want {
		require.Equal(t, b, batch[i].Data)
	}
	require.Equal(t, [2]int{4, 3}, [2]int{offered, taken})
	require.Equal(t, link.Stats{RxPackets: 3, RxBytes: 150}, stats(s))
}

// What cannot hold packets is counted and left out, and so is what was begun before.
func TestBegin(t *testing.T) {
	s := splitter()
	long := make([]byte, ib.MaxPacketBytes+1)
	all, _ := run(0, 50)
	require.True(t, s.Begin(&Datagram{Data: all, Source: source}))
	for _, d := range []Datagram{
		{}, {Data: long}, {Data: long, Segment: ib.MaxPacketBytes + 1}, {Data: long, Segment: -1},
	} {
		d.Source = source
		require.False(t, s.Begin(&d))
		require.False(t, s.Pending())
	}
	require.Equal(t, link.Stats{RxShort: 1, RxTruncated: 3}, stats(s))
}

// An identification that nobody could expect is solved for, with a check of 16
// bits, unless the link knows it.
func TestSolved(t *testing.T) {
	s := splitter()
	batch := make([]edge.RxPacket, 1)
	all, _ := run(0x4242, 50)
	require.True(t, s.Begin(&Datagram{Data: all, Source: source}))
	require.Equal(t, 1, s.Split(batch))
	require.True(t, s.Begin(&Datagram{Data: all, Source: source, Ident: 1, Known: true}))
	require.Zero(t, s.Split(batch))
	require.Equal(t, link.Stats{RxPackets: 1, RxBytes: 50, RxSolved: 1, RxICRC: 1}, stats(s))
}

func TestSplitNoAllocation(t *testing.T) {
	s := splitter()
	all, _ := run(0, 100, 100, 40)
	d := Datagram{Data: all, Source: source, Segment: 100}
	batch := make([]edge.RxPacket, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Begin(&d)
		s.Split(batch)
		s.Publish()
	}))
	require.Len(t, s.left.rests, 1, "of one datagram")
}

// BenchmarkSplit measures what a received packet of a run costs before the engine has it, the ICRC
// of its payload included, which is in the cache. One op is a packet.
func BenchmarkSplit(b *testing.B) {
	for _, size := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			lengths := make([]int, 15)
			for i := range lengths {
				lengths[i] = ib.BTHBytes + size + ib.ICRCBytes
			}
			all, _ := run(0, lengths...)
			s := splitter()
			batch := make([]edge.RxPacket, len(lengths))
			d := Datagram{Data: all, Source: source, HopLimit: 64, Segment: lengths[0]}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(batch) {
				s.Begin(&d)
				if s.Split(batch) != len(batch) {
					b.Fatal("a packet is wrong")
				}
			}
		})
	}
}
