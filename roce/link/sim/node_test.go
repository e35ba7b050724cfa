package sim

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// another attaches one more link to a host.
func (h *host) another(t *testing.T) *host {
	l, err := h.Another()
	require.NoError(t, err)
	o := &host{Link: l.(*Link)}
	o.Attach(o.progress)
	return o
}

// sendTo sends a packet to a queue pair of host i.
func (h *host) sendTo(i byte, qp ib.QPN, payload []byte) {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: qp}}
	tx := edge.TxPacket{Path: &edge.Path{Src: h.addrs[0], Dst: addr(i), HopLimit: 64}, NumFrags: 1,
		PayloadLen: uint16(len(payload))}
	tx.HeaderLen = uint8(p.PutHeaders(tx.Header[:]))
	tx.Frags[0] = payload
	h.Send([]edge.TxPacket{tx})
}

// The links of a host get the packets of their slots; the first one gets requests, and what
// is for nobody.
func TestSlots(t *testing.T) {
	f := New(Config{})
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	c := b.another(t)
	require.Equal(t, ib.Slot{Index: 0, Bits: slots.Bits}, b.Capabilities().Slot)
	require.Equal(t, ib.Slot{Index: slots.FirstSpare, Bits: slots.Bits}, c.Capabilities().Slot)

	a.sendTo(2, c.Capabilities().Slot.QPN(77), nil)
	a.sendTo(2, b.Capabilities().Slot.QPN(77), nil)
	a.sendTo(2, ib.Slot{Index: 9, Bits: slots.Bits}.QPN(77), nil)
	var req [mad.Bytes]byte
	header := mad.CMHeader(mad.AttrREQ, 1)
	header.Put(&req)
	a.sendTo(2, ib.QPNGSI, req[:])
	run(f)
	require.Len(t, c.got, 1)
	require.Len(t, b.got, 3)

	// Each receives from a group that it has joined, and a packet passes the cable once.
	group := ib.GID{10: 0xFF, 11: 0xFF, 12: 239, 15: 7}.Addr()
	require.NoError(t, b.Join(group, addr(2)))
	require.NoError(t, c.Join(group, addr(2)))
	b.got, c.got = nil, nil
	before := f.Stats().Delivered
	p := edge.TxPacket{Path: &edge.Path{Src: addr(1), Dst: group, HopLimit: 1}}
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QPNMulticast}}
	p.HeaderLen = uint8(h.PutHeaders(p.Header[:]))
	a.Send([]edge.TxPacket{p})
	run(f)
	require.Len(t, b.got, 1)
	require.Len(t, c.got, 1)
	require.Equal(t, before+1, f.Stats().Delivered)

	// A slot is free when its link has gone, and the address when the last one has.
	require.NoError(t, c.Close())
	require.Equal(t, c.slot, b.another(t).slot)
	require.NoError(t, b.Close())
	_, err := f.Link(addr(2))
	require.Error(t, err)
	_, err = b.Another()
	require.Error(t, err)
}

func TestNoSlotLeft(t *testing.T) {
	f := New(Config{})
	a := newHost(t, f, 1)
	for range slots.Count - slots.FirstSpare {
		a.another(t)
	}
	_, err := a.Another()
	require.ErrorContains(t, err, "no slot left")
}
