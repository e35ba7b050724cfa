package rtnl

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
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
	f   *os.File
	buf []byte
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
	fd, err := openSocket(unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, groups)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, monitorBufferBytes)
	// A descriptor that does not block goes into the runtime's poller: Close
	// ends a Next that waits.
	return &Monitor{f: os.NewFile(uintptr(fd), "netlink"), buf: make([]byte, receiveBytes)}, nil
}

// Next waits for changes and calls f for each. Its error is os.ErrClosed after
// Close.
func (m *Monitor) Next(f func(Event)) error {
	n, err := m.f.Read(m.buf)
	if errors.Is(err, unix.ENOBUFS) {
		f(Event{Lost: true})
		return nil
	}
	if err != nil {
		return err
	}
	messages(m.buf[:n], func(h header, body []byte) bool {
		switch h.typ {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			// The bridge sends messages of this type about its ports, with a family.
			if l, ok := parseLink(body); ok && body[0] == unix.AF_UNSPEC {
				f(Event{Link: &l, LinkGone: h.typ == unix.RTM_DELLINK})
			}
		case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
			if e, ok := parseNeighbour(body); ok {
				f(Event{Neighbour: &e, EntryRemoved: h.typ == unix.RTM_DELNEIGH})
			}
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			if a, ok := parseAddress(body); ok {
				f(Event{Address: &a})
			}
		default:
			f(Event{Routes: true})
		}
		return true
	})
	return nil
}

// Close ends the subscription.
func (m *Monitor) Close() error { return m.f.Close() }
