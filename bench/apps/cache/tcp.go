package cache

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// ServeTCP answers clients that send the same messages over TCP, each with its length (2 bytes)
// before it: what the cache is compared with. It returns when the listener is closed.
func (s *Server) ServeTCP(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		go s.clientTCP(c)
	}
}

func (s *Server) clientTCP(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	var head [2]byte
	request, answer := make([]byte, 0, 1024), make([]byte, 0, 1024)
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		request = request[:0:1024]
		n := int(binary.BigEndian.Uint16(head[:]))
		if n > cap(request) {
			return
		}
		if _, err := io.ReadFull(r, request[:n]); err != nil {
			return
		}
		if n == 0 || request[:n][0] == opTable {
			return // there is no memory to be had over TCP
		}
		answer = s.answer(append(answer[:0], 0, 0), nil, request[:n])
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// TCPClient asks over TCP. Its methods may be called by one goroutine at a time.
type TCPClient struct {
	c   net.Conn
	r   *bufio.Reader
	buf []byte
}

// DialTCP connects to a server's ServeTCP.
func DialTCP(ctx context.Context, addr string) (*TCPClient, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &TCPClient{c: c, r: bufio.NewReader(c)}, nil
}

// Get returns the value of a key, appended to b.
func (c *TCPClient) Get(b, key []byte) ([]byte, error) { return c.ask(b, opGet, key, nil) }

// Put sets the value of a key.
func (c *TCPClient) Put(key, value []byte) error {
	_, err := c.ask(nil, opPut, key, value)
	return err
}

// Close ends the connection.
func (c *TCPClient) Close() error { return c.c.Close() }

func (c *TCPClient) ask(b []byte, op byte, key, value []byte) ([]byte, error) {
	if len(key) == 0 || len(key)+len(value) > MaxEntry {
		return b, ErrTooLong
	}
	c.buf = append(c.buf[:0], 0, 0, op)
	if op == opPut {
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(len(key)))
	}
	c.buf = append(append(c.buf, key...), value...)
	binary.BigEndian.PutUint16(c.buf, uint16(len(c.buf)-2))
	if _, err := c.c.Write(c.buf); err != nil {
		return b, err
	}
	var head [2]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return b, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.r, c.buf); err != nil {
		return b, err
	}
	switch {
	case n > 0 && c.buf[0] == ok:
		return append(b, c.buf[1:]...), nil
	case n > 0 && c.buf[0] == notFound:
		return b, ErrNotFound
	}
	return b, errors.New("cache: the server refused a request")
}
