package sockio

import (
	"testing"

	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// A message whose last packet was added in part is dropped, with the packets before that; whole
// ones stay.
func TestDropBroken(t *testing.T) {
	const front = 8
	b, flow := NewBatch[*flowOf](), &flowOf{}
	require.Zero(t, b.DropBroken(front))
	tx := packetTo(&edge.Path{}, 77, 100, [4]byte{})
	begin := func(packets int) *Message[*flowOf] {
		m := b.Begin(flow, tx.UDPPayloadLen(), front)
		for range packets {
			b.Add(m, &tx, tx.UDPPayloadLen(), 1)
		}
		return m
	}
	b.Touch(begin(2)) // all of it is there
	require.Zero(t, b.DropBroken(front))
	require.Len(t, b.Msgs, 1)
	for _, packets := range []int{3, 0} {
		b.put(begin(packets), tx.Headers())
		require.Equal(t, packets, b.DropBroken(front))
		require.Len(t, b.Msgs, 1)
	}
	require.Zero(t, b.DropBroken(front))
}

// What was placed and not built is forgotten with the rest.
func TestResetForgetsPlaced(t *testing.T) {
	b, flow := NewBatch[*flowOf](), &flowOf{}
	tx := packetTo(&edge.Path{}, 77, 100, [4]byte{})
	size := tx.UDPPayloadLen()
	require.Empty(t, b.of)
	place := func() {
		k, index := b.Place(flow, 0, &tx, size, 7, 5000)
		require.Equal(t, [2]int{}, [2]int{k, index})
		b.Take(k, &tx, size, 1)
	}
	place()
	b.Reset()
	require.Nil(t, b.sorted.packets[:1][0].p)
	place()
}
