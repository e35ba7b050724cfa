package edge_test

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/edge"
)

// A packet is its headers, its fragments and as many zeros as its pad says, and its length counts
// the ICRC as well.
func TestTxPacket(t *testing.T) {
	path := &edge.Path{}
	var p edge.TxPacket
	p.Reset(path, 5)
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteLast, PSN: 0xabcdef, AckReq: true}}
	p.HeaderLen = uint8(h.PutHeaders(p.Header[:]))
	p.Frags[0], p.Frags[1], p.NumFrags, p.PayloadLen, p.Pad = []byte{1, 2, 3}, []byte{4, 5}, 2, 5, 3
	op, psn := p.OpcodeAndPSN()
	require.Equal(t, ib.RCWriteLast, op)
	require.Equal(t, ib.PSN(0xabcdef), psn)
	want := append([]byte{9}, p.Header[:ib.BTHBytes]...)
	require.Equal(t, append(want, 1, 2, 3, 4, 5, 0, 0, 0), p.AppendTo([]byte{9}))
	require.Equal(t, ib.BTHBytes+5+3+ib.ICRCBytes, p.UDPPayloadLen())
	p.Pad = 0
	require.Len(t, p.AppendTo(nil), ib.BTHBytes+5)

	at := func(b *byte) uint64 { return uint64(uintptr(unsafe.Pointer(b))) }
	require.True(t, p.Holds(at(&p.Frags[0][0])))
	require.True(t, p.Holds(at(&p.Frags[1][1])))
	require.False(t, p.Holds(at(&p.Header[0])))
	p.NumFrags = 1
	require.False(t, p.Holds(at(&p.Frags[1][1])))

	p.Forget()
	require.Nil(t, p.Path)
	require.Nil(t, p.Frags[0])
	p.Reset(path, 6)
	require.Same(t, path, p.Path)
	require.Equal(t, ib.QPN(6), p.SrcQP)
	require.Zero(t, p.HeaderLen)
	require.Zero(t, p.PayloadLen)
}

// The buffer of a descriptor is made once, and goes with it.
func TestCopyBuffer(t *testing.T) {
	var p edge.TxPacket
	b := p.CopyBuffer(3)
	require.Len(t, b, 3)
	require.Equal(t, 3, cap(b))
	b[0] = 7
	p.Reset(nil, 0)
	all := p.CopyBuffer(ib.MaxMTUBytes)
	require.Len(t, all, ib.MaxMTUBytes)
	require.Equal(t, byte(7), all[0])
}

func TestArgError(t *testing.T) {
	err := &edge.ArgError{Op: "open", Arg: "port", Why: "is 0"}
	require.EqualError(t, err, "roce: open: port: is 0")
	require.ErrorIs(t, err, mem.ErrInvalid)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NotErrorIs(t, err, syscall.ENOMEM)
}
