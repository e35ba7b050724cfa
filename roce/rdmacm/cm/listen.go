package cm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib/mad"
)

// Listener accepts connection requests, or lookups, for a service.
type Listener struct {
	a       *Agent
	service mad.ServiceID
	addr    netip.Addr // invalid: any
	backlog int
	closed  bool

	requests   [numRanks]ageList // not yet taken by the owner
	offered    bool              // in Agent.offers
	queued     int               // requests that count in the backlog
	open       int               // connections that the owner has taken
	maxConns   int               // the most of these; 0: any number
	untaken    int               // of these, not yet with the application
	maxUntaken int               // the most of those; 0: any number
	inHand     int               // taken by the owner and not yet answered
	need       int               // bytes that the owner holds for each, as far as we know
	blocked    bool              // in Agent.blocked

	// UserData is the owner's.
	UserData any
}

// Listen accepts requests for a service at addr; an unspecified or invalid address stands for all.
// Up to backlog requests may wait for the application's answer; further ones are dropped and
// counted. A backlog of 0, or more than Limits.Backlog, means that limit, as in listen(2). A
// service can have one listener for all addresses, and others for particular ones besides it.
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
	if backlog < 0 {
		return nil, fmt.Errorf("cm: listen on %v: a backlog of %d, less than 0", service, backlog)
	}
	if backlog == 0 || backlog > a.cfg.Limits.Backlog {
		backlog = a.cfg.Limits.Backlog
	}
	l := &Listener{a: a, service: service, addr: addr, backlog: backlog,
		need: a.cfg.Limits.HalfOpenBytes / a.cfg.Limits.HalfOpen}
	a.listeners[service] = append(a.listeners[service], l)
	a.numListeners++
	return l, nil
}

// Close ends the listener. Requests that the owner has not taken are refused; it keeps the others.
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
	a.forgetBlocked(l)
	l.refuseAll()
}

// match returns the listener for a service at the address that a request came to. A listener for
// that address takes precedence over one for all addresses. A request whose CMA header names
// another address has none: filtering the traffic of an address must also filter what its listeners
// get.
func (a *Agent) match(in *message, service mad.ServiceID, h *mad.CMAHeader) *Listener {
	addr := in.dst
	if h.Dst.IsValid() && canonical(h.Dst) != addr {
		return nil
	}
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

// header splits the CMA header off the private data of a request for a service of RDMA-CM. ok is
// false if it has none that we understand.
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
