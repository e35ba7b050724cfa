package pcap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

func captures(t testing.TB) []string {
	files, err := filepath.Glob("../../ib/testdata/captures/*.pcap")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// packets reads all RoCE packets of a file, with copies of their data.
func packets(t testing.TB, file []byte) (all []pcap.Packet, d *pcap.Decoder, err error) {
	t.Helper()
	r, err := pcap.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	d = &pcap.Decoder{}
	var f pcap.Frame
	for {
		if err := r.Next(&f); err != nil {
			if err == io.EOF {
				return all, d, nil
			}
			return all, d, err
		}
		for _, p := range d.Decode(&f) {
			p.Data = bytes.Clone(p.Data)
			all = append(all, p)
		}
	}
}

// What is read from a file is what gopacket, which knows nothing of this project, reads from it,
// and every ICRC of the captures is right.
func TestAgainstGopacket(t *testing.T) {
	for _, path := range captures(t) {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		all, _, err := packets(t, file)
		require.NoError(t, err)
		r, err := capture.NewReader(bytes.NewReader(file))
		require.NoError(t, err)
		for i := 0; ; {
			want, at, err := r.Next()
			if err == io.EOF {
				require.Equal(t, len(all), i)
				break
			}
			require.NoError(t, err)
			if !want.RoCE() {
				continue
			}
			p := all[i]
			require.Equal(t, at.UnixNano(), p.AtNs)
			require.Equal(t, want.Flow, p.Flow)
			require.Equal(t, want.Payload, p.Data)
			require.Equal(t, want.Ident, p.Ident)
			require.Equal(t, want.TrafficClass, p.TrafficClass)
			require.Equal(t, want.HopLimit, p.HopLimit)
			require.Equal(t, pcap.ICRCRight, p.ICRC, "%s, frame %d", path, p.Frame)
			require.Empty(t, p.Problem)
			i++
		}
	}
}

// link puts a header of a link type before an IP packet.
func link(typ pcap.LinkType, ip []byte) []byte {
	ether := []byte{8, 0}
	if ip[0]>>4 == 6 {
		ether = []byte{0x86, 0xDD}
	}
	switch typ {
	case pcap.LinkEthernet:
		return append(append(make([]byte, 12), ether...), ip...)
	case pcap.LinkSLL:
		return append(append([]byte{0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0}, ether...), ip...)
	case pcap.LinkSLL2:
		return append(append(append([]byte{}, ether...), 0, 0, 0, 0, 0, 7, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0), ip...)
	case pcap.LinkNull:
		return append([]byte{2, 0, 0, 0}, ip...)
	}
	return ip
}

// ipPacket is an IP packet of the captures: the frame behind its Ethernet header.
func ipPacket(t testing.TB) []byte {
	file, err := os.ReadFile("../../ib/testdata/captures/write_bw.pcap")
	require.NoError(t, err)
	r, err := pcap.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	var f pcap.Frame
	require.NoError(t, r.Next(&f))
	require.Equal(t, pcap.LinkEthernet, f.Link)
	return bytes.Clone(f.Data[14:])
}

// Each link type, tags and tunnels lead to the same packet.
func TestEncapsulations(t *testing.T) {
	ip := ipPacket(t)
	tag := func(types ...uint16) []byte {
		b := make([]byte, 12)
		for i, typ := range types {
			b = binary.BigEndian.AppendUint16(b, typ)
			b = binary.BigEndian.AppendUint16(b, uint16(5<<13|100+i))
		}
		return append(append(b, 8, 0), ip...)
	}
	udp := func(port uint16, inner []byte) []byte {
		b := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
		binary.BigEndian.PutUint16(b[2:], uint16(28+len(inner)))
		b = binary.BigEndian.AppendUint16(b, 1000)
		b = binary.BigEndian.AppendUint16(b, port)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(inner)))
		return append(append(b, 0, 0), inner...)
	}
	for _, c := range []struct {
		name   string
		link   pcap.LinkType
		data   []byte
		tunnel string
		vlan   uint16
		dir    pcap.Direction
		iface  int
	}{
		{name: "raw", link: pcap.LinkRaw, data: ip},
		{name: "ethernet", link: pcap.LinkEthernet, data: link(pcap.LinkEthernet, ip)},
		{name: "padded", link: pcap.LinkEthernet, data: append(link(pcap.LinkEthernet, ip), 0, 0, 0, 0, 0, 0)},
		{name: "sll", link: pcap.LinkSLL, data: link(pcap.LinkSLL, ip), dir: pcap.Out},
		{name: "sll2", link: pcap.LinkSLL2, data: link(pcap.LinkSLL2, ip), dir: pcap.In, iface: 7},
		{name: "null", link: pcap.LinkNull, data: link(pcap.LinkNull, ip)},
		{name: "vlan", link: pcap.LinkEthernet, data: tag(0x8100), vlan: 100},
		{name: "qinq", link: pcap.LinkEthernet, data: tag(0x88A8, 0x8100), vlan: 101},
		{name: "vxlan", link: pcap.LinkRaw,
			data: udp(4789, append([]byte{8, 0, 0, 0, 0, 0, 9, 0}, link(pcap.LinkEthernet, ip)...)), tunnel: "VXLAN"},
		{name: "geneve", link: pcap.LinkRaw,
			data:   udp(6081, append([]byte{0, 0, 0x65, 0x58, 0, 0, 9, 0}, link(pcap.LinkEthernet, ip)...)),
			tunnel: "Geneve"},
	} {
		d := &pcap.Decoder{}
		all := d.Decode(&pcap.Frame{Number: 3, Link: c.link, Data: c.data, WireBytes: len(c.data)})
		require.Len(t, all, 1, c.name)
		p := all[0]
		require.Equal(t, pcap.ICRCRight, p.ICRC, c.name)
		require.Equal(t, []any{c.tunnel, c.vlan, c.dir, c.iface}, []any{p.Tunnel, p.VLAN, p.Dir, p.Iface}, c.name)
		require.Equal(t, 1, d.Counts[pcap.Found])
		// Cut anywhere: no packet, or one that says that it is cut.
		for n := range c.data {
			for _, p := range d.Decode(&pcap.Frame{Link: c.link, Data: c.data[:n], WireBytes: len(c.data)}) {
				if c.name == "padded" && n >= len(c.data)-6 {
					continue
				}
				require.True(t, p.Cut(), "%s cut to %d", c.name, n)
				require.Equal(t, pcap.ICRCUnchecked, p.ICRC)
				if p.Problem == "" {
					require.Equal(t, ib.RCWriteFirst, p.Opcode)
					require.Equal(t, 1024, p.PayloadBytes)
				}
			}
		}
	}
}

// A datagram of several packets, as a host that segments later shows it, is taken apart.
func TestSegments(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	flow := ib.Flow{Src: src, Dst: dst, SrcPort: 50000, DstPort: ib.UDPPort}
	icrc := ib.NewICRC(flow)
	for _, size := range []int{0, 8, 64, 1024, 4096} {
		for _, counted := range []bool{false, true} {
			var body []byte
			for i := range 5 {
				n := size
				if i == 4 {
					n = size / 2 // the last may be shorter
				}
				q := ib.Packet{BTH: ib.BTH{
					Opcode: ib.RCSendOnly, PKey: ib.PKeyDefault, DestQP: 17, PSN: ib.PSN(100 + i),
				}}
				b := make([]byte, ib.BTHBytes+n+ib.ICRCBytes)
				q.PutHeaders(b)
				id := uint16(0)
				if counted {
					id = uint16(i)
				}
				ib.PutICRC(b[len(b)-4:], icrc.Checksum(id, b[:len(b)-4]))
				body = append(body, b...)
			}
			f := capture.Frame{Flow: flow, DF: true, HopLimit: 64, Payload: body, SrcMAC: make([]byte, 6),
				DstMAC: make([]byte, 6)}
			b, err := f.Build()
			require.NoError(t, err)
			d := &pcap.Decoder{}
			all := d.Decode(&pcap.Frame{Link: pcap.LinkEthernet, Data: b, WireBytes: len(b)})
			require.Len(t, all, 5, "%d bytes", size)
			for i, p := range all {
				require.Equal(t, ib.PSN(100+i), p.PSN)
				require.Equal(t, pcap.ICRCRight, p.ICRC, "%d bytes, packet %d", size, i)
				require.Equal(t, i, p.Part)
			}
		}
	}
}

// An ICMP message about a RoCE packet tells which one it is.
func TestICMP(t *testing.T) {
	ip := ipPacket(t)
	msg := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 77, 0, 9, 10, 77, 0, 2, 3, 4, 0, 0, 0, 0, 0x02, 0x40}
	msg = append(msg, ip[:28+12]...)
	binary.BigEndian.PutUint16(msg[2:], uint16(len(msg)))
	d := &pcap.Decoder{}
	all := d.Decode(&pcap.Frame{Link: pcap.LinkRaw, Data: msg, WireBytes: len(msg)})
	require.Len(t, all, 1)
	m := all[0].ICMP
	require.NotNil(t, m)
	require.Equal(t, []any{pcap.TooBig, 576, true, "10.77.0.9"}, []any{m.What, m.MTU, m.HasBTH, m.From.String()})
	require.Equal(t, ib.RCWriteFirst, all[0].Opcode)
	for n := range msg { // nothing breaks
		d.Decode(&pcap.Frame{Link: pcap.LinkRaw, Data: msg[:n], WireBytes: len(msg)})
	}
}

// A file that is cut gives what came before, and says where.
func TestCutFile(t *testing.T) {
	file, err := os.ReadFile("../../ib/testdata/captures/rping.pcap")
	require.NoError(t, err)
	whole, _, err := packets(t, file)
	require.NoError(t, err)
	for n := range file {
		got, _, err := packets(t, file[:n])
		require.LessOrEqual(t, len(got), len(whole))
		var fe *pcap.FormatError
		if err != nil {
			require.True(t, errors.As(err, &fe), "%v", err)
			require.LessOrEqual(t, fe.Offset, int64(n))
			require.NoError(t, fe.Err) // the end of the file needs no more words
		}
	}
}

// What is written is read again.
func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w, err := pcap.NewWriter(&out, pcap.LinkRaw)
	require.NoError(t, err)
	ip := ipPacket(t)
	require.NoError(t,
		w.Write(&pcap.Frame{Link: pcap.LinkRaw, AtNs: 1_700_000_000_123_456_789, Data: ip, WireBytes: len(ip)}))
	require.NoError(t, w.Write(&pcap.Frame{Link: pcap.LinkRaw, AtNs: 7, Data: ip[:60], WireBytes: len(ip)}))
	require.Error(t, w.Write(&pcap.Frame{Link: pcap.LinkEthernet}))
	r, err := pcap.NewReader(&out)
	require.NoError(t, err)
	var f pcap.Frame
	require.NoError(t, r.Next(&f))
	require.Equal(t, []any{int64(1_700_000_000_123_456_789), 1, ip, false}, []any{f.AtNs, f.Number, f.Data, f.Cut()})
	require.NoError(t, r.Next(&f))
	require.True(t, f.Cut())
	require.Equal(t, io.EOF, r.Next(&f))
}

// Files that say impossible things are refused without the memory that they ask for.
func TestImpossible(t *testing.T) {
	le := binary.LittleEndian
	head := make([]byte, 24)
	le.PutUint32(head, 0xA1B2C3D4)
	le.PutUint32(head[20:], 1)
	record := make([]byte, 16)
	le.PutUint32(record[8:], 1<<31)
	section := []byte{0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255,
		255, 255, 255, 255, 255, 28, 0, 0, 0}
	for name, file := range map[string][]byte{
		"nothing":           {},
		"a picture":         []byte("GIF89a, not a capture file"),
		"a long record":     append(bytes.Clone(head), record...),
		"a block too short": append(bytes.Clone(section), 6, 0, 0, 0, 8, 0, 0, 0),
		"no interface": append(bytes.Clone(section),
			append([]byte{6, 0, 0, 0, 32, 0, 0, 0}, make([]byte, 24)...)...),
		"a block too long": append(bytes.Clone(section), 6, 0, 0, 0, 0xFC, 0xFF, 0xFF, 0xFF),
	} {
		_, _, err := packets(t, file)
		var fe *pcap.FormatError
		require.True(t, errors.As(err, &fe), "%s: %v", name, err)
		require.NotEmpty(t, fe.Error())
	}
}

// Any bytes are read without a panic, and without more frames than they have room for.
func FuzzReader(f *testing.F) {
	for _, path := range captures(f) {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(b[:min(len(b), 2000)])
	}
	f.Add([]byte{0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255,
		255, 255, 255, 255, 28, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0})
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := pcap.NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		d := &pcap.Decoder{}
		var fr pcap.Frame
		for {
			if r.Next(&fr) != nil {
				break
			}
			d.Decode(&fr)
		}
		if r.Offset() > int64(len(file)) || r.Frames() > len(file)/12 {
			t.Errorf("%d frames and %d bytes of %d", r.Frames(), r.Offset(), len(file))
		}
	})
}

// Any bytes may be a frame of any link type.
func FuzzDecode(f *testing.F) {
	ip := ipPacket(f)
	for _, l := range []pcap.LinkType{pcap.LinkNull, pcap.LinkEthernet, pcap.LinkRaw, pcap.LinkSLL, pcap.LinkSLL2} {
		f.Add(uint16(l), link(l, ip), 0)
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte, more int) {
		d := &pcap.Decoder{}
		n := 0
		for _, p := range d.Decode(
			&pcap.Frame{Link: pcap.LinkType(typ), Data: data, WireBytes: len(data) + more&0xFFFF}) {
			n += len(p.Data)
			if p.ICMP == nil && p.Problem == "" && len(p.Payload) > p.PayloadBytes+8 {
				t.Errorf("payload of %d bytes, of which there are %d", p.PayloadBytes, len(p.Payload))
			}
		}
		if n > len(data) {
			t.Errorf("%d bytes in packets of a frame of %d", n, len(data))
		}
	})
}
