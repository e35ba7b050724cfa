package capture

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// frames returns frames of each kind.
func frames() []Frame {
	all := []Frame{
		{Tagged: true, VLAN: 12, Priority: 5, HopLimit: 9, Ident: 77, DF: true,
			Flow: ib.Flow{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
				SrcPort: 50000, DstPort: ib.UDPPort}},
		{HopLimit: 3, More: true, Options: []IPv4Option{{Type: 1}, {Type: 7, Data: make([]byte, 3)}},
			Flow: ib.Flow{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
				SrcPort: 1, DstPort: 2}},
		{HopLimit: 64,
			Flow: ib.Flow{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
				SrcPort: 50000, DstPort: ib.UDPPort}},
	}
	for i := range all {
		f := &all[i]
		f.SrcMAC, f.DstMAC, f.Payload = net.HardwareAddr{2, 0, 0, 0, 0, 1},
			net.HardwareAddr{2, 0, 0, 0, 0, 2}, bytes.Repeat([]byte{0xA5}, 40+i)
	}
	return all
}

// What was built, written to a file and read from it is what it was.
func TestRoundTrip(t *testing.T) {
	var built []*Packet
	frames := frames()
	for i := range frames {
		b, err := frames[i].Build()
		require.NoError(t, err)
		built = append(built, Parse(b))
	}
	var file bytes.Buffer
	require.NoError(t, Write(&file, built))
	r, err := NewReader(&file)
	require.NoError(t, err)
	for i, f := range frames {
		p, at, err := r.Next()
		require.NoError(t, err)
		require.EqualValues(t, i, at.UnixMicro())
		require.NoError(t, p.Err)
		require.Equal(t, built[i].Data, p.Data)
		require.Equal(t, []any{f.SrcMAC, f.DstMAC, f.Tagged, f.VLAN, f.Priority},
			[]any{p.SrcMAC, p.DstMAC, p.Tagged, p.VLAN, p.Priority})
		require.Equal(t, []any{f.HopLimit, f.Ident, f.DF, f.More}, []any{p.HopLimit, p.Ident, p.DF, p.More})
		if f.More {
			continue // the decoder takes a fragment no further apart
		}
		require.Equal(t, f.Flow, p.Flow)
		require.True(t, p.UDP && p.RoCE())
		require.Equal(t, f.Payload, p.Payload)
		require.Equal(t, len(f.Payload)+ib.UDPHeaderBytes, p.UDPBytes)
		want, err := p.WantUDPChecksum()
		require.NoError(t, err)
		require.Equal(t, want, p.UDPChecksum)
	}
	_, _, err = r.Next()
	require.Equal(t, io.EOF, err)
}

// Each check can fail.
func TestWrong(t *testing.T) {
	b, err := frames()[0].Build()
	require.NoError(t, err)
	const ip = 18 // behind the tag
	require.NoError(t, Parse(b).CheckIPv4Header())
	require.NoError(t, ParseIP(b[ip:]).CheckIPv4Header())
	b[ip+1] ^= 4
	require.Error(t, Parse(b).CheckIPv4Header())
	b[len(b)-1]++
	p := Parse(b)
	want, err := p.WantUDPChecksum()
	require.NoError(t, err)
	require.NotEqual(t, want, p.UDPChecksum)
	require.Error(t, Parse(b[:ip+10]).Err)
	require.Error(t, Parse(b[:ip+10]).CheckIPv4Header())
	_, err = Parse(b[:ip+10]).WantUDPChecksum()
	require.Error(t, err)
	_, err = NewReader(bytes.NewReader([]byte("GIF89a, not a capture file")))
	require.Error(t, err)
	_, err = NewReader(bytes.NewReader(nil))
	require.Error(t, err)
}
