package switchlink

import (
	"bytes"
	"net/netip"
	"strconv"
	"testing"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// gsoFrame makes a frame of several packets, as a sender with GSO hands it over, and the packets.
func gsoFrame(t *testing.T, v6 bool, parts, size int) (h vnet, frame []byte) {
	t.Helper()
	flow := ib.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		SrcPort: 50000, DstPort: ib.UDPPort}
	frame = append(make([]byte, 12), 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	if v6 {
		flow.Src, flow.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		a, b := flow.Src.As16(), flow.Dst.As16()
		frame = append(append(append(make([]byte, 12), 0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, 17, 64), a[:]...), b[:]...)
	}
	start := len(frame)
	frame = append(frame, 0xC3, 0x50, 0x12, 0xB7, 0, 0, 0, 0)
	icrc := ib.NewICRC(flow)
	for i := range parts {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle, PKey: ib.PKeyDefault, DestQP: 7, PSN: ib.PSN(i)}}
		n := size
		if i == parts-1 {
			n -= 100
		}
		b := make([]byte, n)
		p.PutHeaders(b)
		ib.PutICRC(b[n-ib.ICRCBytes:], icrc.Checksum(uint16(i), b[:n-ib.ICRCBytes]))
		frame = append(frame, b...)
	}
	be.PutUint16(frame[start+4:], uint16(len(frame)-start))
	if v6 {
		be.PutUint16(frame[18:], uint16(len(frame)-start))
	} else {
		be.PutUint16(frame[16:], uint16(len(frame)-14))
	}
	h = make(vnet, vnetBytes)
	h[vnetFlags], h[vnetGSOType] = needsCsum, gsoUDP
	ne.PutUint16(h[vnetGSOSize:], uint16(size))
	ne.PutUint16(h[vnetCsumStart:], uint16(start))
	ne.PutUint16(h[vnetCsumOff:], 6)
	return h, frame
}

// A frame of several packets becomes those: ICRCs, lengths and checksums are right in each.
func TestSegments(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		h, frame := gsoFrame(t, v6, 5, 1040)
		all := h.packets(frame)
		require.Len(t, all, 5)
		for i, f := range all {
			p, ok := ether.Decode(f)
			require.True(t, ok)
			require.EqualValues(t, i, p.PSN)
			require.True(t, p.ICRCValid(), "part %d", i)
			require.True(t, udpChecksumRight(f, p), "part %d", i)
			if !v6 {
				require.Zero(t, ^ib.InternetSum(0, f[14:34]), "the header's checksum")
			}
		}
		require.Len(t, all[4], len(all[0])-100)
	}
}

// udpChecksumRight adds everything up, pseudo header included.
func udpChecksumRight(f []byte, p *ether.Packet) bool {
	src, dst := p.Src.AsSlice(), p.Dst.AsSlice()
	udp := f[len(f)-len(p.BTH())-ib.UDPHeaderBytes:]
	return ib.InternetSum(unix.IPPROTO_UDP+uint32(len(udp)), src, dst, udp) == 0xFFFF
}

// A single packet whose checksum was left to the card has it, also where the frame is padded; and
// nothing else is changed.
func TestChecksumLeftUndone(t *testing.T) {
	h, frame := gsoFrame(t, false, 1, 140)
	h[vnetGSOType] = 0
	udp := frame[34:]
	be.PutUint16(udp[6:], ib.InternetSum(unix.IPPROTO_UDP+uint32(len(udp)), frame[26:34])) // of the pseudo header
	all := h.packets(append(bytes.Clone(frame), 0, 0, 0))
	require.Len(t, all, 1)
	p, ok := ether.Decode(all[0])
	require.True(t, ok)
	require.True(t, udpChecksumRight(all[0], p))
	be.PutUint16(all[0][40:], be.Uint16(udp[6:]))
	require.Equal(t, frame, all[0])

	h[vnetFlags] = 0
	all = h.packets(frame)
	require.Equal(t, frame, all[0])
	all[0][50] ^= 1
	require.NotEqual(t, frame, all[0], "it is a copy")
}

// Frames that are no RoCE pass beside the rules.
func TestOtherFrames(t *testing.T) {
	h, frame := gsoFrame(t, false, 2, 140)
	require.Nil(t, h.packets(frame[:60]))
	h[vnetGSOType] = 1 // TCP over IPv4
	require.Nil(t, h.packets(frame))
	be.PutUint16(frame[36:], 53)
	h[vnetGSOType] = 0
	require.Nil(t, h.packets(frame))
}

// A tag that was taken out is put back, and what the header says of offsets moves with it.
func TestTag(t *testing.T) {
	h, frame := gsoFrame(t, false, 2, 140)
	buf := append(append(bytes.Clone(h), frame...), make([]byte, tagBytes)...)
	oob := make([]byte, unix.CmsgSpace(20))
	// The length of a control message is of the processor's word.
	word := strconv.IntSize / 8
	if ne.PutUint32(oob, uint32(unix.CmsgLen(20))); word == 8 {
		ne.PutUint64(oob, uint64(unix.CmsgLen(20)))
	}
	ne.PutUint32(oob[word:], unix.SOL_PACKET)
	ne.PutUint32(oob[word+4:], unix.PACKET_AUXDATA)
	aux := oob[unix.CmsgLen(0):]
	require.Equal(t, append(bytes.Clone(h), frame...), putTag(buf, vnetBytes+len(frame), oob), "no tag")
	ne.PutUint32(aux, unix.TP_STATUS_VLAN_VALID)
	ne.PutUint16(aux[16:], 7)
	b := putTag(buf, vnetBytes+len(frame), oob)
	require.Len(t, b, vnetBytes+len(frame)+tagBytes)
	all := vnet(b[:vnetBytes]).packets(b[vnetBytes:])
	require.Len(t, all, 2)
	for _, f := range all {
		require.Equal(t, []byte{0x81, 0, 0, 7, 8, 0}, f[12:18])
		p, ok := ether.Decode(f)
		require.True(t, ok)
		require.True(t, p.ICRCValid())
		require.True(t, udpChecksumRight(f, p))
	}
}

// Any frame, with any header, is packets or another frame.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{1, 5, 0, 0, 100, 0, 34, 0, 6, 0}, []byte("frame"))
	f.Fuzz(func(t *testing.T, h, frame []byte) {
		if len(h) >= vnetBytes {
			for _, p := range vnet(h[:vnetBytes]).packets(frame) {
				if len(p) > len(frame) {
					t.Errorf("%d bytes of %d", len(p), len(frame))
				}
			}
		}
	})
}
