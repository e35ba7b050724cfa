package endpoint

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// returned holds datagrams to queue pair 1 of peers that came back because no socket has the port
// there: see link.Link.Returned.
type returned struct {
	there atomic.Bool
	mu    sync.Mutex
	queue []sentBack
}

type sentBack struct {
	from  netip.Addr
	quote []byte
}

// maxReturned bounds how many wait: anyone can forge them.
const maxReturned = 256

// sendBack adds one, from the hearing goroutine.
func (l *Local) sendBack(from netip.Addr, quote []byte) {
	r := &l.back
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) < maxReturned {
		r.queue = append(r.queue, sentBack{from, slices.Clone(quote)})
		r.there.Store(true)
		l.Waker.Wake()
	}
}

// Returned returns one; see link.Link.
func (l *Local) Returned() (from netip.Addr, quote []byte) {
	r := &l.back
	if !r.there.Load() {
		return from, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.there.Store(false)
		return from, nil
	}
	b := r.queue[0]
	r.queue = r.queue[1:]
	return b.from, b.quote
}

// noPort reads an ICMP message that says that no socket has the port of a peer, and quotes a
// datagram to queue pair 1.
func noPort(b []byte, six bool, port uint16) (from, to netip.Addr, quote []byte, ok bool) {
	head, code := ip4HeadBytes, [2]byte{icmpUnreachable, icmpNoPort}
	if six {
		head, code = ip6HeadBytes, [2]byte{icmp6NoDest, icmp6NoPort}
	}
	if len(b) < icmpHeadBytes+head || [2]byte(b) != code {
		return from, to, nil, false
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
	if version := ip[0] >> 4; six != (version == 6) || !six && version != 4 || head < ip4HeadBytes || proto != unix.IPPROTO_UDP ||
		len(ip) < head+udpHeadBytes+ib.BTHBytes || binary.BigEndian.Uint16(ip[head+2:]) != port {
		return from, to, nil, false
	}
	quote = ip[head+udpHeadBytes:]
	return from, to, quote, ib.QPN(binary.BigEndian.Uint32(quote[4:]))&ib.QPNMask == ib.QPNGSI
}
