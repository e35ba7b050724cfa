//go:build linux

package slots

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Packets that are handed on come out as they went in, in order, each with what the datagram
// said of it; those for one slot go together.
func TestHandOn(t *testing.T) {
	a := address()
	l, m, n := lease(t, a), lease(t, a), lease(t, a)
	r := rand.New(rand.NewPCG(5, 6))
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"),
		netip.MustParseAddr("fe80::9")}
	want := map[*Lease][]edge.RxPacket{}
	for i := range 100 {
		p := edge.RxPacket{
			Data: make([]byte, ib.BTHBytes+ib.ICRCBytes+r.IntN(ib.MaxPacketBytes-100)), Src: addrs[r.IntN(3)],
			Dst: addrs[r.IntN(3)], SrcPort: uint16(r.Uint32()), TrafficClass: uint8(r.Uint32()),
			HopLimit: uint8(r.Uint32()),
		}
		for k := range p.Data {
			p.Data[k] = byte(r.Uint32())
		}
		to := m
		if i/10%2 == 1 {
			to = n
		}
		lost, ok := l.HandOn(0, to.slot, &p)
		require.Zero(t, lost)
		require.True(t, ok)
		p.Data = bytes.Clone(p.Data)
		want[to] = append(want[to], p)
	}
	require.Zero(t, l.Flush())
	require.Zero(t, l.Flush())
	for _, to := range []*Lease{m, n} {
		var got []edge.RxPacket
		msgs := received(t, to.Inbox(0))
		for _, b := range msgs {
			require.LessOrEqual(t, len(b), MaxStrays)
			s := ParseStrays(b)
			for p := (edge.RxPacket{}); s.Next(&p); {
				got = append(got, p)
			}
			require.False(t, s.Pending())
		}
		require.Equal(t, want[to], got)
		require.Less(t, len(msgs), len(got)/2)
	}
	for _, slot := range []int{-1, Count, 40} {
		_, ok := l.HandOn(0, slot, &want[m][0])
		require.False(t, ok, "nobody has slot %d", slot)
	}
}

// An inbox that nobody reads takes so much and no more, and harms no other.
func TestFullInbox(t *testing.T) {
	a := address()
	l, m, full := lease(t, a), lease(t, a), lease(t, a)
	p := edge.RxPacket{Data: make([]byte, 4096), Src: a.Addr, Dst: a.Addr}
	lost := 0
	for range 2000 {
		more, ok := l.HandOn(0, full.slot, &p)
		require.True(t, ok)
		lost += more
	}
	lost += l.Flush()
	require.Greater(t, lost, 0)
	require.Less(t, lost, 2000)
	more, _ := l.HandOn(0, m.slot, &p)
	require.Zero(t, more)
	require.Zero(t, l.Flush())
	require.Len(t, arrived(t, m.Inbox(0)), 1)
}

// Whatever is in an inbox, what comes out are packets that lie within it.
func FuzzStrays(f *testing.F) {
	l := &Lease{slot: 1}
	for range 2 {
		l.HandOn(0, 1, &edge.RxPacket{Data: make([]byte, 100), Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback()})
	}
	f.Add(l.out.buf)
	f.Add(l.out.buf[:150])
	f.Fuzz(func(t *testing.T, b []byte) {
		s := ParseStrays(b)
		total := 0
		for p := (edge.RxPacket{}); s.Next(&p); {
			require.True(t, len(p.Data) >= ib.BTHBytes+ib.ICRCBytes && len(p.Data) <= ib.MaxPacketBytes)
			require.True(t, p.Src.IsValid() && p.Dst.IsValid())
			total += strayHeader + len(p.Data)
		}
		require.LessOrEqual(t, total, len(b))
	})
}

func TestHandOnAllocatesNothing(t *testing.T) {
	a := address()
	l, m := lease(t, a), lease(t, a)
	p := edge.RxPacket{Data: make([]byte, 4096), Src: a.Addr, Dst: a.Addr}
	in, b := m.Inbox(0), make([]byte, MaxStrays)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l.HandOn(0, m.slot, &p)
		l.Flush()
		_, _ = unix.Read(in, b)
	}))
}
