package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// DialContext connects to "host:port" with the defaults of [Dialer], on the process's device for
// the local address that leads there. It has the form that http.Transport and others expect;
// network is "tcp", "tcp4", "tcp6" or "rsocket".
//
//	client := &http.Client{Transport: &http.Transport{DialContext: rsocket.DialContext}}
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d Dialer
	return d.DialContext(ctx, network, address)
}

// Listen listens at "host:port" with the defaults of [ListenConfig], on the process's device for
// the address. An empty host stands for all addresses of this machine, port 0 for a free one.
// network is as for DialContext.
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(ctx, network, address)
}

// Listen is ListenAddr for a name and a port.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	err := error(argError("listen", "ctx", "nil"))
	if ctx != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, opError("listen", Addr{}, Addr{}, contextError(err))
	}
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		// An empty host means this machine to a client, and all of its addresses to a server.
		address = net.JoinHostPort("0.0.0.0", port)
		if network == "tcp6" {
			address = net.JoinHostPort("::", port)
		}
	}
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, opError("listen", Addr{}, Addr{}, contextError(err))
	}
	var first error
	// As in package net, "tcp4" and "tcp6" mean one family each; other networks listen at the
	// addresses of both.
	var serves func(netip.Addr) bool
	switch network {
	case "tcp4":
		serves = netip.Addr.Is4
	case "tcp6":
		serves = netip.Addr.Is6
	}
	for _, a := range addrs {
		l, err := lc.listenFor(a, serves)
		if err == nil {
			return l, nil
		}
		// That the machine lacks a family says less than the error of another address.
		if first == nil || errors.Is(first, syscall.EADDRNOTAVAIL) {
			first = err
		}
	}
	return nil, first
}
