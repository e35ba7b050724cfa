package packet

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/stretchr/testify/require"
)

// preparedPath is a path with a neighbour, without a kernel.
func preparedPath(src, dst string, vlan uint16) *path {
	p := &path{Path: transmit.Path{Flow: frame.Flow{
		Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SrcPort: 0xC001, DstPort: ib.UDPPort,
		TrafficClass: 0x6A, HopLimit: 44, FlowLabel: 0xABCDE, VLAN: vlan,
	}}}
	p.prepare(&nexthop.State{
		Status: nexthop.Ready, Index: 3, MTU: 4200,
		Src: rtnl.MAC{2, 0, 0, 0, 0, 1}, Dst: rtnl.MAC{2, 0, 0, 0, 0, 2},
	})
	return p
}

// What Fill writes, parseFrame reads.
func TestHeadRoundTrip(t *testing.T) {
	for _, a := range [][2]string{{"10.1.2.3", "10.255.254.253"}, {"2001:db8::1", "2001:db8:ffff::2"}} {
		for _, segment := range []int{0, 300, 1016} {
			p := preparedPath(a[0], a[1], 0)
			for _, size := range []int{16, 300, 1016, 4116, 60_000} {
				if segment == 0 && size > ib.MaxPacketBytes {
					continue
				}
				b := make([]byte, p.route.Front+size+5) // with trailing bytes, as short frames have
				p.Fill(&unix.Msghdr{}, b, nil, size, segment)
				var d receive.Datagram
				require.True(t, parseFrame(&d, b, true, ib.UDPPort))
				require.Equal(t, link.Source{Src: p.Flow.Src, Dst: p.Flow.Dst, SrcPort: 0xC001}, d.Source)
				require.Len(t, d.Data, size)
				require.Equal(t, segment, d.Segment)
				require.EqualValues(t, 0x6A, d.TrafficClass)
				require.EqualValues(t, 44, d.HopLimit)
				require.Zero(t, d.Ident)

				ip := b[vnetBytes+frame.EthernetBytes:]
				pseudo := ip[8:][:32]
				udp := ip[40:]
				if p.Flow.Dst.Is4() {
					require.EqualValues(t, 0xFFFF, ib.InternetSum(0, ip[:20]), "header checksum")
					pseudo, udp = ip[12:20], ip[20:]
				}
				if segment == 0 {
					require.Equal(t, make([]byte, vnetBytes), b[:vnetBytes])
					require.Zero(t, binary.BigEndian.Uint16(udp[6:]))
					continue
				}
				require.EqualValues(t, unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, b[0])
				require.EqualValues(t, segment, native.Uint16(b[4:]))
				start := native.Uint16(b[6:])
				require.Equal(t, udp[0:2], b[vnetBytes:][start:start+2], "csum_start is the UDP header")
				require.Equal(t, ib.InternetSum(unix.IPPROTO_UDP+uint32(size+8), pseudo),
					binary.BigEndian.Uint16(udp[6:]))
			}
		}
	}
}

// Every truncation of a good frame is refused.
func TestParseTruncated(t *testing.T) {
	for _, a := range [][2]string{{"10.1.2.3", "10.1.2.4"}, {"2001:db8::1", "2001:db8::2"}} {
		p := preparedPath(a[0], a[1], 0)
		b := make([]byte, p.route.Front+100)
		p.Fill(&unix.Msghdr{}, b, nil, 100, 0)
		var d receive.Datagram
		for n := range b {
			require.False(t, parseFrame(&d, b[:n], true, ib.UDPPort), "%d bytes", n)
		}
		require.True(t, parseFrame(&d, b, true, ib.UDPPort))
		require.True(t, parseFrame(&d, b[vnetBytes:], false, ib.UDPPort))
		require.False(t, parseFrame(&d, b, true, 1))
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, a := range [][2]string{{"10.1.2.3", "10.1.2.4"}, {"2001:db8::1", "2001:db8::2"}} {
		p := preparedPath(a[0], a[1], 0)
		b := make([]byte, p.route.Front+3000)
		p.Fill(&unix.Msghdr{}, b, nil, 3000, 1000)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, vnet := range []bool{false, true} {
			var d receive.Datagram
			if !parseFrame(&d, b, vnet, ib.UDPPort) {
				continue
			}
			require.LessOrEqual(t, len(d.Data), len(b))
			require.True(t, d.Source.Src.IsValid() && d.Source.Dst.IsValid())
			require.True(t, vnet || d.Segment == 0)
		}
	})
}

// The filter of very many addresses still is a program that the kernel takes:
// at most 4096 instructions, all jumps inside.
func TestFilterSize(t *testing.T) {
	for _, ip6 := range []bool{false, true} {
		c := filterConfig{ip6: ip6, port: ib.UDPPort, vlan: 5}
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
		// The kernel checks it, too, and has room for one and the next; a UDP socket takes the same
		// programs.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, f.attach(fd))
		}
		require.NoError(t, unix.Close(fd))
	}
}
