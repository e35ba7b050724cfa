package linktest

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func testMulticast(t *testing.T, p Pair) {
	if p.InB == nil {
		p.InB = func(f func()) { f() }
	}
	m := p.B
	r := rand.New(rand.NewPCG(10, 10))
	path := NewPath(p.A, p.B)
	group, other := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("239.1.2.4")
	if path.Src.Is6() {
		group, other = netip.MustParseAddr("ff15::1:2"), netip.MustParseAddr("ff15::1:3")
	}
	local := p.B.Addrs()[0]
	require.Error(t, m.Join(local, local), "not a group")
	require.Error(t, m.Join(group, p.A.Addrs()[0]), "not a local address")
	require.Error(t, m.Leave(group, local), "not joined")
	p.InB(func() {
		require.NoError(t, m.Join(group, local))
		require.NoError(t, m.Join(group, local))
	})
	require.NoError(t, m.Leave(group, local))
	require.NoError(t, p.B.Wait(0))
	to, elsewhere := *path, *path
	to.Dst, elsewhere.Dst = group, other
	batch := []edge.TxPacket{Packet(r, &elsewhere, 9), Packet(r, &to, 10), Packet(r, &to, 10),
		Packet(r, &elsewhere, 9), Packet(r, &to, 4)}
	SendAll(t, p.A, batch)
	for i, rx := range Receive(t, p.B, 3) {
		require.Equal(t, batch[[]int{1, 2, 4}[i]].AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes])
		require.Equal(t, group, rx.Dst)
	}
	require.NoError(t, m.Leave(group, local))
	require.Error(t, m.Leave(group, local), "left already")
	SendAll(t, p.A, batch[1:2])
	check(t, p.A, p.B, p.Hops, []edge.TxPacket{Packet(r, path, 5)})
}
