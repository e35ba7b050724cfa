package valkey

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Client sends commands over a connection, TCP's or [Conn], and takes the replies that GET and SET
// have. It is for one goroutine, and for measuring: other clients know more.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
}

// NewClient returns a client of a connection.
func NewClient(c net.Conn) *Client { return &Client{conn: c, r: bufio.NewReaderSize(c, 64<<10)} }

// Do sends a command, and returns the reply: nil for none, or the bytes of a string or number.
func (c *Client) Do(args ...[]byte) ([]byte, error) {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = fmt.Appendf(c.out, "$%d\r\n", len(a))
		c.out = append(append(c.out, a...), "\r\n"...)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	return readReply(c.r)
}

// readReply reads a string, a number or an error.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return nil, errors.New(string(line[1:]))
	case '$':
		return readBulk(r, line[1:])
	}
	return nil, fmt.Errorf("valkey: a reply that begins with %q", line[0])
}

// readLine reads a line of one byte at least, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errors.New("valkey: a line that is none of the protocol")
	}
	return line[:len(line)-2], nil
}

// maxBulk is the longest string of the protocol, in bytes.
const maxBulk = 512 << 20

// readBulk reads a string of a length.
func readBulk(r *bufio.Reader, length []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(length))
	if err != nil || n < -1 || n > maxBulk {
		return nil, fmt.Errorf("valkey: a string of length %q", length)
	}
	if n < 0 {
		return nil, nil
	}
	b := make([]byte, n+2)
	_, err = io.ReadFull(r, b)
	return b[:n:n], err
}
