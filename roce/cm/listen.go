package cm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib/mad"
)

// Listener takes connection requests, or lookups, for a service.
type Listener struct {
	a       *Agent
	service mad.ServiceID
	addr    netip.Addr // invalid: any
	backlog int
	waiting int // requests that the application has not answered
	closed  bool

	// UserData is the owner's.
	UserData any
}

// Listen takes requests for a service at addr; an unspecified or invalid
// address stands for all. Beyond backlog requests that the application has not
// answered, further ones are dropped; a backlog that is not positive, or above the limit, is the
// limit. A service can have one listener for all addresses, or several for
// different ones besides it.
func (a *Agent) Listen(service mad.ServiceID, addr netip.Addr, backlog int) (*Listener, error) {
	if addr.IsValid() {
		if addr = canonical(addr); addr.IsUnspecified() {
			addr = netip.Addr{}
		}
	}
	for _, l := range a.listeners[service] {
		if l.addr == addr {
			return nil, fmt.Errorf("cm: listen on %v: %w", service, ErrInUse)
		}
	}
	if backlog <= 0 || backlog > a.cfg.Limits.Backlog {
		backlog = a.cfg.Limits.Backlog
	}
	l := &Listener{a: a, service: service, addr: addr, backlog: backlog}
	a.listeners[service] = append(a.listeners[service], l)
	a.numListeners++
	return l, nil
}

// Close ends the listener. Requests that it made stay with their owner.
func (l *Listener) Close() {
	if l.closed {
		return
	}
	l.closed = true
	a := l.a
	ls := slices.DeleteFunc(a.listeners[l.service], func(x *Listener) bool { return x == l })
	if len(ls) == 0 {
		delete(a.listeners, l.service)
	} else {
		a.listeners[l.service] = ls
	}
	a.numListeners--
}

// match returns the listener for a service at addr: the one of the address
// before the one of all addresses.
func (a *Agent) match(service mad.ServiceID, addr netip.Addr) *Listener {
	var any *Listener
	for _, l := range a.listeners[service] {
		switch l.addr {
		case addr:
			return l
		case netip.Addr{}:
			any = l
		}
	}
	return any
}

// room reports whether l and the accounts admit one more request of peer.
func (l *Listener) room(peer netip.Addr) bool {
	a := l.a
	return l.waiting < l.backlog && a.peers[peer].pending < a.cfg.Limits.PerPeer && a.conns < a.cfg.Limits.Conns
}

// header takes the CMA header off the private data of a request for a service of RDMA-CM. ok is false if it has none
// that we understand.
func header(service mad.ServiceID, private []byte) (h mad.CMAHeader, user []byte, ok bool) {
	ps, _, form := service.Split()
	if !form || ps != mad.PortSpaceTCP && ps != mad.PortSpaceUDP && ps != mad.PortSpaceIB && ps != mad.PortSpaceIPoIB {
		return h, private, true
	}
	if !h.Decode(private) {
		return h, nil, false
	}
	return h, private[mad.CMAHeaderBytes:], true
}

// bound gives up half-open connections beyond the limits, for the sake of last,
// which stays. The oldest go first: peers that answer do so within a round trip;
// those that never will are soon the oldest. A peer that has most of it all
// loses its own.
func (a *Agent) bound(now int64, last *Conn) {
	l := &a.cfg.Limits
	for a.halfOpen.len > 1 && (a.halfOpen.len > l.HalfOpen || a.halfOpenUse > l.HalfOpenBytes) {
		victim := a.halfOpen.head
		if 2*a.peers[last.remote].use > l.HalfOpenBytes {
			for victim.remote != last.remote {
				victim = victim.next
			}
		}
		if victim == last { // the only one of its peer
			victim = a.halfOpen.head
		}
		a.stats.Evicted++
		victim.giveUp(now)
	}
}
