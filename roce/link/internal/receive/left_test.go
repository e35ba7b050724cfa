package receive

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// traffic makes datagrams of two flows: runs and single packets, numbered in the ways that senders
// and networks number them, some for another device, some damaged, some cut off.
type traffic struct {
	rng   *rand.Rand
	slot  ib.Slot
	ident [2]uint16
}

func (g *traffic) datagram() Datagram {
	rng, f := g.rng, g.rng.IntN(2)
	from := source
	from.SrcPort += uint16(f) * verifierStep
	d := Datagram{Source: from, HopLimit: uint8(rng.IntN(256)), Known: rng.IntN(2) == 0}
	n, size := 1, ib.BTHBytes+ib.ICRCBytes+4*rng.IntN(40)
	if rng.IntN(4) > 0 {
		n, d.Segment = 1+rng.IntN(20), size
	}
	if rng.IntN(3) == 0 {
		g.ident[f] = 0
	}
	d.Ident = g.ident[f]
	c := ib.NewICRC(ib.Flow{Src: from.Src, Dst: from.Dst, SrcPort: from.SrcPort, DstPort: ib.UDPPort})
	for i := range n {
		if i == n-1 && rng.IntN(3) == 0 {
			size -= 4 * rng.IntN((size-ib.BTHBytes)/4+1)
		}
		b := make([]byte, size)
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		b[0] = byte(ib.RCWriteMiddle)
		copy(b[4:8], []byte{0, 0x10, 1, byte(i)}) // of slot 4
		switch rng.IntN(30) {
		case 0:
			b[5] = 0x20
		case 1:
			b[5], b[6], b[7] = 0, 0, 1
		}
		if size >= ib.BTHBytes+ib.ICRCBytes {
			ib.PutICRC(b[size-ib.ICRCBytes:], c.Checksum(g.ident[f], b[:size-ib.ICRCBytes]))
		}
		g.ident[f]++
		switch rng.IntN(40) {
		case 0:
			g.ident[f] = 0 // another train, joined to this one
		case 1:
			g.ident[f] += uint16(rng.IntN(3))
		case 2:
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		d.Data = append(d.Data, b...)
	}
	return d
}

// verifierStep is between the source ports of two flows for which a Verifier has one place.
const verifierStep = 64

// end is a Splitter with what came out of it.
type end struct {
	Splitter
	got, on [][]byte
	queue   []Datagram
}

func newEnd(slot ib.Slot, shared bool) *end {
	e := &end{}
	e.Init(ib.UDPPort)
	if shared {
		e.Slot = slot
		e.HandOn = func(p *edge.RxPacket) bool {
			e.on = append(e.on, bytes.Clone(p.Data))
			return p.Data[9]&1 == 0 // some cannot be handed on
		}
	}
	return e
}

// recv is Recv of a link.
func (e *end) recv(batch []edge.RxPacket, unverified bool) (n int) {
	e.Batch(0, unverified)
	for n < len(batch) && !e.Ended() {
		if !e.Pending() {
			if len(e.queue) == 0 {
				break
			}
			d := e.queue[0]
			e.queue = e.queue[1:]
			if !e.Begin(&d) {
				continue
			}
		}
		n += e.Split(batch[n:])
	}
	return n
}

// drain receives all there is. Packets that were left are checked when they are taken.
func (e *end) drain(t *testing.T, size int, unverified bool) (late int) {
	batch := make([]edge.RxPacket, size)
	for {
		n := e.recv(batch, unverified)
		for i := range n {
			p := &batch[i]
			if p.ICRC == edge.ICRCUnknown {
				require.True(t, unverified && p.InRun)
				late++
				if !e.Check(i, p) {
					continue
				}
			}
			e.got = append(e.got, p.Data)
		}
		if n == 0 && !e.Pending() && len(e.queue) == 0 {
			return late
		}
	}
}

// A packet that is checked when it is taken fares as one that is checked at once: right or wrong,
// counted or handed on, in order.
func TestLeftIsAsChecked(t *testing.T) {
	late, wrong := 0, uint64(0)
	seeds.Run(t, seeds.Fewer(300), func(t *testing.T, seed uint64) {
		g := &traffic{rng: rand.New(rand.NewPCG(seed, 0x1c2c)), slot: ib.Slot{Index: 4, Bits: 6}}
		shared, size := g.rng.IntN(2) == 0, 1+g.rng.IntN(70)
		now, then := newEnd(g.slot, shared), newEnd(g.slot, shared)
		for range 20 {
			d := g.datagram()
			now.queue, then.queue = append(now.queue, d), append(then.queue, d)
		}
		now.drain(t, size, false)
		late += then.drain(t, size, true)
		require.Equal(t, now.got, then.got)
		require.Equal(t, now.on, then.on)
		a, b := stats(&now.Splitter), stats(&then.Splitter)
		a.RxSolved, b.RxSolved = 0, 0 // other packets may have been checked before
		require.Equal(t, a, b)
		wrong += a.RxICRC
	})
	require.NotZero(t, late)
	require.NotZero(t, wrong)
}

// What is asked for that was not left is wrong.
func TestCheckOfNothing(t *testing.T) {
	s := splitter()
	all, _ := run(0, 100, 100, 100)
	batch := make([]edge.RxPacket, 4)
	require.False(t, s.Check(0, &edge.RxPacket{Data: all[:100]}))
	s.Batch(0, true)
	require.True(t, s.Begin(&Datagram{Data: all, Source: source, Segment: 100}))
	require.Equal(t, 3, s.Split(batch))
	require.Equal(t, edge.ICRCRight, batch[0].ICRC, "the first is checked at once")
	require.Equal(t, edge.ICRCUnknown, batch[2].ICRC)
	require.False(t, s.Check(0, &batch[0]))
	require.True(t, s.Check(1, &batch[1]))
	require.True(t, s.Check(2, &batch[2]))
	require.False(t, s.Check(3, &batch[2]))
	require.Equal(t, link.Stats{RxPackets: 3, RxBytes: 300}, stats(s))
}
