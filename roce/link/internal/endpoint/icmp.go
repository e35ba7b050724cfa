package endpoint

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
)

// A router with a smaller MTU than the interface reports it by ICMP (RFC 1191, RFC 8201). The
// kernel ignores that, because it knows no socket with the ports of the packet. So each address has
// a raw socket, which hears nothing else.
//
// Anyone who knows the addresses of a connection can forge such a message, and so make long packets
// be refused for as long as it is believed, as with any UDP socket. The MTU believed has a lower
// bound, as in the kernel.

// ears are the sockets that hear ICMP.
type ears []*net.IPConn

const (
	leastMTU4 = 552  // of the kernel: net.ipv4.route.min_pmtu
	leastMTU6 = 1280 // RFC 8200 5

	icmpHeadBytes   = 8
	icmpUnreachable = 3 // ICMPv4, with
	icmpFragNeeded  = 4
	icmpNoPort      = 3 // or this code, or others that say that no way leads to the host, but not
	icmpNoProtocol  = 2
	icmpSourceRoute = 5
	icmpTooBig      = 2 // ICMPv6
	icmp6NoDest     = 1 // ICMPv6, with
	icmp6NoPort     = 4 // or others, but not
	icmp6OtherScope = 2
	filterICMP      = 1 // of SOL_RAW: ICMP_FILTER
	udpHeadBytes    = 8
	ip4HeadBytes    = 20
	ip6HeadBytes    = 40
	// quoteBytes is more than is examined of a message.
	quoteBytes = 256
	// maxDeaf is how many receives in a row may fail before a socket is given up.
	maxDeaf = 100
)

// listen starts hearing. Without privileges, or if a policy forbids it, nothing is heard.
func (l *Local) listen() {
	index := l.Indexes()
	for i, a := range l.addrs {
		zone := ""
		if a.Is6() && a.IsLinkLocalUnicast() {
			k, _ := l.Hops.Link(index[i])
			zone = k.Name
		}
		network := "ip4:1"
		if a.Is6() {
			network = "ip6:58"
		}
		if c, err := net.ListenIP(network, &net.IPAddr{IP: a.AsSlice(), Zone: zone}); err == nil {
			l.ears = append(l.ears, c)
			if hearOnly(c, a.Is6()) == nil {
				l.hearing.Go(func() { l.hear(c, a) })
			}
		}
	}
}

// hearOnly makes a socket receive only messages about MTUs, and about unreachable destinations.
func hearOnly(c *net.IPConn, six bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		if !six {
			// A set bit filters out.
			set = unix.SetsockoptInt(int(fd), unix.SOL_RAW, filterICMP, -1&^(1<<icmpUnreachable))
			return
		}
		var f unix.ICMPv6Filter
		for i := range f.Data {
			f.Data[i] = math.MaxUint32
		}
		f.Data[0] &^= 1<<icmpTooBig | 1<<icmp6NoDest
		set = unix.SetsockoptICMPv6Filter(int(fd), unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &f)
	})
	return errors.Join(err, set)
}

// hear is the goroutine of a socket.
func (l *Local) hear(c io.Reader, local netip.Addr) {
	b := make([]byte, quoteBytes)
	for failed := 0; failed < maxDeaf; {
		n, err := c.Read(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			failed++ // the socket may have failed, rather than the receive
			continue
		}
		failed = 0
		read := readICMP4
		if local.Is6() {
			read = readICMP6
		} else if n >= ip4HeadBytes && b[0]>>4 == 4 {
			// For IPv4 a raw socket also gets the IP header.
			n = copy(b, b[min(int(b[0]&15)*4, n):n])
		}
		if from, to, mtu, ok := read(b[:n], l.port); ok && from == local {
			l.Hops.Narrow(to, from, mtu)
		}
		if from, back, ok := sentBack(b[:n], local.Is6(), l.port); ok && from == local {
			l.sendBack(back)
		}
	}
}

// deafen ends all hearing.
func (l *Local) deafen() (errs error) {
	for _, c := range l.ears {
		errs = errors.Join(errs, c.Close())
	}
	l.hearing.Wait()
	l.ears = nil
	return errs
}

// readICMP4 reads an ICMPv4 message. ok says that a router could not forward a UDP packet with
// these addresses, to the port, because it is longer than mtu.
func readICMP4(b []byte, port uint16) (from, to netip.Addr, mtu int, ok bool) {
	if len(b) < icmpHeadBytes+ip4HeadBytes || b[0] != icmpUnreachable || b[1] != icmpFragNeeded {
		return from, to, 0, false
	}
	mtu = int(binary.BigEndian.Uint16(b[6:]))
	ip := b[icmpHeadBytes:]
	head := int(ip[0]&15) * 4
	if ip[0]>>4 != 4 || head < ip4HeadBytes || len(ip) < head+udpHeadBytes || ip[9] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(ip[head+2:]) != port {
		return from, to, 0, false
	}
	from, to = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	return from, to, max(mtu, leastMTU4), int(binary.BigEndian.Uint16(ip[2:])) > mtu
}

// readICMP6 is readICMP4 for ICMPv6.
func readICMP6(b []byte, port uint16) (from, to netip.Addr, mtu int, ok bool) {
	if len(b) < icmpHeadBytes+ip6HeadBytes+udpHeadBytes || b[0] != icmpTooBig {
		return from, to, 0, false
	}
	mtu = int(min(binary.BigEndian.Uint32(b[4:]), math.MaxUint16))
	ip := b[icmpHeadBytes:]
	if ip[0]>>4 != 6 || ip[6] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(ip[ip6HeadBytes+2:]) != port {
		return from, to, 0, false
	}
	from, to = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	return from, to, max(mtu, leastMTU6), ip6HeadBytes+int(binary.BigEndian.Uint16(ip[4:])) > mtu
}
