package linktest

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunRoom checks that as many packets as the room of B holds arrive, one by one or in runs, though
// nobody receives meanwhile. The buffers should be small, or the test takes long.
func RunRoom(t *testing.T, p Pair) {
	room := p.B.Capabilities().Room
	require.NotZero(t, room.Size)
	r := rand.New(rand.NewPCG(12, 12))
	path := NewPath(p.A, p.B)
	const payload, run = 1000, 20
	tx := Packet(r, path, payload)
	bytes := tx.UDPPayloadLen()
	for _, in := range []struct {
		name               string
		perPacket, perByte int
		at                 int
	}{
		{"by themselves", room.PerPacket, room.PerByte, 1},
		{"in runs", room.RunPerPacket, room.RunPerByte, run},
	} {
		t.Run(in.name, func(t *testing.T) {
			if in.perPacket == 0 && in.perByte == 0 {
				return // they take what packets by themselves do
			}
			if in.at > 1 && NoRuns(t, p.A) {
				t.Skip("before Linux 6.2 a packet link sends no runs")
			}
			Drain(t, p.B)
			n := room.Size / (in.perPacket + in.perByte*bytes) / in.at * in.at
			require.Greater(t, n, 2*run)
			batch := make([]edge.TxPacket, in.at)
			for i := range batch {
				batch[i] = tx
			}
			for range n / in.at {
				SendAll(t, p.A, batch)
			}
			t.Logf("%d packets in a room of %d", n, room.Size)
			Receive(t, p.B, n)
		})
	}
}
