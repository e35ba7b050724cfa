package dump

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// lets reports whether the filter of an interface lets a frame in.
func lets(t *testing.T, link pcap.LinkType, frame []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(rocePackets(link))
	require.NoError(t, err)
	n, err := vm.Run(frame)
	require.NoError(t, err)
	return n > 0
}

// The filter lets in all frames in which the decoder finds something, with Ethernet before them and
// without.
func TestFilterOfTheKernel(t *testing.T) {
	files, err := filepath.Glob(captures + "*.pcap")
	require.NoError(t, err)
	n := 0
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		r, err := pcap.NewReader(f)
		require.NoError(t, err)
		d := &pcap.Decoder{}
		for {
			var fr pcap.Frame
			if err := r.Next(&fr); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			if fr.Link != pcap.LinkEthernet || len(d.Decode(&fr)) == 0 {
				continue
			}
			n++
			require.True(t, lets(t, pcap.LinkEthernet, fr.Data), "%s: frame %d", name, fr.Number)
			if typ := binary.BigEndian.Uint16(fr.Data[12:]); typ == etherIPv4 || typ == etherIPv6 {
				require.True(t, lets(t, pcap.LinkRaw, fr.Data[14:]), "%s: frame %d", name, fr.Number)
			}
		}
		require.NoError(t, f.Close())
	}
	require.Greater(t, n, 1000)
}

// ipv4 and ipv6 make frames.
func ipv4(proto byte, fragment uint16, body ...byte) []byte {
	b := append(make([]byte, 12), 0x08, 0x00, 0x45, 0, 0, 60, 0, 0, byte(fragment>>8), byte(fragment), 64,
		proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	return append(append(b, body...), make([]byte, 40)...)
}

func ipv6(next byte, body ...byte) []byte {
	b := append(make([]byte, 12), 0x86, 0xDD, 0x60, 0, 0, 0, 0, 60, next, 64)
	return append(append(b, make([]byte, 32)...), append(body, make([]byte, 40)...)...)
}

func udpTo(port uint16) []byte {
	return []byte{0xC0, 0, byte(port >> 8), byte(port), 0, 40, 0, 0}
}

func TestFilterCases(t *testing.T) {
	options := ipv4(protoUDP, 0, append([]byte{1, 1, 1, 1}, udpTo(4791)...)...)
	options[14] = 0x46
	vlan := append(append(make([]byte, 12), 0x81, 0, 0, 7), ipv4(protoUDP, 0, udpTo(53)...)[12:]...)
	for _, c := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"RoCE", ipv4(protoUDP, 0, udpTo(4791)...), true},
		{"RoCE over IPv6", ipv6(protoUDP, udpTo(4791)...), true},
		{"IPv4 with options", options, true},
		{"VXLAN", ipv4(protoUDP, 0, udpTo(4789)...), true},
		{"Geneve over IPv6", ipv6(protoUDP, udpTo(6081)...), true},
		{"with a tag still", vlan, true},
		{"unreachable", ipv4(protoICMP, 0, 3, 4), true},
		{"unreachable over IPv6", ipv6(protoICMP6, 1, 4), true},
		{"too big", ipv6(protoICMP6, 2, 0), true},
		{"DNS", ipv4(protoUDP, 0, udpTo(53)...), false},
		{"DNS over IPv6", ipv6(protoUDP, udpTo(53)...), false},
		{"from the port", ipv4(protoUDP, 0, 0x12, 0xB7, 0, 53), false},
		{"TCP", ipv4(6, 0, udpTo(4791)...), false},
		{"TCP over IPv6", ipv6(6, udpTo(4791)...), false},
		{"later fragment", ipv4(protoUDP, 100, udpTo(4791)...), false},
		{"echo", ipv4(protoICMP, 0, 8), false},
		{"neighbour solicitation", ipv6(protoICMP6, 135), false},
		{"ARP", append(append(make([]byte, 12), 8, 6), make([]byte, 46)...), false},
	} {
		require.Equal(t, c.want, lets(t, pcap.LinkEthernet, c.frame), c.name)
		if typ := binary.BigEndian.Uint16(c.frame[12:]); typ == etherIPv4 || typ == etherIPv6 {
			require.Equal(t, c.want, lets(t, pcap.LinkRaw, c.frame[14:]), "without Ethernet: %s", c.name)
		}
	}
	for n := range 60 { // what is cut is no RoCE, and no error
		_ = lets(t, pcap.LinkEthernet, ipv4(protoUDP, 0, udpTo(4791)...)[:n])
	}
}

// More frames than a block of the ring holds come from an interface, in order and all of them, with
// their VLAN tags; of other traffic there is nothing.
func TestRing(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	var l *live
	var err error
	n.B.Do(func() { l, err = listen(linktest.Device, 8) })
	if errors.Is(err, unix.EPERM) {
		t.Skip("capturing on an interface needs CAP_NET_RAW")
	}
	require.NoError(t, err)
	defer l.close()
	const frames = 20000
	sent := make(chan error, 1)
	flying := make(chan struct{}, 200) // no more than what veth holds
	var from *net.UDPConn
	n.A.Do(func() { from, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.A4, 50000))) })
	require.NoError(t, err)
	defer from.Close()
	go func() {
		b := make([]byte, 100)
		b[0] = byte(ib.RCSendOnly)
		for i := range frames {
			flying <- struct{}{}
			binary.BigEndian.PutUint32(b[8:], uint32(i))
			for _, port := range []uint16{ib.UDPPort, 9} {
				if _, err := from.WriteToUDPAddrPort(b, netip.AddrPortFrom(n.B4, port)); err != nil {
					sent <- err
					return
				}
			}
		}
		sent <- nil
	}()
	d := &pcap.Decoder{}
	var f pcap.Frame
	seen := make([]bool, frames) // each once; a sender that changes its CPU overtakes itself
	for next := 0; next < frames; {
		select {
		case err := <-sent:
			require.NoError(t, err)
			sent <- nil
		default:
		}
		require.NoError(t, l.next(t.Context(), &f))
		for _, p := range d.Decode(&f) {
			if p.ICMP != nil {
				continue // B has nobody at the port
			}
			require.False(t, seen[p.PSN], "packet %d again", p.PSN)
			seen[p.PSN] = true
			require.Equal(t, pcap.In, f.Dir)
			next++
			<-flying
		}
	}
	require.NoError(t, <-sent)
	require.Zero(t, l.dropped())
	require.Zero(t, d.Counts[pcap.OtherPort]+d.Counts[pcap.NotIP])

	// With a tag, which the kernel takes out of the frame.
	frame := ipv4(protoUDP, 0, udpTo(ib.UDPPort)...)
	frame[17] = 20 + 40 // the length of the IP packet
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0x99, 1})
	frame = append(append(frame[:12:12], 0x81, 0x00, 0x60, 7), frame[12:]...)
	n.A.Do(func() {
		var fd int
		var ifc *net.Interface
		if ifc, err = net.InterfaceByName(linktest.Device); err != nil {
			return
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: ifc.Index})
	})
	require.NoError(t, err)
	for {
		require.NoError(t, l.next(t.Context(), &f))
		if all := d.Decode(&f); len(all) == 1 && all[0].Tagged {
			require.EqualValues(t, 7, all[0].VLAN)
			require.EqualValues(t, 3, all[0].Priority)
			require.Equal(t, frame, f.Data)
			break
		}
	}

	// The interface goes: an error that says so.
	n.B.Run("ip", "link", "set", linktest.Device, "down")
	for err == nil {
		err = l.next(t.Context(), &f)
	}
	require.ErrorIs(t, err, unix.ENETDOWN)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.next(ctx, &f), context.Canceled)
}

func TestKinds(t *testing.T) {
	for kind, want := range map[uint16]pcap.LinkType{arpEthernet: pcap.LinkEthernet,
		arpLoopback: pcap.LinkEthernet, arpNone: pcap.LinkRaw} {
		got, ok := linkOf(kind)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := linkOf(801)
	require.False(t, ok)
	_, err := listen("no-such", 8)
	require.ErrorContains(t, err, `interface "no-such"`)
}

// What the kernel says of XDP at an interface.
func TestXDPMode(t *testing.T) {
	attr := func(typ uint16, v ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(v)))
		b = append(binary.NativeEndian.AppendUint16(b, typ), v...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	require.EqualValues(t, 2, xdpMode(append(attr(9, 1, 2, 3), attr(unix.IFLA_XDP_ATTACHED, 2)...)))
	require.Zero(t, xdpMode(attr(unix.IFLA_XDP_ATTACHED, 0)))
	for _, bad := range [][]byte{nil, {1}, {3, 0, 2, 0}, {9, 0, 2, 0, 1}, attr(9, 1)} {
		require.Zero(t, xdpMode(bad))
	}
	require.False(t, xdpAttached("no-such"))
	require.False(t, xdpAttached("lo"))
}

// With -s a frame that holds several packets becomes several frames, each with its headers, as on
// the wire.
func TestSnaplen(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		flow := ib.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
			SrcPort: 50000, DstPort: ib.UDPPort}
		head := ipv4(protoUDP, 0x4000, udpTo(4791)...)[:42]
		if v6 {
			flow.Src, flow.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
			head = ipv6(protoUDP, udpTo(4791)...)[:62]
			a, b := flow.Src.As16(), flow.Dst.As16()
			copy(head[22:], a[:])
			copy(head[38:], b[:])
		}
		binary.BigEndian.PutUint16(head[len(head)-8:], flow.SrcPort)
		icrc := ib.NewICRC(flow)
		const parts, size = 3, ib.BTHBytes + 1000 + ib.ICRCBytes
		frame := append([]byte(nil), head...)
		for i := range parts {
			p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendMiddle, PKey: ib.PKeyDefault, DestQP: 7, PSN: ib.PSN(i)}}
			b := make([]byte, size)
			p.PutHeaders(b)
			ib.PutICRC(b[size-ib.ICRCBytes:], icrc.Checksum(uint16(i), b[:size-ib.ICRCBytes]))
			frame = append(frame, b...)
		}
		body := len(frame) - len(head)
		binary.BigEndian.PutUint16(frame[len(head)-4:], uint16(8+body))
		if v6 {
			binary.BigEndian.PutUint16(frame[18:], uint16(8+body))
		} else {
			binary.BigEndian.PutUint16(frame[16:], uint16(28+body))
		}
		in, out := filepath.Join(t.TempDir(), "in.pcap"), filepath.Join(t.TempDir(), "out.pcap")
		var file bytes.Buffer
		w, err := pcap.NewWriter(&file, pcap.LinkEthernet)
		require.NoError(t, err)
		require.NoError(t, w.Write(&pcap.Frame{Link: pcap.LinkEthernet, Data: frame, WireBytes: len(frame)}))
		require.NoError(t, os.WriteFile(in, file.Bytes(), 0o600))

		got, err := dumped(t, in)
		require.NoError(t, err)
		require.Len(t, lines(got), parts)
		require.NotContains(t, got, "ICRC")
		for snap, cut := range map[string]bool{"128": true, "9000": false} {
			_, err = dumped(t, "-s", snap, "-w", out, in)
			require.NoError(t, err)
			got, err = dumped(t, "-v", out)
			require.NoError(t, err)
			require.Equal(t, parts, strings.Count(got, "RC SEND MIDDLE qp"), got)
			for _, l := range lines(got) {
				if strings.Contains(l, "SEND MIDDLE qp") {
					require.Contains(t, l, " 1000 bytes", l)
				}
			}
			if cut {
				require.Equal(t, parts, strings.Count(got, "state=unchecked"), got)
			} else {
				require.Equal(t, parts, strings.Count(got, "state=right"), got)
			}
			i, err := os.Stat(out)
			require.NoError(t, err)
			require.Equal(t, cut, i.Size() < 700)
		}
		_, err = dumped(t, "-s", "128", "-c", "2", "-w", out, in)
		require.NoError(t, err)
		got, err = dumped(t, out)
		require.NoError(t, err)
		require.Len(t, lines(got), 2)
	}
	_, err := dumped(t, "-s", "128", captures+"rping.pcap")
	require.ErrorContains(t, err, "-s goes with -w")
}

// What is 0 in all proper packets, and the bytes of the ICRC, as tshark shows them.
func TestAllFields(t *testing.T) {
	got, err := dumped(t, "-V", "-c", "1", captures+"rping.pcap")
	require.NoError(t, err)
	require.Contains(t, got, "tver=0 resv6=0x0 resv7=0x0")
	require.Contains(t, got, "resv8=0x0")
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	n := int(binary.LittleEndian.Uint32(b[24+8:]))
	icrc := binary.BigEndian.Uint32(b[24+16+n-4:])
	want := "value=0x" + strings.ToLower(hex8(icrc))
	require.Contains(t, got, want+" computed="+strings.TrimPrefix(want, "value="))

	// TVer, and a reserved bit, that are not 0: the packet is refused, and one sees why.
	bad := bytes.Clone(b[:24+16+n])
	bad[24+16+42+1] |= 5
	bad[24+16+42+4] |= 0x21
	path := filepath.Join(t.TempDir(), "bad.pcap")
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	got, err = dumped(t, "-V", path)
	require.NoError(t, err)
	require.Contains(t, got, "tver=5 resv6=33")
	got, err = dumped(t, "--json", "-V", captures+"rping.pcap", "-c", "1")
	require.NoError(t, err)
	require.Contains(t, got, `"tver":0`)
}

func hex8(n uint32) string {
	const digits = "0123456789abcdef"
	var b [8]byte
	for i := range b {
		b[i] = digits[n>>(28-4*i)&15]
	}
	return string(b[:])
}

// A link type that is not understood is told of, with what to do.
func TestStrangeLink(t *testing.T) {
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	b[20] = 240
	path := filepath.Join(t.TempDir(), "strange.pcap")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	var out, errs bytes.Buffer
	require.NoError(t, Command().Run(t.Context(), env(&out, &errs), []string{path}))
	require.Empty(t, out.String())
	require.Equal(t, "dump: 41 frames of NetAnalyzer are not understood: take the four bytes before each frame off: editcap -C 4 -T ether IN OUT\n", errs.String())
}
