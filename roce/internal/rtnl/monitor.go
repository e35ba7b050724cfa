package rtnl

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/mdlayher/netlink"
)

// Event is a change that a Monitor tells of: exactly one of the fields is set.
type Event struct {
	Link         *Link
	Neighbour    *Neighbour
	Address      *Address // a local address came, went or changed
	Routes       bool     // routes or rules changed
	Lost         bool     // events were lost: everything may have changed
	LinkGone     bool     // with Link: it was removed
	EntryRemoved bool     // with Neighbour: the entry was removed
}

// Monitor receives the kernel's notifications.
type Monitor struct {
	c      *netlink.Conn
	closed atomic.Bool
}

// monitorBufferBytes is what is asked for as receive buffer: a flood of changes
// is absorbed, or becomes one Event.Lost.
const monitorBufferBytes = 1 << 20

// NewMonitor subscribes to changes of interfaces, neighbours, addresses and routes.
func NewMonitor() (*Monitor, error) {
	return newMonitor(
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	)
}

// NewLinkMonitor subscribes to changes of interfaces and addresses.
func NewLinkMonitor() (*Monitor, error) {
	return newMonitor(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
}

func newMonitor(of ...uint) (*Monitor, error) {
	var groups uint32
	for _, g := range of {
		groups |= 1 << (g - 1)
	}
	// Without MessageBufferSize each notification is received whole, whatever its length.
	c, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: groups})
	if err != nil {
		return nil, err
	}
	_ = c.SetReadBuffer(monitorBufferBytes)
	return &Monitor{c: c}, nil
}

// Next waits for changes and calls f for each. Its error is os.ErrClosed after
// Close.
func (m *Monitor) Next(f func(Event)) error {
	for n, err := range m.c.ReceiveIter() {
		switch {
		case err == nil:
			tell(f, n)
		case m.closed.Load():
			return os.ErrClosed
		case errors.Is(err, unix.ENOBUFS):
			f(Event{Lost: true})
		default:
			return err
		}
	}
	return nil
}

// tell calls f for a notification.
func tell(f func(Event), n netlink.Message) {
	switch n.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// The bridge sends messages of this type about its ports, with a family.
		if l, ok := parseLink(n.Data); ok && n.Data[0] == unix.AF_UNSPEC {
			f(Event{Link: &l, LinkGone: n.Header.Type == unix.RTM_DELLINK})
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if e, ok := parseNeighbour(n.Data); ok {
			f(Event{Neighbour: &e, EntryRemoved: n.Header.Type == unix.RTM_DELNEIGH})
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if a, ok := parseAddress(n.Data); ok {
			f(Event{Address: &a})
		}
	default:
		f(Event{Routes: true})
	}
}

// Close ends the subscription, and a Next that waits.
func (m *Monitor) Close() error {
	m.closed.Store(true)
	return m.c.Close()
}
