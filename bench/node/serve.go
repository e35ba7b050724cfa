package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

// What a load goes by.
const (
	ByTCP     = "TCP"
	ByRSocket = "rsocket"
	ByConn    = "roce.Conn"
	ByRead    = "READ" // of the server's memory, over a roce.Conn
)

// listen listens for streams, by TCP or by rsocket.
func (n *Node) listen(by string, at netip.Addr) (net.Listener, netip.AddrPort, error) {
	to := netip.AddrPortFrom(at, 0)
	switch by {
	case ByTCP:
		l, err := net.Listen("tcp", to.String())
		if err != nil {
			return nil, to, err
		}
		return l, l.Addr().(*net.TCPAddr).AddrPort(), nil
	case ByRSocket:
		l, err := (&rsocket.ListenConfig{Device: n.dev}).ListenAddr(to)
		if err != nil {
			return nil, to, err
		}
		return l, l.Addr().(rsocket.Addr).AddrPort, nil
	}
	return nil, to, fmt.Errorf("no load goes by %q", by)
}

// serveStreams has serve take care of each connection, until the listener is closed.
func serveStreams(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// serveConns is listen and serveStreams for roce.Conn.
func (n *Node) serveConns(at netip.Addr,
	serve func(context.Context, *roce.Conn) error) (io.Closer, netip.AddrPort, error) {
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: n.dev}}
	l, err := lc.ListenAddr(netip.AddrPortFrom(at, 0))
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	go func() { _ = l.Serve(context.Background(), serve) }() // until it is closed
	return l, l.Addr(), nil
}

// dial connects a stream.
func (n *Node) dial(ctx context.Context, by string, at netip.AddrPort) (net.Conn, error) {
	if by == ByRSocket {
		return (&rsocket.Dialer{Device: n.dev}).DialAddr(ctx, at)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", at.String())
}

func (n *Node) dialConn(ctx context.Context, at netip.AddrPort) (*roce.Conn, error) {
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: n.dev}}
	return d.DialAddr(ctx, at)
}
