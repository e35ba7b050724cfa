//go:build linux

package xdp_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// What a peer sends with segmentation offload comes up in generic mode as runs under one header,
// and is taken apart without being told the length of the segments.
func TestRuns(t *testing.T) {
	seeds.Slow(t)
	t.Parallel()
	n := linktest.NewNet(t, 4200)
	a := openUDP(udp.Options{}).In(t, n.A, n.A4)
	b := openXDP(func(o *xdp.Options) { o.DisableNative = true }).In(t, n.B, n.B4)
	defer func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}()
	if !a.Capabilities().GSO {
		t.Skip("the kernel has no UDP segmentation offload")
	}
	p := linktest.NewPath(a, b)
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{0, 4, 64, 1000, 4096} {
		batch := make([]edge.TxPacket, 12)
		for i := range batch {
			batch[i] = linktest.Packet(r, p, size)
		}
		batch[11] = linktest.Packet(r, p, size/2)
		batch[5].ICRCXor = 4 // one in the middle is bad
		before := b.Stats()
		a.Send(batch)
		for i, rx := range linktest.Receive(t, b, 11) {
			if i >= 5 {
				i++
			}
			require.Equal(t, batch[i].AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes], "packet %d", i)
		}
		linktest.Drain(t, b)
		after := b.Stats()
		require.EqualValues(t, 11, after.RxPackets-before.RxPackets)
		require.EqualValues(t, 1, after.RxICRC-before.RxICRC)
		require.Less(t, after.RxDatagrams-before.RxDatagrams, uint64(12), "it came as a run")
	}
	// Garbage that is no run is not searched for ever, and harms nobody.
	for range 100 {
		linktest.SendFrames(t, n.A, linktest.MakeFrame(t, n, linktest.Frame{Payload: 4000, ICRCXor: 1}))
	}
	linktest.SendFrames(t, n.A, linktest.MakeFrame(t, n, linktest.Frame{Payload: 8}))
	linktest.Receive(t, b, 1)
	require.EqualValues(t, 105, b.Stats().RxICRC)
}
