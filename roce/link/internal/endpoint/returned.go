package endpoint

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
)

// returned holds datagrams to queue pair 1 of peers that came back: see link.Link.Returned.
type returned struct {
	there atomic.Bool
	mu    sync.Mutex
	queue []edge.Returned
}

// maxReturned bounds how many wait: anyone can forge them.
const maxReturned = 256

// sendBack adds one, from the hearing goroutine.
func (l *Local) sendBack(b edge.Returned) {
	r := &l.back
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) < maxReturned {
		b.Quote = slices.Clone(b.Quote)
		r.queue = append(r.queue, b)
		r.there.Store(true)
		l.Waker.Wake()
	}
}

// Returned returns one; see link.Link.
func (l *Local) Returned() (b edge.Returned) {
	r := &l.back
	if !r.there.Load() {
		return b
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.there.Store(false)
		return b
	}
	b, r.queue = r.queue[0], r.queue[1:]
	return b
}

// Unreachable reads the type and code of an ICMP message: whether it says that a datagram did not
// reach a socket, and that it did not reach the host either (RFC 792, RFC 1812 5.2.7.1, RFC 4443).
func Unreachable(kind, code byte, six bool) (noHost, ok bool) {
	if six {
		return code != icmp6NoPort, kind == icmp6NoDest && code != icmp6OtherScope
	}
	return code != icmpNoPort,
		kind == icmpUnreachable && code != icmpNoProtocol && code != icmpFragNeeded && code != icmpSourceRoute
}

// sentBack reads an ICMP message that says so, and quotes a datagram to queue pair 1. from is the
// source of that datagram.
func sentBack(b []byte, six bool, port uint16) (from netip.Addr, back edge.Returned, ok bool) {
	var to netip.Addr
	head := ip4HeadBytes
	if six {
		head = ip6HeadBytes
	}
	if len(b) < icmpHeadBytes+head {
		return from, back, false
	}
	noHost, ok := Unreachable(b[0], b[1], six)
	if !ok {
		return from, back, false
	}
	ip := b[icmpHeadBytes:]
	proto := ip[9]
	if six {
		proto = ip[6]
		from, to = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	} else {
		head = int(ip[0]&15) * 4
		from, to = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	}
	if version := ip[0] >> 4; six != (version == 6) || !six && version != 4 || head < ip4HeadBytes ||
		proto != unix.IPPROTO_UDP ||
		len(ip) < head+udpHeadBytes+ib.BTHBytes || binary.BigEndian.Uint16(ip[head+2:]) != port {
		return from, back, false
	}
	quote := ip[head+udpHeadBytes:]
	return from, edge.Returned{From: to, NoHost: noHost, Quote: quote},
		ib.QPN(binary.BigEndian.Uint32(quote[4:]))&ib.QPNMask == ib.QPNGSI
}
