package wire

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

	"github.com/goroce/goroce/cmd/internal/tool"
	lab "github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
)

// cable is two interfaces, and the lab's switch between them for RoCE packets. Other frames pass beside it.
type cable struct {
	sw       *lab.Switch
	ends     [2]*end
	rules    []*lab.RuleText
	warnings []string
	failed   chan error
	wg       sync.WaitGroup
}

// end is an interface: an AF_PACKET socket that tells, and is told, what the kernel or the card has left undone of a frame: its
// checksum, and its division into packets (struct virtio_net_hdr).
type end struct {
	name string
	conn *os.File
	fd   int
	peer *end
	port *lab.Port

	other, otherLost, segmented, lost, tooLong atomic.Int64
	drops                                      atomic.Int64
}

// flagLRO is ETH_FLAG_LRO of linux/ethtool.h.
const flagLRO = 1 << 15

// socketBytes is the receive buffer: what comes while the other end is busy.
const socketBytes = 1 << 25

// join opens both interfaces.
func join(names []string, rules []*lab.RuleText) (*cable, error) {
	c := &cable{sw: lab.New(), rules: rules, failed: make(chan error, 2)}
	for i, name := range names {
		e := &end{name: name}
		err := inNamespace(name, func(iface string) error { return c.open(e, iface) })
		if err != nil {
			return nil, errors.Join(fmt.Errorf("interface %s: %w", name, err), c.close())
		}
		c.ends[i] = e
	}
	for i, e := range c.ends {
		e.peer = c.ends[1-i]
		var err error
		if e.port, err = c.sw.AttachFunc(e.name, e.deliver); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	for _, r := range rules {
		c.sw.Add(r.Rule)
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
func (c *cable) open(e *end, iface string) error {
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
				c.warnings = append(c.warnings, fmt.Sprintf("%s has the address %v: this machine answers there, too: ip addr flush dev %s", e.name, n.IP, iface))
			}
		}
	}
	if flags, err := tool.Ethtool(iface, unix.ETHTOOL_GFLAGS); err == nil && flags&flagLRO != 0 {
		return fmt.Errorf("it merges what it receives, and nobody can take that apart again: ethtool -K %s lro off", iface)
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
		{unix.PACKET_VNET_HDR, "PACKET_VNET_HDR"}, {unix.PACKET_AUXDATA, "PACKET_AUXDATA"}, {unix.PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING"},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o.option, 1); err != nil {
			return fail("setsockopt "+o.name, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: i.Index}); err != nil {
		return fail("bind", err)
	}
	// It ends with the socket.
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(i.Index), Type: unix.PACKET_MR_PROMISC}); err != nil {
		return fail("setsockopt PACKET_ADD_MEMBERSHIP", err)
	}
	e.fd, e.conn = fd, os.NewFile(uintptr(fd), iface)
	return nil
}

func htons(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

// start lets frames pass.
func (c *cable) start() {
	for _, e := range c.ends {
		c.wg.Go(func() {
			if err := e.read(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
				c.failed <- fmt.Errorf("interface %s: %w", e.name, err)
			}
		})
	}
}

// close ends it. The counters can be read still.
func (c *cable) close() (err error) {
	for _, e := range c.ends {
		if e != nil {
			_ = e.conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	c.wg.Wait()
	c.sw.Close()
	for _, e := range c.ends {
		if e != nil {
			e.missed()
			err = errors.Join(err, e.conn.Close())
			e.fd = -1
		}
	}
	return err
}

// missed is how many frames the kernel had no room for.
func (e *end) missed() int64 {
	if e.fd >= 0 {
		if s, err := unix.GetsockoptTpacketStats(e.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			e.drops.Add(int64(s.Drops)) // reading sets them to 0
		}
	}
	return e.drops.Load()
}

// read takes frames until the deadline.
func (e *end) read() error {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return err
	}
	buf, oob := make([]byte, vnetBytes+tagBytes+lab.MaxFrame+(1<<18)), make([]byte, 256)
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
			return fmt.Errorf("a frame holds several packets in a way that this kernel does not tell: on the sender: ethtool -K %s tx-udp-segmentation off", bare(e.name))
		case recvErr != nil:
			return os.NewSyscallError("recvmsg", recvErr)
		case n > vnetBytes+ethBytes:
			e.frame(putTag(buf, n, oob[:oobn]))
		}
	}
}

// frame takes a frame with its vnet header.
func (e *end) frame(b []byte) {
	h, f := vnet(b[:vnetBytes]), b[vnetBytes:]
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
		e.port.Enter(p)
	}
}

// deliver sends a RoCE packet, whole.
func (e *end) deliver(f []byte) {
	if !e.send(append(make([]byte, vnetBytes, vnetBytes+len(f)), f...)) {
		e.lost.Add(1)
	}
}

// send sends a frame with its vnet header, and reports whether the interface took it.
func (e *end) send(b []byte) bool {
	for {
		_, err := unix.Write(e.fd, b)
		switch {
		case err == nil:
			return true
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN): // the send buffer is full
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}, sendMs); n > 0 || errors.Is(err, unix.EINTR) {
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
