package switchlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
)

// A Cable joins two Ethernet interfaces of this machine, with a switch between them for RoCE
// packets: what comes by the one leaves by the other, unless a rule of the switch says something
// else. Other frames pass beside it.
//
// The interfaces must be up, and not be joined in any other way, by a bridge or by routing. The
// kernel still has them: frames for their own addresses are the kernel's, and are not passed on.
type Cable struct {
	Ends     [2]*End
	Warnings []string // what may go wrong
	failed   chan error
	wg       sync.WaitGroup
}

// End is an interface: an AF_PACKET socket.
type End struct {
	Name string
	Port *ether.Port

	mac  [6]byte
	conn *os.File
	fd   int
	peer *End

	other, otherLost, segmented, lost, tooLong atomic.Int64
	drops                                      atomic.Int64
}

// EndStats counts what the switch's port does not.
type EndStats struct {
	Segmented        int64 // RoCE packets that came in frames of several
	Other, OtherLost int64 // other frames that came, and that this interface did not take
	Lost, TooLong    int64 // RoCE packets that this interface did not take, and frames that are longer than its MTU
	Missed           int64 // frames that the kernel had no room for
}

// Stats returns the counters.
func (e *End) Stats() EndStats {
	return EndStats{e.segmented.Load(), e.other.Load(), e.otherLost.Load(), e.lost.Load(), e.tooLong.Load(), e.missed()}
}

// flagLRO is ETH_FLAG_LRO of linux/ethtool.h.
const flagLRO = 1 << 15

// socketBytes is the receive buffer: what comes while the other end is busy.
const socketBytes = 1 << 25

// NewCable opens both interfaces and puts them at ports of the switch. A name may be NAME@NETNS: of
// a network namespace that ip-netns knows, or that has this path. It needs CAP_NET_RAW, and
// CAP_SYS_ADMIN for another namespace.
func NewCable(sw *ether.Switch, names, ports [2]string) (*Cable, error) {
	if names[0] == names[1] {
		return nil, fmt.Errorf("a cable between %s and itself", names[0])
	}
	c := &Cable{failed: make(chan error, 2)}
	for i, name := range names {
		e := &End{Name: name}
		err := inNamespace(name, func(iface string) error { return c.open(e, iface) })
		if err != nil {
			return nil, errors.Join(fmt.Errorf("interface %s: %w", name, err), c.Close())
		}
		c.Ends[i] = e
	}
	for i, e := range c.Ends {
		e.peer = c.Ends[1-i]
		var err error
		if e.Port, err = sw.AttachFunc(ports[i], e.deliver); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// inNamespace runs f where NAME@NETNS is, with NAME.
func inNamespace(name string, f func(iface string) error) error {
	iface, ns, other := strings.Cut(name, "@")
	if !other {
		return f(iface)
	}
	if !strings.Contains(ns, "/") {
		ns = "/run/netns/" + ns
	}
	there, err := netns.Open(ns)
	if err != nil {
		return err
	}
	defer there.Close()
	var failed error
	if err := there.Do(func() { failed = f(iface) }); err != nil {
		return err
	}
	return failed
}

// open opens an interface, and looks whether it can be one end of a cable.
func (c *Cable) open(e *End, iface string) error {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return err
	}
	switch {
	case len(i.HardwareAddr) != 6:
		return errors.New("it has no Ethernet frames")
	case i.Flags&net.FlagUp == 0:
		return fmt.Errorf("it is switched off: ip link set %s up", iface)
	}
	if addrs, err := i.Addrs(); err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				c.Warnings = append(c.Warnings, fmt.Sprintf(
					"%s has the address %v: this machine answers there, too: ip addr flush dev %s",
					e.Name, n.IP, iface))
			}
		}
	}
	if flags, err := unix.Ethtool(iface, unix.ETHTOOL_GFLAGS); err == nil && flags&flagLRO != 0 {
		return fmt.Errorf(
			"it merges what it receives, and nobody can take that apart again: ethtool -K %s lro off", iface)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return fmt.Errorf("it needs CAP_NET_RAW: %w", os.NewSyscallError("socket", err))
		}
		return os.NewSyscallError("socket", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBytes)
	}
	fail := func(what string, err error) error {
		return errors.Join(os.NewSyscallError(what, err), unix.Close(fd))
	}
	for _, o := range []struct {
		option int
		name   string
	}{
		{unix.PACKET_VNET_HDR, "PACKET_VNET_HDR"},
		{unix.PACKET_AUXDATA, "PACKET_AUXDATA"},
		{unix.PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING"},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o.option, 1); err != nil {
			return fail("setsockopt "+o.name, err)
		}
	}
	if err := unix.Bind(fd,
		&unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: i.Index}); err != nil {
		return fail("bind", err)
	}
	// It ends with the socket.
	member := unix.PacketMreq{Ifindex: int32(i.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		return fail("setsockopt PACKET_ADD_MEMBERSHIP", err)
	}
	e.fd, e.mac, e.conn = fd, [6]byte(i.HardwareAddr), os.NewFile(uintptr(fd), iface)
	return nil
}

// bigEndian is a number as the network has it.
func bigEndian(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// Start lets frames pass.
func (c *Cable) Start() {
	for _, e := range c.Ends {
		c.wg.Go(func() {
			for {
				err := e.read()
				if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
					return
				}
				select {
				case c.failed <- fmt.Errorf("interface %s: %w", e.Name, err):
				default: // it is told of already
				}
				if !errors.Is(err, unix.ENETDOWN) {
					return
				}
			}
		})
	}
}

// Failed tells when an interface has failed, or has been switched off; that may come back.
func (c *Cable) Failed() <-chan error { return c.failed }

// Close ends it; the switch stays open. The counters can be read still.
func (c *Cable) Close() (err error) {
	for _, e := range c.Ends {
		if e != nil {
			_ = e.conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	c.wg.Wait()
	for _, e := range c.Ends {
		if e != nil {
			if e.Port != nil {
				e.Port.Detach()
			}
			e.missed()
			err = errors.Join(err, e.conn.Close())
			e.fd = -1
		}
	}
	return err
}

// missed is how many frames the kernel had no room for.
func (e *End) missed() int64 {
	if e.fd >= 0 {
		if s, err := unix.GetsockoptTpacketStats(e.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			e.drops.Add(int64(s.Drops)) // reading sets them to 0
		}
	}
	return e.drops.Load()
}

// read takes frames until the deadline.
func (e *End) read() error {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return err
	}
	buf, oob := make([]byte, vnetBytes+tagBytes+ether.MaxFrame+(1<<18)), make([]byte, 256)
	for {
		var n, oobn int
		var recvErr error
		if err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, recvErr = unix.Recvmsg(int(fd), buf[:len(buf)-tagBytes], oob, 0)
			return !errors.Is(recvErr, unix.EAGAIN)
		}); err != nil {
			return err
		}
		switch {
		case errors.Is(recvErr, unix.EINTR):
		case errors.Is(recvErr, unix.EINVAL):
			return fmt.Errorf("a frame holds several packets in a way that this kernel does not tell: on the sender: "+
				"ethtool -K %s tx-udp-segmentation off", Bare(e.Name))
		case recvErr != nil:
			return os.NewSyscallError("recvmsg", recvErr)
		case n > vnetBytes+ethBytes:
			e.frame(putTag(buf, n, oob[:oobn]))
		}
	}
}

// frame takes a frame with its vnet header.
func (e *End) frame(b []byte) {
	h, f := vnet(b[:vnetBytes]), b[vnetBytes:]
	if [6]byte(f) == e.mac {
		return
	}
	packets := h.packets(f)
	if packets == nil {
		e.other.Add(1)
		if !e.peer.send(b) {
			e.peer.otherLost.Add(1)
		}
		return
	}
	if len(packets) > 1 {
		e.segmented.Add(int64(len(packets)))
	}
	for _, p := range packets {
		e.Port.Enter(p)
	}
}

// deliver sends a RoCE packet, whole.
func (e *End) deliver(f []byte) {
	if !e.send(append(make([]byte, vnetBytes, vnetBytes+len(f)), f...)) {
		e.lost.Add(1)
	}
}

// send sends a frame with its vnet header, and reports whether the interface took it.
func (e *End) send(b []byte) bool {
	for {
		_, err := unix.Write(e.fd, b)
		switch {
		case err == nil:
			return true
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN): // the send buffer is full
			room := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}
			if n, err := unix.Poll(room, sendMs); n > 0 || errors.Is(err, unix.EINTR) {
				continue
			}
		case errors.Is(err, unix.EMSGSIZE):
			e.tooLong.Add(1)
		}
		return false // or the interface is down, or has no room
	}
}

// sendMs is how long there may be no room to send.
const sendMs = 100

// Bare is the name of an interface without its namespace.
func Bare(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}
