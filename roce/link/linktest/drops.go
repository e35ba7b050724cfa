package linktest

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Packets with a wrong ICRC are dropped and counted; their neighbours in the run are not harmed.
func testWrongICRC(t *testing.T, p Pair) {
	since := countersOf(p.B)
	r := rand.New(rand.NewPCG(6, 6))
	path := NewPath(p.A, p.B)
	batch := make([]edge.TxPacket, 12)
	var good [][]byte
	for i := range batch {
		batch[i] = Packet(r, path, 256)
		if i%3 == 1 {
			batch[i].ICRCXor = 1 << r.IntN(32)
		} else {
			good = append(good, batch[i].AppendTo(nil))
		}
	}
	SendAll(t, p.A, batch)
	for i, rx := range Receive(t, p.B, len(good)) {
		require.Equal(t, good[i], rx.Data[:len(rx.Data)-ib.ICRCBytes])
	}
	require.EqualValues(t, len(batch)-len(good), since().RxICRC)
}

// Packets that can go nowhere are counted, and do not hold up others.
func testDrops(t *testing.T, p Pair) {
	since := countersOf(p.A)
	r := rand.New(rand.NewPCG(7, 7))
	foreign := NewPath(p.A, p.B)
	foreign.Src = foreign.Dst
	family := NewPath(p.A, p.B)
	family.Dst = netip.IPv6Loopback()
	if family.Src.Is6() {
		family.Dst = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	good := NewPath(p.A, p.B)
	batch := []edge.TxPacket{Packet(r, foreign, 10), Packet(r, good, 10), Packet(r, family, 10), Packet(r, good, 10)}
	SendAll(t, p.A, batch)
	Receive(t, p.B, 2)
	require.EqualValues(t, 2, since().TxDropped)
	if !p.NeverResolves.IsValid() {
		return
	}
	nobody := NewPath(p.A, p.B)
	nobody.Dst = p.NeverResolves
	lost := []edge.TxPacket{Packet(r, nobody, 10), Packet(r, nobody, 10)}
	p.A.Send(lost)
	check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, good, 20)})
	Drive(t, p.A, func() bool { return since().TxUnreachable == 4 })
}
