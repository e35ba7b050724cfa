package link

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

var (
	v4a, v4b = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	v6a, v6b = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
)

// payload makes a UDP payload of n bytes with a right ICRC.
func payload(src, dst netip.Addr, op ib.Opcode, n int, id uint16, rng *rand.Rand) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	b[0] = byte(op)
	c := ib.NewICRC(ib.Flow{Src: src, Dst: dst, SrcPort: 4791, DstPort: 4791})
	ib.PutICRC(b[n-4:], c.Checksum(id, b[:n-4]))
	return b
}

func TestCheckEveryIdentification(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := NewVerifier(4791)
	src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
	for id := range 1 << 16 {
		n := ib.BTHBytes + ib.ICRCBytes + rng.IntN(4100)
		if id%64 != 0 {
			n = 20 // the CRC of long ones would take most of the test
		}
		b := payload(v4a, v4b, ib.RCSendOnly, n, uint16(id), rng)
		got := v.Flow(&src).Check(b, rng.IntN(3))
		require.Contains(t, []Verdict{VerdictOK, VerdictSolved}, got, "id %d, %d bytes", id, n)
		require.Equal(t, uint16(id), v.Flow(&src).s.ident)
	}
}

func TestCheckRunningCounter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	v := NewVerifier(4791)
	src := Source{Src: v4a, Dst: v4b, SrcPort: 0xC001}
	c := ib.NewICRC(ib.Flow{Src: v4a, Dst: v4b, SrcPort: 0xC001, DstPort: 4791})
	var solved int
	for i := range 100 {
		b := payload(v4a, v4b, ib.RCSendOnly, 60, 0, rng)
		ib.PutICRC(b[56:], c.Checksum(uint16(65500+i), b[:56]))
		switch v.Flow(&src).Check(b, 0) {
		case VerdictSolved:
			solved++
		case VerdictOK:
		default:
			t.Fatal("refused")
		}
	}
	require.Equal(t, 1, solved, "only the first identification is a surprise")
}

func TestCheckSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	v := NewVerifier(4791)
	src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
	for range 20 {
		for i := range 15 {
			b := payload(v4a, v4b, ib.RCWriteMiddle, 200, uint16(i), rng)
			require.Equal(t, VerdictOK, v.Flow(&src).Check(b, i), "segment %d", i)
		}
	}
}

// After datagrams that are numbered from 0, one that begins at 1 is a surprise.
func TestCheckUnexpected(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f := NewVerifier(4791).Flow(&Source{Src: v4a, Dst: v4b, SrcPort: 4791})
	for i := range 5 {
		require.Equal(t, VerdictOK, f.Check(payload(v4a, v4b, ib.RCWriteMiddle, 200, uint16(i), rng), i))
	}
	require.Equal(t, VerdictSolved, f.Check(payload(v4a, v4b, ib.RCWriteMiddle, 200, 1, rng), 0))
}

// Under one IP header there may be a run that was segmented, packets with the same
// identification, and trains that begin at 0. Nothing else.
func TestCheckRunOfSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
	for _, c := range []struct {
		ids  []uint16
		good bool // the last of them
	}{
		{[]uint16{700, 701, 702, 703}, true},
		{[]uint16{65534, 65535, 0, 1}, true},
		{[]uint16{700, 700, 700}, true},
		{[]uint16{700, 700, 700, 701}, true},
		{[]uint16{0, 1, 2, 0, 1}, true},
		{[]uint16{700, 701, 0, 1, 2}, true},
		{[]uint16{700, 700, 702}, true}, // some of the first were joined
		{[]uint16{700, 702}, false},
		{[]uint16{700, 699}, false},
		{[]uint16{700, 1}, false},
		{[]uint16{0, 1, 7}, false},
	} {
		f := NewVerifier(4791).Flow(&src)
		for i, id := range c.ids {
			want := VerdictOK
			if i == len(c.ids)-1 && !c.good {
				want = VerdictBad
			}
			require.Equal(t, want, f.CheckSegment(payload(v4a, v4b, ib.RCWriteMiddle, 200, id, rng), c.ids[0], i),
				"%d, packet %d", c.ids, i)
		}
		if !c.good { // and the next one may come as if that had been right
			next := c.ids[len(c.ids)-2] + 2
			require.Equal(t, VerdictOK,
				f.CheckSegment(payload(v4a, v4b, ib.RCWriteMiddle, 200, next, rng), c.ids[0], len(c.ids)))
		}
	}
	f := NewVerifier(4791).Flow(&src)
	bad := payload(v4a, v4b, ib.RCWriteMiddle, 200, 701, rng)
	bad[100] ^= 1
	require.Equal(t, VerdictBad, f.CheckSegment(bad, 700, 1))
	require.Equal(t, VerdictShort, f.CheckSegment(bad[:ib.BTHBytes], 700, 1))
	empty := payload(v4a, v4b, ib.RCSendOnly, ib.BTHBytes+ib.ICRCBytes, 701, rng)
	require.Equal(t, VerdictOK, NewVerifier(4791).Flow(&src).CheckSegment(empty, 700, 1), "a SEND of nothing")
	require.Equal(t, VerdictOK, f.CheckKnown(empty, 701))
}

// Every single flipped bit is found: in IPv6 by the whole CRC, in IPv4 because
// no identification explains the difference.
func TestCheckFindsBitFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, a := range [][2]netip.Addr{{v4a, v4b}, {v6a, v6b}} {
		v := NewVerifier(4791)
		src := Source{Src: a[0], Dst: a[1], SrcPort: 4791}
		good := payload(a[0], a[1], ib.RCWriteOnly, 300, 0, rng)
		require.Equal(t, VerdictOK, v.Flow(&src).Check(good, 0))
		for bit := range 300 * 8 {
			if bit/8 == 4 {
				continue // BTH byte 4 is masked
			}
			b := append([]byte(nil), good...)
			b[bit/8] ^= 1 << (bit % 8)
			require.Equal(t, VerdictBad, v.Flow(&src).Check(b, 0), "bit %d", bit)
		}
	}
}

func TestCheckWrongFlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	b := payload(v4a, v4b, ib.RCSendOnly, 100, 0, rng)
	for _, src := range []Source{
		{Src: v4b, Dst: v4a, SrcPort: 4790}, {Src: v4a, Dst: v4b, SrcPort: 4790},
		{Src: netip.MustParseAddr("10.0.0.3"), Dst: v4b, SrcPort: 4791},
	} {
		require.Equal(t, VerdictBad, NewVerifier(4791).Flow(&src).Check(b, 0))
	}
}

// The ICRC covers the flag DF: packets with and without it are different flows.
func TestCheckWithoutDF(t *testing.T) {
	const n, id = 60, 77
	with := payload(v4a, v4b, ib.RCSendOnly, n, id, rand.New(rand.NewPCG(17, 18)))
	without := append([]byte(nil), with...)
	c := ib.NewICRC(ib.Flow{Src: v4a, Dst: v4b, SrcPort: 4791, DstPort: 4791}).WithoutDF()
	ib.PutICRC(without[n-4:], c.Checksum(id, without[:n-4]))
	v := NewVerifier(4791)
	for _, noDF := range []bool{false, true, false} {
		good, bad := with, without
		if noDF {
			good, bad = without, with
		}
		f := v.Flow(&Source{Src: v4a, Dst: v4b, SrcPort: 4791, NoDF: noDF})
		require.Equal(t, VerdictOK, f.CheckKnown(good, id))
		require.Equal(t, VerdictBad, f.CheckKnown(bad, id))
	}
}

func TestCheckShort(t *testing.T) {
	for _, a := range []Source{{Src: v4a, Dst: v4b, SrcPort: 4791}, {Src: v6a, Dst: v6b, SrcPort: 4791}} {
		v := NewVerifier(4791)
		for n := range ib.BTHBytes + ib.ICRCBytes {
			require.Equal(t, VerdictShort, v.Flow(&a).Check(make([]byte, n), 0))
			require.Equal(t, VerdictShort, v.Flow(&a).CheckKnown(make([]byte, n), 0))
		}
	}
}

func TestCheckRxeFlush(t *testing.T) {
	c := ib.NewICRC(ib.Flow{Src: v4a, Dst: v4b, SrcPort: 4791, DstPort: 4791})
	n := int(ib.RCFlush.Info().HeaderLen)
	for _, id := range []uint16{0, 1, 0x1234, 0xFFFF} {
		b := make([]byte, n+4)
		b[0] = byte(ib.RCFlush)
		binary.BigEndian.PutUint64(b[16:], 0x1122334455667788)
		ib.PutICRC(b[n:], c.ChecksumFlushRxe(id, b[:n]))
		v := NewVerifier(4791)
		src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
		require.NotEqual(t, VerdictBad, v.Flow(&src).Check(b, 0), "id %d", id)
		require.Equal(t, VerdictOK, v.Flow(&src).CheckKnown(b, id))
		// As the second packet of a run too, with the ICRC of the specification or
		// rdma_rxe's; and no other packet has that one.
		f := v.Flow(&src)
		require.Equal(t, VerdictOK, f.CheckSegment(b, id-1, 1))
		ib.PutICRC(b[n:], c.Checksum(id, b[:n]))
		require.Equal(t, VerdictOK, f.CheckSegment(b, id-1, 1))
		require.Equal(t, VerdictOK, f.CheckKnown(b, id))
		b[0] = byte(ib.RCWriteOnly)
		ib.PutICRC(b[n:], c.ChecksumFlushRxe(id, b[:n]))
		require.Equal(t, VerdictBad, f.CheckSegment(b, id-1, 1))
		require.Equal(t, VerdictBad, f.CheckKnown(b, id))
		b[20] ^= 1
		require.Equal(t, VerdictBad, v.Flow(&src).Check(b, 0))
	}
}

// A packet as the engine describes it gives the same ICRC as its bytes.
func TestPacketICRC(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		tx := edge.TxPacket{Path: &edge.Path{Src: v4a, Dst: v4b}}
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteOnlyImm, Pad: uint8(rng.IntN(4))}}
		tx.HeaderLen = uint8(p.PutHeaders(tx.Header[:]))
		tx.Pad = p.Pad
		tx.NumFrags = uint8(rng.IntN(edge.MaxTxFrags + 1))
		for i := range tx.Frags[:tx.NumFrags] {
			f := make([]byte, rng.IntN(1000))
			for j := range f {
				f[j] = byte(rng.Uint32())
			}
			tx.Frags[i] = f
			tx.PayloadLen += uint16(len(f))
		}
		c := FlowICRC(tx.Path, 4791, 4791)
		b := AppendPacket(nil, &c, &tx, 7)
		require.Len(t, b, tx.UDPPayloadLen())
		require.Equal(t, ib.TrailingICRC(b), PacketICRC(&c, &tx, 7))
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	b := payload(v4a, v4b, ib.RCSendOnly, 1000, 77, rng)
	v := NewVerifier(4791)
	src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
	require.Zero(t, testing.AllocsPerRun(100, func() { v.Flow(&src).Check(b, 0) }))
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte{0x1C, 0, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4}, 0)
	f.Fuzz(func(t *testing.T, b []byte, segment int) {
		for _, s := range []Source{{Src: v4a, Dst: v4b, SrcPort: 1}, {Src: v6a, Dst: v6b, SrcPort: 1}} {
			v := NewVerifier(4791)
			v.Flow(&s).Check(b, segment)
			v.Flow(&s).CheckKnown(b, uint16(segment))
		}
	})
}

func BenchmarkCheckUnexpected(b *testing.B) {
	rng := rand.New(rand.NewPCG(15, 16))
	p1 := payload(v4a, v4b, ib.RCSendOnly, 4112, 77, rng)
	p2 := payload(v4a, v4b, ib.RCSendOnly, 4112, 777, rng)
	v := NewVerifier(4791)
	src := Source{Src: v4a, Dst: v4b, SrcPort: 4791}
	b.SetBytes(4112)
	for i := 0; b.Loop(); i++ {
		if i&1 == 0 {
			v.Flow(&src).Check(p1, 0)
		} else {
			v.Flow(&src).Check(p2, 0)
		}
	}
}
