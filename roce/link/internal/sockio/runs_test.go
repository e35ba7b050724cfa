package sockio

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// flowOf is the flow of a path in the tests.
type flowOf struct{ hash uint32 }

// sent is a packet, with where it was said to go.
type sent struct {
	tx    edge.TxPacket
	flow  *flowOf
	seq   byte // among those of its path
	index int
}

// packetTo makes a packet to a queue pair, whose payload is n bytes of what it says.
func packetTo(path *edge.Path, dest ib.QPN, n int, id [4]byte) edge.TxPacket {
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle, PKey: ib.PKeyDefault, DestQP: dest}}
	tx := edge.TxPacket{Path: path, PayloadLen: uint16(n)}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	copy(tx.Header[8:], id[:])
	if n > 0 {
		tx.Frags[0], tx.NumFrags = make([]byte, n), 1
	}
	return tx
}

// Whatever is sent on whatever paths, every packet is in one message; messages hold packets of one
// flow and one receiving device, of one size but for the last; packets have the index that was said
// when they were placed; and those of a path are in order.
func TestSortedBatch(t *testing.T) {
	const segs, limit = 7, 5000
	b := NewBatch[*flowOf]()
	n := seeds.Fewer(300)
	if testing.Short() {
		n = 30
	}
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 1))
		flows := make([]*flowOf, 1+r.IntN(9))
		for i := range flows {
			flows[i] = &flowOf{r.Uint32()}
		}
		paths := make([]edge.Path, 2+r.IntN(60))
		sizes := []int{1000, 1016, 500, 4, 0}
		next := make([]byte, len(paths))
		all := make([]sent, 1+r.IntN(BatchPackets))
		for i := range all {
			k := r.IntN(len(paths))
			dest := ib.QPN(k%3*8)<<18 | ib.QPN(2+k) // slots that meet in the table
			if k == 0 {
				dest = ib.QPNGSI
			}
			s := &all[i]
			s.flow, s.seq = flows[k%len(flows)], next[k]
			next[k]++
			s.tx = packetTo(&paths[k], dest, sizes[r.IntN(1+r.IntN(len(sizes)))], [4]byte{byte(k), s.seq, byte(i)})
			size := s.tx.UDPPayloadLen()
			run, index := b.Place(s.flow, s.flow.hash, &s.tx, size, segs, limit)
			s.index = index
			if r.IntN(50) == 0 { // its payload is not there
				next[k]--
				s.index = -1
				continue
			}
			b.Take(run, &s.tx, size, uint32(i))
		}
		b.Build(func(f *flowOf, size int) *Message[*flowOf] {
			return b.Begin(f, size, 0)
		}, func(f *flowOf, p *edge.TxPacket, index int) uint32 {
			i := p.Header[10]
			require.Same(t, all[i].tx.Path, p.Path)
			require.Zero(t, p.PayloadLen)
			all[i].index = index
			return uint32(i)
		})
		seen := make([]byte, len(paths))
		count := 0
		for mi := range b.Msgs {
			m := &b.Msgs[mi]
			raw := b.Gather(nil, m)
			require.Len(t, raw, m.Size)
			require.LessOrEqual(t, m.Size, limit)
			require.LessOrEqual(t, m.Packets, segs)
			require.NotZero(t, m.Packets)
			of := b.Paths(m)
			slot := -1
			for i := range m.Packets {
				n := min(m.Segment, len(raw))
				if i < m.Packets-1 {
					require.Equal(t, m.Segment, n)
				}
				pkt := raw[:n]
				raw = raw[n:]
				s := &all[ib.TrailingICRC(pkt)]
				require.Same(t, s.flow, m.Path)
				require.Same(t, s.tx.Path, of[i])
				require.Equal(t, i, s.index)
				require.Equal(t, s.tx.AppendTo(nil), pkt[:n-ib.ICRCBytes])
				k := pkt[8]
				require.Equal(t, seen[k], s.seq, "in order")
				seen[k]++
				count++
				if i == 0 {
					slot = int(slotOf(&s.tx))
				}
				require.EqualValues(t, slot, slotOf(&s.tx))
			}
			require.Empty(t, raw)
		}
		want := 0
		for i := range all {
			if all[i].index >= 0 {
				want++
			}
		}
		require.Equal(t, want, count)
		b.Reset()
	}
}

// One packet each of many queue pairs with its ACK leaves in a datagram of packets and one of
// ACKs, and packets for two devices at one address in one each.
func TestSortedTogether(t *testing.T) {
	b := NewBatch[*flowOf]()
	f := &flowOf{1}
	paths := make([]edge.Path, 20)
	pkts := make([]edge.TxPacket, 0, 40)
	for i := range paths {
		for _, n := range []int{1000, 0} {
			pkts = append(pkts, packetTo(&paths[i], ib.QPN(i%2)<<18|99, n, [4]byte{}))
		}
	}
	require.True(t, Several(pkts))
	require.False(t, Several(pkts[:2]))
	place := func() {
		for i := range pkts {
			size := pkts[i].UDPPayloadLen()
			k, _ := b.Place(f, f.hash, &pkts[i], size, MaxSegments, 60000)
			b.Take(k, &pkts[i], size, 0)
		}
		b.Build(func(f *flowOf, size int) *Message[*flowOf] {
			return b.Begin(f, size, 0)
		}, nil)
	}
	place()
	require.Len(t, b.Msgs, 4)
	for i := range b.Msgs {
		require.Equal(t, 10, b.Msgs[i].Packets)
	}
	b.Reset()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		place()
		b.Reset()
	}))
}

// Messages of several packets on two queue pairs: the FIRST packets, whose headers are longer, in
// one datagram, the MIDDLE ones in another, and a LAST that is shorter at the end of that.
func TestSortedMessages(t *testing.T) {
	b := NewBatch[*flowOf]()
	f := &flowOf{1}
	paths := make([]edge.Path, 2)
	var pkts []edge.TxPacket
	for i := range paths {
		for k := range 3 {
			tx := packetTo(&paths[i], 99, 1000, [4]byte{})
			if k == 0 {
				tx.HeaderLen += ib.RETHBytes
			}
			pkts = append(pkts, tx)
		}
	}
	pkts = append(pkts, packetTo(&paths[1], 99, 500, [4]byte{}))
	for i := range pkts {
		size := pkts[i].UDPPayloadLen()
		k, _ := b.Place(f, f.hash, &pkts[i], size, MaxSegments, 60000)
		b.Take(k, &pkts[i], size, 0)
	}
	b.Build(func(f *flowOf, size int) *Message[*flowOf] {
		m := b.Begin(f, size, 0)
		return m
	}, nil)
	require.Len(t, b.Msgs, 2)
	require.Equal(t, [2]int{2, 5}, [2]int{b.Msgs[0].Packets, b.Msgs[1].Packets})
}

// An ACK by itself is the end of a datagram beside it, of the same flow, and never before or behind
// its turn in its path.
func TestSortedAcks(t *testing.T) {
	flows := []*flowOf{{1}, {2}, {3}}
	for _, c := range []struct {
		packets string // of each the path, whose flow is that modulo 3, and S(END) or A(CK)
		want    string
	}{
		{"0S 3A", "0S3A"},
		{"3A 0S", "0S3A"},
		{"0A 0S 3S", "0A 0S3S"},
		{"3A 0S 3S", "3A 0S3S"},
		{"0S 3A 6A", "0S 3A6A"},
		{"0S 0A 1S 1A 2S 2A", "0S0A 1S1A 2S2A"},
		{"0A 3S 1S 4A 2A 5S 6A", "0A6A 3S 1S4A 5S2A"},
		{"0S 1A", "0S 1A"},
		{"3A 0S 1S 4A", "0S3A 1S4A"},
	} {
		b, paths := NewBatch[*flowOf](), make([]edge.Path, 9)
		var pkts []edge.TxPacket
		for _, p := range strings.Fields(c.packets) {
			pkts = append(pkts, packetTo(&paths[p[0]-'0'], 99, map[byte]int{'S': 100}[p[1]], [4]byte{}))
		}
		name := func(p *edge.Path, n int) string {
			kind := "A"
			if n > 0 {
				kind = "S"
			}
			for k := range paths {
				if &paths[k] == p {
					return fmt.Sprint(k) + kind
				}
			}
			return "?"
		}
		for i := range pkts {
			f := flows[(c.packets[3*i]-'0')%3]
			k, _ := b.Place(f, f.hash, &pkts[i], pkts[i].UDPPayloadLen(), MaxSegments, 60000)
			b.Take(k, &pkts[i], pkts[i].UDPPayloadLen(), 0)
		}
		b.Build(func(f *flowOf, size int) *Message[*flowOf] {
			return b.Begin(f, size, 0)
		}, func(*flowOf, *edge.TxPacket, int) uint32 { return 0 })
		var got []string
		for i := range b.Msgs {
			m, word := &b.Msgs[i], ""
			left := m.Size
			for _, p := range b.Paths(m) {
				n := min(left, m.Segment)
				word += name(p, n-ib.BTHBytes-ib.ICRCBytes)
				left -= n
			}
			got = append(got, word)
		}
		require.Equal(t, c.want, strings.Join(got, " "), c.packets)
	}
}

// No more packets than the kernel takes.
func TestSortedSegments(t *testing.T) {
	b := NewBatch[*flowOf]()
	f := &flowOf{1}
	paths := make([]edge.Path, 10)
	for i := range paths {
		tx := packetTo(&paths[i], 99, 64, [4]byte{})
		k, index := b.Place(f, f.hash, &tx, tx.UDPPayloadLen(), 4, 60000)
		require.Equal(t, [2]int{i / 4, i % 4}, [2]int{k, index})
		b.Take(k, &tx, tx.UDPPayloadLen(), 0)
	}
	b.Reset()
}
