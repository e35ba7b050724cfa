package wirelink

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/stretchr/testify/require"
)

// What of the frames at an interface goes on to the other one.
func TestPassable(t *testing.T) {
	n := &nic{mac: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	frame := func(to [6]byte, body ...byte) []byte {
		return append(append(append(make([]byte, virtioBytes), to[:]...), 2, 0, 0, 0, 0, 1, 8, 0), body...)
	}
	other := [6]byte{2, 0, 0, 0, 0, 2}
	require.Equal(t, frame(other, 1, 2, 3)[virtioBytes:], n.passable(frame(other, 1, 2, 3)))
	require.Nil(t, n.passable(frame([6]byte(n.mac), 1)), "the kernel's own")
	require.Nil(t, n.passable(frame([6]byte{1, 0x80, 0xc2, 0, 0, 0x0e}, 1)), "LLDP")
	require.NotNil(t, n.passable(frame([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})))
	require.Zero(t, n.together.Load())
	long := frame(other, 1)
	long[1] = 5 // UDP, several datagrams
	require.Nil(t, n.passable(long))
	require.EqualValues(t, 1, n.together.Load())
	for _, short := range [][]byte{nil, make([]byte, virtioBytes), make([]byte, virtioBytes+ethBytes-1)} {
		require.Nil(t, n.passable(short))
	}

	// A checksum that the sender's kernel has left to the device.
	partial := frame(other, 0x12, 0x34, 0x00, 0x05, 0xff) // the field, at 2, has the pseudo header's sum
	partial[0] = virtioNeedsSum
	binary.NativeEndian.PutUint16(partial[virtioSumFrom:], ethBytes)
	binary.NativeEndian.PutUint16(partial[virtioSumOffset:], 2)
	got := n.passable(partial)
	require.Equal(t, []byte{0xee, 0xc5}, got[ethBytes+2:ethBytes+4], "not (0x1234 + 0x0005 + 0xff00, with its carry)")
	for _, at := range []uint16{4, 5, 0xffff} { // where there is no field
		partial[0] = virtioNeedsSum
		binary.NativeEndian.PutUint16(partial[virtioSumOffset:], at)
		require.Nil(t, n.passable(partial), at)
	}
	binary.NativeEndian.PutUint16(partial[virtioSumFrom:], 0xffff)
	require.Nil(t, n.passable(partial))
}

// Interfaces that can be no end of a cable are refused, with their names.
func TestNoCable(t *testing.T) {
	for _, c := range [][2]string{{"no-such-if", "lo"}, {"lo", "no-such-if"}, {"lo", "lo"}} {
		sw := wire.New()
		_, err := NewCable(sw, c[0], c[1])
		require.ErrorContains(t, err, c[0])
		sw.Close()
	}
}
