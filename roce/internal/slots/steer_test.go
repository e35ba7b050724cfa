//go:build linux

package slots

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// message is a packet to queue pair 1.
func message(at mad.Attribute, put func(*mad.Data) error) []byte {
	b := packet(ib.QPNGSI)[:ib.BTHBytes+ib.DETHBytes]
	var m [mad.Bytes]byte
	h := mad.CMHeader(at, 1)
	if err := put(h.Put(&m)); err != nil {
		panic(err)
	}
	b = append(b, m[:]...)
	return append(b, 0, 0, 0, 0)
}

// messages are all messages from who has the ID 1 to who has the ID.
func messages(id mad.CommID) map[mad.Attribute][]byte {
	const own = 1
	return map[mad.Attribute][]byte{
		mad.AttrREQ: message(mad.AttrREQ,
			(&mad.REQ{LocalCommID: own, ServiceID: 0x0106_0007, MTU: ib.MTU1024}).Put),
		mad.AttrMRA:     message(mad.AttrMRA, (&mad.MRA{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrREJ:     message(mad.AttrREJ, (&mad.REJ{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrREP:     message(mad.AttrREP, (&mad.REP{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrRTU:     message(mad.AttrRTU, (&mad.RTU{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrDREQ:    message(mad.AttrDREQ, (&mad.DREQ{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrDREP:    message(mad.AttrDREP, (&mad.DREP{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrSIDRReq: message(mad.AttrSIDRReq, (&mad.SIDRReq{RequestID: own, ServiceID: 0x0111_0008}).Put),
		mad.AttrSIDRRep: message(mad.AttrSIDRRep, (&mad.SIDRRep{RequestID: uint32(id)}).Put),
		mad.AttrLAP:     message(mad.AttrLAP, (&mad.LAP{LocalCommID: own, RemoteCommID: id}).Put),
		mad.AttrAPR:     message(mad.AttrAPR, (&mad.APR{LocalCommID: own, RemoteCommID: id}).Put),
	}
}

// Messages about a connection go to the slot of the ID that its owner chose,
// requests to any process that reads.
func TestSteer(t *testing.T) {
	for slot := range Count {
		id := mad.CommID(ib.Slot{Index: uint8(slot), Bits: Bits}.CommID(0x123))
		for at, b := range messages(id) {
			want := slot
			if at == mad.AttrREQ || at == mad.AttrSIDRReq {
				want = Requests
			}
			require.Equal(t, want, Steer(b), "%v", at)
		}
	}
	ask := question(mad.CommID(ib.Slot{Index: 9, Bits: Bits}.CommID(0x123)))
	require.Equal(t, Requests, Steer(ask), "somebody has to answer when nobody has the slot")
	slot, asked := Asked(ask)
	require.True(t, asked)
	require.Equal(t, 9, slot)
	_, asked = Asked(messages(1)[mad.AttrDREQ])
	require.False(t, asked)
	_, asked = Asked(ask[:dreqAt])
	require.False(t, asked)
	require.Equal(t, Requests, Steer(messages(0)[mad.AttrREJ]), "of who does not know our ID yet")
	s, ok := service(messages(0)[mad.AttrREQ])
	require.True(t, ok)
	require.Equal(t, mad.NewServiceID(mad.PortSpaceTCP, 7), s)
	s, ok = service(messages(0)[mad.AttrSIDRReq])
	require.True(t, ok)
	require.Equal(t, mad.NewServiceID(mad.PortSpaceUDP, 8), s)
	for at, b := range messages(0) {
		_, ok = service(b[:len(b)-1])
		require.False(t, ok, "%v", at)
	}
	_, ok = service(messages(0)[mad.AttrREJ])
	require.False(t, ok)
	b := messages(0)[mad.AttrREP]
	b[classAt] = byte(mad.ClassPerf)
	require.Equal(t, Requests, Steer(b), "any device can answer")
	_, ok = service(b)
	require.False(t, ok)
}

// question is a DREQ that asks about a connection.
func question(id mad.CommID) []byte {
	b := messages(id)[mad.AttrDREQ]
	binary.BigEndian.PutUint32(b[dreqAt:], uint32(mad.NobodysQPN)<<8)
	return b
}

// The kernel chooses the socket as Steer does, whatever the bytes, at every length.
func TestSteerAgreesWithTheKernel(t *testing.T) {
	a := address()
	l := lease(t, a)
	for k := range Count + 1 {
		require.NoError(t, hear(l.sets[0].udp(k)))
	}
	check := func(b []byte) {
		t.Helper()
		send(t, a, b)
		want := Steer(b)
		require.Equal(t, [][]byte{b}, arrived(t, l.sets[0].udp(want)), "socket %d should have % x", want, b)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		for _, b := range messages(mad.CommID(r.Uint32())) {
			check(b)
			check(b[:1+r.IntN(len(b)-1)])
			check(question(mad.CommID(r.Uint32()))[:dreqAt+r.IntN(8)])
			b[classAt] = byte(r.Uint32N(9))
			binary.BigEndian.PutUint16(b[attributeAt:], uint16(0x0C+r.Uint32N(16)))
			check(b)
		}
		b := packet(ib.QPN(r.Uint32()) & ib.QPNMask)
		b[4] = byte(r.Uint32()) // reserved bits are not part of the number
		check(b)
	}
	for _, b := range messages(0) {
		check(b)
	}
	for n := 1; n < peerAt+8; n++ {
		check(messages(0xFFFFFFFF)[mad.AttrREP][:n])
		check(packet(ib.QPNMulticast)[:min(n, 60)])
	}
}
