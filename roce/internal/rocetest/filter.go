package rocetest

import (
	"encoding/binary"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// madFilter is a link that loses the management datagrams it is told to.
type madFilter struct {
	link.Link
	drop func(a mad.Attribute) bool
}

func (f *madFilter) Unwrap() link.Link { return f.Link }

func (f *madFilter) Send(batch []transport.TxPacket) {
	keep := make([]transport.TxPacket, 0, len(batch))
	for i := range batch {
		if a, ok := CMMessage(&batch[i]); !ok || !f.drop(a) {
			keep = append(keep, batch[i])
		}
	}
	f.Link.Send(keep)
}

// CMMessage returns which message of the communication manager a packet is.
func CMMessage(tx *transport.TxPacket) (a mad.Attribute, ok bool) {
	var p ib.Packet
	b := append(tx.AppendTo(nil), 0, 0, 0, 0) // room for the ICRC, which nobody reads
	if p.Decode(b) != ib.DecodeOK || p.DestQP != ib.QPNGSI {
		return 0, false
	}
	return mad.Attribute(binary.BigEndian.Uint16(p.Payload[16:])), true
}

// FilterMADs is a verbs.Config.WrapLink: what drop says does not leave.
func FilterMADs(drop func(mad.Attribute) bool) func(link.Link) (link.Link, error) {
	return func(l link.Link) (link.Link, error) { return &madFilter{l, drop}, nil }
}

// FilteredPair is two peers on a fabric, the second with two shards; what the first one sends
// passes drop.
func FilteredPair(t testing.TB, drop func(mad.Attribute) bool) (c, s *Peer) {
	f := sim.New(sim.Config{Seed: 4})
	lc, err := f.Link(SimAddr(1))
	require.NoError(t, err)
	ls, err := f.Link(SimAddr(2))
	require.NoError(t, err)
	wrap := FilterMADs(drop)
	return NewPeer(t, verbs.Config{Link: lc, Rand: f.Rand(), WrapLink: wrap}),
		NewPeer(t, verbs.Config{Link: ls, Rand: f.Rand(), Shards: 2})
}
