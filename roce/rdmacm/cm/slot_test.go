package cm

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// The communication IDs of an agent are in its slot: in requests and lookups that it
// sends, and in the records of those that it gets.
func TestSlotOfCommIDs(t *testing.T) {
	slot := ib.Slot{Index: 9, Bits: 6}
	local, remote := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a, err := New(Config{Addrs: []netip.Addr{local}, Rand: rand.NewChaCha8([32]byte{1}), Slot: slot})
	require.NoError(t, err)
	for range 100 {
		c, err := a.Connect(0, Request{Local: local, Remote: remote, Service: mad.NewServiceID(mad.PortSpaceTCP, 1),
			Transport: mad.TransportRC, QPN: 17, MTU: ib.MTU1024}, nil)
		require.NoError(t, err)
		require.True(t, slot.HasCommID(uint32(c.localID)))
		_, err = a.Resolve(0, Lookup{Local: local, Remote: remote, Service: mad.NewServiceID(mad.PortSpaceUDP, 1)}, nil)
		require.NoError(t, err)
		for p := (Packet{}); a.PollTransmit(&p); {
			var h mad.Header
			data, perr := mad.Parse(p.Data[:], &h)
			require.Equal(t, mad.OK, perr)
			var id uint32
			switch h.Attribute {
			case mad.AttrREQ:
				var m mad.REQ
				m.Decode(data)
				id = uint32(m.LocalCommID)
			case mad.AttrSIDRReq:
				var m mad.SIDRReq
				m.Decode(data)
				id = m.RequestID
			}
			require.True(t, slot.HasCommID(id), "%v %#x", h.Attribute, id)
		}
	}
}
