package dump

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/goroce/goroce/roce/pcap"
	"golang.org/x/sys/unix"
)

// live reads frames from an interface: an AF_PACKET socket, which needs CAP_NET_RAW.
type live struct {
	fd     int
	frames int
	link   pcap.LinkType
	lo     bool
	buf    []byte
	oob    []byte
}

// pollMs is how long a wait for frames lasts before the context is looked at again.
const pollMs = 100

// listen opens the interface.
func listen(name string) (*live, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("capturing on an interface needs CAP_NET_RAW (sudo setcap cap_net_raw+ep roce, or root); what a goroce device sends and receives roce/link/trace writes without: %w", os.NewSyscallError("socket", err))
		}
		return nil, os.NewSyscallError("socket", err)
	}
	l := &live{fd: fd, link: pcap.LinkEthernet, lo: i.Flags&net.FlagLoopback != 0, buf: make([]byte, pcap.MaxRecordBytes), oob: make([]byte, 128)}
	fail := func(what string, err error) (*live, error) {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError(what, err)
	}
	// A burst waits here while lines are written. As root the limit of the system does not count.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<25) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<25)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fail("setsockopt SO_TIMESTAMPNS", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: i.Index}); err != nil {
		return fail("bind", err)
	}
	return l, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// next waits for a frame.
func (l *live) next(ctx context.Context, f *pcap.Frame) error {
	for {
		n, oobn, _, from, err := unix.Recvmsg(l.fd, l.buf, l.oob, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if err := ctx.Err(); err != nil {
				return err
			}
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}, pollMs)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return os.NewSyscallError("poll", err)
			}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("recvmsg", err)
		}
		dir := pcap.In
		if a, ok := from.(*unix.SockaddrLinklayer); ok && a.Pkttype == unix.PACKET_OUTGOING {
			if l.lo {
				continue // it comes once more, as received
			}
			dir = pcap.Out
		}
		if l.lo {
			dir = pcap.Unknown
		}
		l.frames++
		*f = pcap.Frame{Number: l.frames, AtNs: stamp(l.oob[:oobn]), Link: l.link, Dir: dir, Data: l.buf[:min(n, len(l.buf))], WireBytes: n}
		return nil
	}
}

// stamp is when the kernel saw a frame.
func stamp(oob []byte) int64 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range msgs {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS {
				switch len(m.Data) {
				case 16:
					return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
				case 8:
					return int64(binary.NativeEndian.Uint32(m.Data))*1e9 + int64(binary.NativeEndian.Uint32(m.Data[4:]))
				}
			}
		}
	}
	return time.Now().UnixNano()
}

// dropped is how many frames the socket had no room for.
func (l *live) dropped() int {
	s, err := unix.GetsockoptTpacketStats(l.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int(s.Drops)
}

func (l *live) close() error { return os.NewSyscallError("close", unix.Close(l.fd)) }
