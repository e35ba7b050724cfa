package packet_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Single packets, by the ring, and runs, by the queue, come up in the order in which they were
// sent, however they alternate, several times round the ring and whatever batches are asked for.
func TestRingOrder(t *testing.T) {
	t.Parallel()
	_, a, b := openPacket(nil).OpenPair(t, 4200)
	require.Equal(t, "ring", b.Capabilities().Mode)
	r := rand.New(rand.NewPCG(1, 1))
	p := linktest.NewPath(a, b)
	for range 200 {
		var sent []edge.TxPacket
		for range 1 + r.IntN(6) {
			size := []int{0, 64, 1000, 4096}[r.IntN(4)]
			run := make([]edge.TxPacket, 1+r.IntN(1+r.IntN(14)))
			for i := range run {
				run[i] = linktest.Packet(r, p, size)
			}
			linktest.SendAll(t, a, run)
			sent = append(sent, run...)
		}
		rx := linktest.Receive(t, b, len(sent))
		for i := range sent {
			require.Equal(t, sent[i].AppendTo(nil), rx[i].Data[:len(rx[i].Data)-ib.ICRCBytes], "packet %d", i)
		}
	}
	s := b.Stats()
	require.Zero(t, s.RxOverflow+s.RxICRC+s.RxMalformed+s.RxTruncated)
	if !linktest.NoRuns(t, a) {
		require.NotZero(t, s.RxCalls, "runs came by the queue")
	}
	require.Less(t, s.RxCalls, s.RxDatagrams, "single packets came by the ring")
}

// A ring that nobody reads fills up; what has no room is counted, what had
// comes up unharmed, and afterwards everything works as before.
func TestRingOverflow(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	a := openPacket(func(o *packet.Options) { o.DisableGSO = true }).Open(t, n.A, n.A4)
	b := openPacket(nil).Open(t, n.B, n.B4)
	p := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, p)
	r := rand.New(rand.NewPCG(2, 2))
	batch := make([]edge.TxPacket, 64)
	for range 40 {
		for i := range batch {
			batch[i] = linktest.Packet(r, p, 64)
		}
		linktest.SendAll(t, a, batch)
	}
	require.NotZero(t, linktest.Drain(t, b))
	require.Zero(t, b.Stats().RxICRC)
	require.NotZero(t, b.Stats().RxOverflow)
	for range 40 { // round the ring once more
		linktest.SendAll(t, a, batch)
		linktest.Await(t, b, batch)
	}
}
