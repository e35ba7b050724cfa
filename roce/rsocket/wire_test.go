package rsocket

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// Connection data of rstream of rdma-core on a little-endian machine, with buffers of 1 MiB.
const connDataText = "0102018000000001" + "000055e508ed3000" + "00002109" + "00000002" + "00007f9412900000" +
	"00002216" + "00080000"

var connDataValue = connData{
	iomap: true, credits: 384, iomaps: 1, list: sge{0x55e508ed3000, 0x2109, 2}, data: sge{0x7f9412900000,
		0x2216, 0x80000},
}

func TestConnData(t *testing.T) {
	want, err := hex.DecodeString(connDataText)
	require.NoError(t, err)
	var b [connDataBytes]byte
	connDataValue.put(&b)
	require.Equal(t, want, b[:])
	got, err := parseConnData(append(want, 0, 0, 0))
	require.NoError(t, err)
	require.Equal(t, connDataValue, got)
	require.Equal(t, binary.ByteOrder(binary.LittleEndian), got.order())

	want[1] |= flagNet
	got, err = parseConnData(want)
	require.NoError(t, err)
	require.Equal(t, binary.ByteOrder(binary.BigEndian), got.order())
	want[1] = 0 // no mappings at all
	got, err = parseConnData(want)
	require.NoError(t, err)
	require.Zero(t, got.iomaps)
}

func TestConnDataRefused(t *testing.T) {
	good, _ := hex.DecodeString(connDataText)
	for n := range good {
		_, err := parseConnData(good[:n])
		var p *ProtocolError
		require.ErrorAs(t, err, &p, "first %d bytes", n)
	}
	for name, change := range map[string]func(b []byte){
		"version 0": func(b []byte) { b[0] = 0 }, "version 2": func(b []byte) { b[0] = 2 },
		"no credits": func(b []byte) { b[2], b[3] = 0, 0 }, "no list": func(b []byte) { b[23] = 0 },
	} {
		b := append([]byte(nil), good...)
		change(b)
		_, err := parseConnData(b)
		require.Error(t, err, name)
	}
}

func TestImmediate(t *testing.T) {
	// Seen: the first grant of 384 credits, 952 bytes of data, DISCONNECT.
	for imm, want := range map[uint32]struct {
		o op
		v uint32
	}{
		0x80000180: {opSGL, 384}, 0x000003b8: {opData, 952}, 0xe0000000: {opCtrl, ctrlDisconnect},
		0xe0000002: {opCtrl, ctrlShutdown}, 0xc0000005: {opIOMap, 5}, 0x1fffffff: {opData, 1<<29 - 1},
		0xbfffffff: {5, 1<<29 - 1},
	} {
		o, v := splitImmediate(imm)
		require.Equal(t, want.o, o, "%#x", imm)
		require.Equal(t, want.v, v, "%#x", imm)
		require.Equal(t, imm, immediate(o, v))
	}
}

func TestScale(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 127: 127, 128: 128, 129: 128, 255: 128, 256: 256, 300: 256,
		511: 256, 512: 512, maxIOMaps: maxIOMaps} {
		require.Equal(t, want, Config{IOMaps: n}.normal().IOMaps, "%d", n)
	}
	for v := range 256 {
		require.LessOrEqual(t, unscale(uint8(v)), maxIOMaps)
	}
}

func TestIOMapFind(t *testing.T) {
	m := iomap{offset: 100, sge: sge{addr: 5000, key: 7, length: 10}}
	for off, want := range map[uint64]uint32{100: 10, 101: 9, 109: 1} {
		addr, n, ok := m.find(off)
		require.True(t, ok)
		require.Equal(t, off-100+5000, addr)
		require.Equal(t, want, n)
	}
	for _, off := range []uint64{0, 99, 110, 1 << 63} {
		_, _, ok := m.find(off)
		require.False(t, ok, "%d", off)
	}
	m.offset = ^uint64(0) - 3 // a hostile one, that wraps
	_, _, ok := m.find(2)
	require.False(t, ok)
}
