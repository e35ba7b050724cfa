package ether

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceLastKeepsTheLast(t *testing.T) {
	const n = 10
	s := New()
	defer s.Close()
	tr := s.TraceLast(n, nil)
	for psn := range uint32(95) {
		s.trace(nil, &Packet{PSN: psn}, "")
	}
	ev := tr.Events()
	require.GreaterOrEqual(t, len(ev), n)
	require.LessOrEqual(t, len(ev), 2*n)
	for i, e := range ev {
		require.EqualValues(t, 95-len(ev)+i, e.Pkt.PSN)
	}
}

// What goes to the GSI is told by its message, not by its opcode alone.
func TestDescribesMADs(t *testing.T) {
	message := func(class byte, attr uint16) *Packet {
		f := frame(t, 7)[:ethLen+ip4Len+udpLen+bthLen]
		f = append(f, make([]byte, dethLen+madLen+icrcLen)...)
		binary.BigEndian.PutUint16(f[ethLen+2:], uint16(len(f)-ethLen))
		binary.BigEndian.PutUint16(f[ethLen+ip4Len+4:], uint16(len(f)-ethLen-ip4Len))
		bth := f[ethLen+ip4Len+udpLen:]
		bth[0], bth[5], bth[6], bth[7] = OpUDSendOnly, 0, 0, qpnGSI
		m := bth[bthLen+dethLen:]
		m[madClass] = class
		binary.BigEndian.PutUint16(m[madAttr:], attr)
		binary.BigEndian.PutUint32(m[madTIDLow:], 0x42)
		binary.BigEndian.PutUint32(m[madLocalID:], 0xa)
		binary.BigEndian.PutUint32(m[madPeerID:], 0xb)
		binary.BigEndian.PutUint16(m[rejReason:], 28)
		p, ok := Decode(f)
		require.True(t, ok)
		return p
	}
	for want, p := range map[string]*Packet{
		"REQ tid=0x42 0xa>0xb":           message(7, 0x10),
		"REJ tid=0x42 0xa>0xb reason=28": message(7, 0x12),
		"APR tid=0x42 0xa>0xb":           message(7, 0x1a),
		"MAD class=0x7 attribute=0x1b":   message(7, 0x1b),
		"MAD class=0x4 attribute=0x10":   message(4, 0x10),
	} {
		require.Regexp(t, " "+want+"$", p.String())
	}
	p := message(7, 0x10)
	p.QPN = 2
	require.Empty(t, p.describeMAD())
	p, ok := Decode(frame(t, 1))
	require.True(t, ok)
	p.Opcode, p.QPN = OpUDSendOnly, qpnGSI
	require.Empty(t, p.describeMAD(), "too short for a MAD")
}
