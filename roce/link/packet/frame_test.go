package packet

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// preparedPath is a path with a neighbour, without a kernel.
func preparedPath(src, dst string, vlan uint16) *path {
	l := &Link{opts: Options{VLAN: vlan}, port: ib.UDPPort}
	p := &path{
		l: l, src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst), srcPort: 0xC001,
		tclass: 0x6A, ttl: 44, flow: 0xABCDE,
	}
	p.icrc = link.FlowICRC(&transport.Path{Src: p.src, Dst: p.dst}, p.srcPort, l.port)
	p.prepare(&nexthop.State{
		Status: nexthop.Ready, Index: 3, MTU: 4200,
		Src: rtnl.MAC{2, 0, 0, 0, 0, 1}, Dst: rtnl.MAC{2, 0, 0, 0, 0, 2},
	})
	return p
}

// ones adds up 16-bit words in one's complement.
func ones(b []byte) uint16 { return fold(sum16(b)) }

// What putHead writes, parseFrame reads.
func TestHeadRoundTrip(t *testing.T) {
	for _, a := range [][2]string{{"10.1.2.3", "10.255.254.253"}, {"2001:db8::1", "2001:db8:ffff::2"}} {
		for _, segment := range []int{0, 300, 1016} {
			p := preparedPath(a[0], a[1], 0)
			for _, size := range []int{16, 300, 1016, 4116, 60_000} {
				if segment == 0 && size > ib.MaxPacketBytes {
					continue
				}
				b := make([]byte, p.headLen+size+5) // with trailing bytes, as short frames have
				p.putHead(b, size, segment)
				var d datagram
				require.Equal(t, frameOK, parseFrame(&d, b, true, ib.UDPPort))
				require.Equal(t, link.Source{Src: p.src, Dst: p.dst, SrcPort: 0xC001}, d.src)
				require.Len(t, d.data, size)
				require.Equal(t, segment, d.segment)
				require.EqualValues(t, 0x6A, d.tclass)
				require.EqualValues(t, 44, d.ttl)
				require.Zero(t, d.ident)

				frame := b[vnetBytes:]
				ip := frame[ethernetBytes:]
				pseudo := sum16(frame[ethernetBytes+8:][:32])
				udp := ip[40:]
				if p.dst.Is4() {
					require.EqualValues(t, 0xFFFF, ones(ip[:20]), "header checksum")
					pseudo, udp = sum16(ip[12:20]), ip[20:]
				}
				if segment == 0 {
					require.Equal(t, make([]byte, vnetBytes), b[:vnetBytes])
					require.Zero(t, binary.BigEndian.Uint16(udp[6:]))
					continue
				}
				require.EqualValues(t, unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, b[0])
				require.EqualValues(t, segment, native.Uint16(b[4:]))
				start := native.Uint16(b[6:])
				require.Equal(t, udp[0:2], frame[start:start+2], "csum_start is the UDP header")
				require.Equal(t, fold(pseudo+unix.IPPROTO_UDP+uint32(size+8)), binary.BigEndian.Uint16(udp[6:]))
			}
		}
	}
}

// Every truncation of a good frame is refused.
func TestParseTruncated(t *testing.T) {
	for _, a := range [][2]string{{"10.1.2.3", "10.1.2.4"}, {"2001:db8::1", "2001:db8::2"}} {
		p := preparedPath(a[0], a[1], 0)
		b := make([]byte, p.headLen+100)
		p.putHead(b, 100, 0)
		var d datagram
		for n := range b {
			require.NotEqual(t, frameOK, parseFrame(&d, b[:n], true, ib.UDPPort), "%d bytes", n)
		}
		require.Equal(t, frameOK, parseFrame(&d, b, true, ib.UDPPort))
		require.Equal(t, frameOK, parseFrame(&d, b[vnetBytes:], false, ib.UDPPort))
		require.Equal(t, frameMalformed, parseFrame(&d, b, true, 1))
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, a := range [][2]string{{"10.1.2.3", "10.1.2.4"}, {"2001:db8::1", "2001:db8::2"}} {
		p := preparedPath(a[0], a[1], 0)
		b := make([]byte, p.headLen+3000)
		p.putHead(b, 3000, 1000)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, vnet := range []bool{false, true} {
			var d datagram
			if parseFrame(&d, b, vnet, ib.UDPPort) != frameOK {
				continue
			}
			require.LessOrEqual(t, len(d.data), len(b))
			require.LessOrEqual(t, d.segment, ib.MaxPacketBytes)
			require.True(t, d.src.Src.IsValid() && d.src.Dst.IsValid())
			if d.segment == 0 {
				require.LessOrEqual(t, len(d.data), ib.MaxPacketBytes)
			}
		}
	})
}

// The filter of very many addresses still is a program that the kernel takes:
// at most 4096 instructions, all jumps inside.
func TestFilterSize(t *testing.T) {
	for _, ip6 := range []bool{false, true} {
		c := filterConfig{ip6: ip6, port: ib.UDPPort, loopback: 1, vlan: 5}
		a := netip.MustParseAddr("10.0.0.1")
		if ip6 {
			a = netip.MustParseAddr("2001:db8::1")
		}
		for range 1000 {
			c.addrs = append(c.addrs, a)
			a = a.Next()
		}
		f := c.build()
		require.Less(t, len(f), 4096)
		for i, in := range f {
			switch {
			case in.Code == ja:
				require.Less(t, i+1+int(in.K), len(f))
			case in.Code&7 == unix.BPF_JMP:
				require.Less(t, i+1+int(max(in.Jt, in.Jf)), len(f))
			}
		}
		require.EqualValues(t, ret, f[len(f)-1].Code)
		// The kernel checks it, too; a UDP socket takes the same programs.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, f.attach(fd))
		require.NoError(t, unix.Close(fd))
	}
}
