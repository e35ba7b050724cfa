package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/goroce/goroce/roce"
)

// asker is a connection over which requests of answerBytes are answered by as many, by the messages
// of a roce.Conn or by TCP, where reader and writer know the length.
type asker interface {
	ask(b []byte) error
	Close() error
}

// serveMessages answers requests at an address.
func (n *Node) serveMessages(a SocketArgs) (at netip.AddrPort, err error) {
	var open io.Closer
	if a.RSocket {
		open, at, err = n.serveConns(a.Addr, answerMessages)
	} else {
		var l net.Listener
		if l, at, err = n.listen(ByTCP, a.Addr); err == nil {
			go serveStreams(l, func(c net.Conn) { answerStream(c, answerBytes) })
		}
		open = l
	}
	if err == nil {
		n.sockets.serving = append(n.sockets.serving, open)
	}
	return at, err
}

func answerMessages(ctx context.Context, c *roce.Conn) error {
	for {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Send(ctx, m.Bytes()), m.Release()); err != nil {
			return err
		}
	}
}

// answerStream answers requests of a size by as many bytes.
func answerStream(c net.Conn, size int) {
	defer c.Close()
	b := make([]byte, size)
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// dialMessages connects for requests.
func (n *Node) dialMessages(ctx context.Context, at Sockets) (asker, error) {
	if at.RSocket {
		c, err := n.dialConn(ctx, at.Messages)
		return connAsker{c}, err
	}
	c, err := n.dial(ctx, ByTCP, at.Messages)
	return streamAsker{c}, err
}

type connAsker struct{ *roce.Conn }

func (a connAsker) ask(b []byte) error {
	if err := a.Send(context.Background(), b); err != nil {
		return err
	}
	k, err := a.Recv(context.Background(), b)
	if err == nil && k != len(b) {
		err = fmt.Errorf("an answer of %d bytes instead of %d", k, len(b))
	}
	return err
}

type streamAsker struct{ net.Conn }

func (a streamAsker) ask(b []byte) error {
	_, err := a.Write(b)
	if err == nil {
		_, err = io.ReadFull(a, b)
	}
	return err
}

// openAskers connects so many, and uses each for a moment.
func (n *Node) openAskers(a UseArgs) error {
	n.sockets.askers = make([]asker, a.Clients)
	return each(n.sockets.askers, func(c *asker) (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		defer cancel()
		own, err := n.dialMessages(ctx, a.At)
		if err != nil {
			return err
		}
		*c = own
		b := make([]byte, answerBytes)
		for range warmUps {
			if err := own.ask(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// runAskers asks over all connections until it has been long enough, and returns how often.
func (n *Node) runAskers(over func() bool) (requests int, err error) {
	counts := make([]int, len(n.sockets.askers))
	index := make([]int, len(counts))
	for i := range index {
		index[i] = i
	}
	err = each(index, func(i *int) error {
		b := make([]byte, answerBytes)
		for counts[*i] == 0 || !over() {
			if err := n.sockets.askers[*i].ask(b); err != nil {
				return err
			}
			counts[*i]++
		}
		return nil
	})
	for _, k := range counts {
		requests += k
	}
	return requests, err
}
