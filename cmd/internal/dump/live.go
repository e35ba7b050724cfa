package dump

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/pcap"
)

// live reads frames from an interface: an AF_PACKET socket with a ring, which needs CAP_NET_RAW. A
// filter in the kernel lets no frame in that cannot hold RoCE, or say something about it.
type live struct {
	ring
	frames int
	link   pcap.LinkType
	lo     bool
	idle   func() error // before it waits
	tagged []byte
}

const (
	// pollMs is how long a wait for frames lasts before the context is looked at again.
	pollMs = 100
	// The kernel gives a block of the ring to its reader when it is full, or after blockMs.
	blockBytes = 1 << 20
	ringMiB    = 256 // by default
	blockMs    = 20
)

// Types of interfaces (linux/if_arp.h).
const (
	arpEthernet = 1
	arpLoopback = 772
	arpTunnel   = 768
	arpTunnel6  = 769
	arpSIT      = 776
	arpGRE      = 778
	arpNone     = 65534
)

// linkOf is how the frames of a kind of interface begin.
func linkOf(kind uint16) (pcap.LinkType, bool) {
	switch kind {
	case arpEthernet, arpLoopback:
		return pcap.LinkEthernet, true
	case arpNone, arpTunnel, arpTunnel6, arpSIT, arpGRE:
		return pcap.LinkRaw, true
	}
	return 0, false
}

// kindOf asks for the kind of an interface.
func kindOf(name string) (uint16, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFHWADDR, ifr); err != nil {
		return 0, os.NewSyscallError("ioctl SIOCGIFHWADDR", err)
	}
	return ifr.Uint16(), nil
}

// listen opens the interface.
func listen(name string, mib int) (*live, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	kind, err := kindOf(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	link, ok := linkOf(kind)
	if !ok {
		return nil, fmt.Errorf("interface %q is of kind %d, whose frames are not understood: capture on the interface below or above it that has Ethernet or IP", name, kind)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("capturing on an interface needs CAP_NET_RAW (sudo setcap cap_net_raw+ep roce, or root); what a goroce device sends and receives it writes itself without, with --trace: %w",
				os.NewSyscallError("socket", err))
		}
		return nil, os.NewSyscallError("socket", err)
	}
	l := &live{ring: ring{fd: fd}, link: link, lo: i.Flags&net.FlagLoopback != 0}
	fail := func(what string, err error) (*live, error) {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), l.close())
	}
	if err := attach(fd, rocePackets(link)); err != nil {
		return fail("setsockopt SO_ATTACH_FILTER", err)
	}
	if l.lo {
		// What is sent comes once more, as received. Kernels before 5.0 do not have the option: see
		// next.
		_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	}
	if err := l.open(blockBytes, mib, blockMs); err != nil {
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%d MiB of memory for frames (less with -B): %w", mib, err)
		}
		return fail("ring of AF_PACKET", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: i.Index}); err != nil {
		return fail("bind", err)
	}
	return l, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// next waits for a frame, which is valid until the next one is asked for.
func (l *live) next(ctx context.Context, f *pcap.Frame) error {
	for {
		h := l.frame()
		if h == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			if l.idle != nil {
				if err := l.idle(); err != nil {
					return err
				}
			}
			poll := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN | unix.POLLERR}}
			if _, err := unix.Poll(poll, pollMs); err != nil && !errors.Is(err, unix.EINTR) {
				return os.NewSyscallError("poll", err)
			}
			if poll[0].Revents&unix.POLLERR != 0 {
				if no, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && no != 0 {
					return fmt.Errorf("the interface: %w", unix.Errno(no))
				}
			}
			continue
		}
		dir := pcap.In
		if h.outgoing() {
			if l.lo {
				continue // it comes once more, as received
			}
			dir = pcap.Out
		}
		if l.lo {
			dir = pcap.Unknown
		}
		data, n := h.data(), h.wireBytes()
		if tci, tpid, ok := h.vlan(); ok && l.link == pcap.LinkEthernet && len(data) >= 12 {
			// The card or the kernel has taken the tag out.
			l.tagged = append(append(l.tagged[:0], data[:12]...), byte(tpid>>8), byte(tpid), byte(tci>>8), byte(tci))
			l.tagged = append(l.tagged, data[12:]...)
			data, n = l.tagged, n+4
		}
		if len(data) > pcap.MaxRecordBytes {
			data = data[:pcap.MaxRecordBytes]
		}
		l.frames++
		*f = pcap.Frame{Number: l.frames, AtNs: h.at(), Link: l.link, Dir: dir, Data: data, WireBytes: n}
		return nil
	}
}

// ringFrame is a frame in the ring, from its header (struct tpacket3_hdr) on.
type ringFrame []byte

var ne = binary.NativeEndian

// Offsets in the header.
const (
	frameNext   = 0
	frameSec    = 4
	frameNsec   = 8
	frameSnap   = 12
	frameLen    = 16
	frameStatus = 20
	frameMAC    = 24 // 16 bits
	frameTCI    = 32
	frameTPID   = 36 // 16 bits
	frameAddr   = 48 // struct sockaddr_ll
	addrPkttype = 10
)

func (h ringFrame) at() int64 {
	return int64(ne.Uint32(h[frameSec:]))*1e9 + int64(ne.Uint32(h[frameNsec:]))
}
func (h ringFrame) wireBytes() int { return int(ne.Uint32(h[frameLen:])) }
func (h ringFrame) outgoing() bool { return h[frameAddr+addrPkttype] == unix.PACKET_OUTGOING }

func (h ringFrame) data() []byte {
	mac, n := int(ne.Uint16(h[frameMAC:])), int(ne.Uint32(h[frameSnap:]))
	return h[mac : mac+n]
}

func (h ringFrame) vlan() (tci, tpid uint16, ok bool) {
	status := ne.Uint32(h[frameStatus:])
	tpid = 0x8100
	if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = ne.Uint16(h[frameTPID:])
	}
	return uint16(ne.Uint32(h[frameTCI:])), tpid, status&unix.TP_STATUS_VLAN_VALID != 0
}

// dropped is how many frames the ring had no room for.
func (l *live) dropped() int {
	s, err := unix.GetsockoptTpacketStatsV3(l.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int(s.Drops)
}
