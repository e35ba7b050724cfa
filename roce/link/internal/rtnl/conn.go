package rtnl

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// receiveBytes holds any answer; the kernel fills at most 32 KiB at a time.
	receiveBytes = 64 << 10
	// answerTimeoutSec bounds the wait for an answer, which the kernel has ready
	// when the request returns.
	answerTimeoutSec = 2
)

// Conn is a socket for queries.
type Conn struct {
	fd  int
	seq uint32
	buf []byte
}

// Dial opens a socket for queries.
func Dial() (*Conn, error) {
	fd, err := openSocket(unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	tv := unix.Timeval{Sec: answerTimeoutSec}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt SO_RCVTIMEO", err)
	}
	return &Conn{fd: fd, buf: make([]byte, receiveBytes)}, nil
}

func openSocket(flags int, groups uint32) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|flags, unix.NETLINK_ROUTE)
	if err != nil {
		return -1, os.NewSyscallError("socket netlink", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("bind netlink", err)
	}
	return fd, nil
}

// Close closes the socket.
func (c *Conn) Close() error { return os.NewSyscallError("close", unix.Close(c.fd)) }

// do sends a request and calls f for each message of the answer. The error is
// an errno if the kernel refused.
func (c *Conn) do(m message, f func(typ uint16, body []byte)) error {
	c.seq++
	if err := unix.Sendto(c.fd, m.finish(c.seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto netlink", err)
	}
	for {
		n, from, err := unix.Recvfrom(c.fd, c.buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("recvfrom netlink", err)
		}
		if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid != 0 {
			continue // not from the kernel
		}
		done, result := false, error(nil)
		messages(c.buf[:n], func(h header, body []byte) bool {
			if h.seq != c.seq {
				return true // late answer to a request that timed out
			}
			switch {
			case h.typ == unix.NLMSG_DONE:
				done = true
			case h.typ == unix.NLMSG_ERROR:
				done = true
				if len(body) >= 4 {
					if e := -int32(native.Uint32(body)); e != 0 {
						result = unix.Errno(e)
					}
				}
			default:
				f(h.typ, body)
				done = h.flags&unix.NLM_F_MULTI == 0 && native.Uint16(m[6:])&unix.NLM_F_ACK == 0
			}
			return !done
		})
		if done {
			return result
		}
	}
}

// ErrNoAnswer is returned when the kernel answers with something else.
var ErrNoAnswer = errors.New("rtnl: unexpected answer of the kernel")

// Links returns all interfaces.
func (c *Conn) Links() ([]Link, error) {
	var links []Link
	m := newMessage(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.SizeofIfInfomsg)
	err := c.do(m, func(typ uint16, body []byte) {
		if l, ok := parseLink(body); ok && typ == unix.RTM_NEWLINK {
			links = append(links, l)
		}
	})
	return links, err
}

// Addresses returns all local addresses.
func (c *Conn) Addresses() ([]Address, error) {
	var addrs []Address
	m := newMessage(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.SizeofIfAddrmsg)
	err := c.do(m, func(typ uint16, body []byte) {
		if a, ok := parseAddress(body); ok && typ == unix.RTM_NEWADDR {
			addrs = append(addrs, a)
		}
	})
	return addrs, err
}

// Route asks which way packets of protocol UDP from src go to dst. index, if
// not 0, is the interface to leave by. The error is an errno such as
// ENETUNREACH if there is no way.
func (c *Conn) Route(dst, src netip.Addr, index int) (Route, error) {
	m := newMessage(unix.RTM_GETROUTE, 0, unix.SizeofRtMsg)
	f := m.fixed()
	f[0] = family(dst)
	f[1], f[2] = byte(dst.BitLen()), byte(src.BitLen())
	m = m.attr(unix.RTA_DST, dst.AsSlice()).attr(unix.RTA_SRC, src.AsSlice())
	if index != 0 {
		m = m.attr32(unix.RTA_OIF, uint32(index))
	}
	r, ok := Route{}, false
	err := c.do(m, func(typ uint16, body []byte) {
		if typ == unix.RTM_NEWROUTE {
			r, ok = parseRoute(body)
		}
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	return r, err
}

// Neighbour looks up an entry of the neighbour table; ENOENT if there is none.
func (c *Conn) Neighbour(k NeighbourKey) (Neighbour, error) {
	m := neighbourMessage(unix.RTM_GETNEIGH, 0, k)
	n, ok := Neighbour{}, false
	err := c.do(m, func(typ uint16, body []byte) {
		if typ == unix.RTM_NEWNEIGH {
			n, ok = parseNeighbour(body)
		}
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	return n, err
}

// Probe makes the kernel resolve or confirm a neighbour, as if it had a packet
// for it. It needs CAP_NET_ADMIN.
func (c *Conn) Probe(k NeighbourKey) error {
	m := neighbourMessage(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK, k)
	m.fixed()[10] = unix.NTF_USE
	return c.do(m, func(uint16, []byte) {})
}

func neighbourMessage(typ, flags uint16, k NeighbourKey) message {
	m := newMessage(typ, flags, unix.SizeofNdMsg)
	f := m.fixed()
	f[0] = family(k.Addr)
	native.PutUint32(f[4:], uint32(k.Index))
	return m.attr(unix.NDA_DST, k.Addr.AsSlice())
}
