package wirelink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/ib"
)

// A Cable makes a switch the cable between two Ethernet interfaces of this machine: what comes by the one leaves by the other,
// unless a rule of the switch says something else. So two devices of other machines that are plugged into this one are
// peers, with this program between them.
//
// The interfaces must be up, and must not be joined in any other way, by a bridge or by routing. The kernel still has them: frames for
// their own addresses are the kernel's, and are not passed on.
type Cable struct{ ends [2]*nic }

// NewCable opens the two interfaces and puts them at the ports Near and Far of the switch, which closes them. It needs CAP_NET_RAW.
func NewCable(sw *wire.Switch, near, far string) (*Cable, error) {
	if near == far {
		return nil, fmt.Errorf("wirelink: a cable between %s and itself", near)
	}
	c := new(Cable)
	for i, name := range []string{near, far} {
		n, err := openNIC(name)
		if err == nil {
			if _, err = sw.Attach([]string{Near, Far}[i], n); err != nil {
				err = errors.Join(err, n.Close())
			}
		}
		if err != nil { // the switch closes the other one
			return nil, fmt.Errorf("wirelink: interface %s: %w", name, err)
		}
		c.ends[i] = n
	}
	return c, nil
}

// Dropped counts frames that could not be passed on: those that a sender's kernel has put together from several packets, and those
// that the interface on the other side did not take.
func (c *Cable) Dropped() (together, refused uint64) {
	for _, n := range c.ends {
		together += n.together.Load()
		refused += n.refused.Load()
	}
	return together, refused
}

// nic is an interface whose frames are read and written whole.
type nic struct {
	f                 *os.File
	mac               net.HardwareAddr
	buf               []byte // of Read
	together, refused atomic.Uint64
}

// The virtio header that the kernel puts before each frame: flags, kind of segmentation, its length of headers and of a
// segment, where a checksum is to be computed from, and where it goes. In the byte order of the machine.
const (
	virtioBytes     = 10
	virtioNeedsSum  = 1
	virtioGSONone   = 0
	virtioSumFrom   = 6
	virtioSumOffset = 8
)

// nicBuffer is the size of the sockets' buffers to ask for.
const nicBuffer = 8 << 20

func openNIC(name string) (*nic, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if len(ifi.HardwareAddr) != 6 || ifi.Flags&net.FlagLoopback != 0 {
		return nil, errors.New("not an Ethernet interface")
	}
	if ifi.Flags&net.FlagUp == 0 {
		return nil, errors.New("is not up")
	}
	// Without a protocol nothing comes before the socket is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), name)
	for _, o := range []struct{ name, value int }{{unix.PACKET_VNET_HDR, 1}, {unix.PACKET_IGNORE_OUTGOING, 1}} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o.name, o.value); err != nil {
			return nil, errors.Join(os.NewSyscallError("setsockopt", err), f.Close())
		}
	}
	for _, o := range []int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, nicBuffer) // what is there must do without the privilege
	}
	member := unix.PacketMreq{Ifindex: int32(ifi.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt PACKET_ADD_MEMBERSHIP", err), f.Close())
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: ifi.Index}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), f.Close())
	}
	return &nic{f: f, mac: ifi.HardwareAddr, buf: make([]byte, virtioBytes+wire.MaxFrame)}, nil
}

// bigEndian is a number as the network has it.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// Read returns the next frame that is for others than this machine's kernel.
func (n *nic) Read(b []byte) (int, error) {
	for {
		k, err := n.f.Read(n.buf)
		if errors.Is(err, unix.ENETDOWN) {
			continue // it has been said once; the interface may come back
		}
		if err != nil {
			return 0, err
		}
		if frame := n.passable(n.buf[:k]); frame != nil {
			return copy(b, frame), nil
		}
	}
}

// passable is the frame behind a virtio header, whole and with its checksum; nil if it is not to be passed on.
func (n *nic) passable(b []byte) []byte {
	if len(b) < virtioBytes+ethBytes {
		return nil
	}
	head, frame := b[:virtioBytes], b[virtioBytes:]
	switch to := frame[:6]; {
	case bytes.Equal(to, n.mac), bytes.HasPrefix(to, []byte{1, 0x80, 0xc2, 0, 0}): // ours, or between neighbours only
		return nil
	case head[1] != virtioGSONone:
		n.together.Add(1)
		return nil
	}
	if head[0]&virtioNeedsSum != 0 {
		from := int(binary.NativeEndian.Uint16(head[virtioSumFrom:]))
		at := from + int(binary.NativeEndian.Uint16(head[virtioSumOffset:]))
		if from > len(frame) || at+2 > len(frame) {
			return nil
		}
		// The field has the sum of the pseudo header by now.
		sum := ^ib.InternetSum(0, frame[from:])
		if sum == 0 {
			sum = 0xffff // 0 is "none" of UDP
		}
		binary.BigEndian.PutUint16(frame[at:], sum)
	}
	return frame
}

// Write sends a frame. One that the interface does not take is lost, as on any cable.
func (n *nic) Write(frame []byte) (int, error) {
	b := append(make([]byte, virtioBytes, virtioBytes+len(frame)), frame...)
	if _, err := n.f.Write(b); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return 0, err
		}
		n.refused.Add(1)
	}
	return len(frame), nil
}

func (n *nic) Close() error { return n.f.Close() }
