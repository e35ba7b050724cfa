package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

const (
	arpBytes    = 28
	arpRequest  = 1
	arpReply    = 2
	arpEthernet = 1

	arpAsked = 3                      // questions
	arpWait  = 100 * time.Millisecond // for answers to each
)

// owners asks the network of an interface who has an IPv4 address, and returns the MAC addresses of
// those that answer, without this machine. It asks as one does who has no address yet, so that
// nobody's table changes (RFC 5227). The error is unix.EPERM without CAP_NET_RAW.
func owners(ctx context.Context, f *Interface, a netip.Addr) (macs []string, err error) {
	ifc, err := net.InterfaceByIndex(f.Index)
	if err != nil {
		return nil, err
	}
	if len(ifc.HardwareAddr) != 6 {
		return nil, nil // no Ethernet
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		int(htons(unix.ETH_P_ARP)))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	at := unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: f.Index, Halen: 6}
	if err := unix.Bind(fd, &at); err != nil {
		return nil, err
	}
	everyone := at
	copy(everyone.Addr[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	ask := arpQuestion(ifc.HardwareAddr, a)
	for range arpAsked {
		if err := unix.Sendto(fd, ask, 0, &everyone); err != nil {
			return nil, err
		}
		for until := time.Now().Add(arpWait); ; {
			left := time.Until(until)
			if left <= 0 {
				break
			}
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
				return nil, err
			}
			buf := make([]byte, 128)
			n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
			if err != nil {
				continue // none, or the interface is gone, which the next question says
			}
			if mac, ok := arpAnswer(buf[:n], a); ok && mac != ifc.HardwareAddr.String() && !slices.Contains(macs, mac) {
				macs = append(macs, mac)
			}
		}
	}
	return macs, nil
}

func htons(n uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)) }

// arpQuestion asks who has an address.
func arpQuestion(mac net.HardwareAddr, a netip.Addr) []byte {
	b := make([]byte, arpBytes)
	binary.BigEndian.PutUint16(b, arpEthernet)
	binary.BigEndian.PutUint16(b[2:], unix.ETH_P_IP)
	b[4], b[5] = 6, 4
	binary.BigEndian.PutUint16(b[6:], arpRequest)
	copy(b[8:], mac)
	ip := a.As4()
	copy(b[24:], ip[:])
	return b
}

// arpAnswer returns who says that it has an address: in an answer, or in an announcement.
func arpAnswer(b []byte, a netip.Addr) (mac string, ok bool) {
	if len(b) < arpBytes || binary.BigEndian.Uint16(b[2:]) != unix.ETH_P_IP || b[4] != 6 || b[5] != 4 {
		return "", false
	}
	if op := binary.BigEndian.Uint16(b[6:]); op != arpReply && op != arpRequest ||
		netip.AddrFrom4([4]byte(b[14:18])) != a {
		return "", false
	}
	return net.HardwareAddr(b[8:14]).String(), true
}
