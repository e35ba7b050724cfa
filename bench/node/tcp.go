package node

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// The first byte of a TCP connection says what the server is to do.
const (
	tcpSink = 's' // take what comes, then say how much it was
	tcpEcho = 'e'
)

// Listen starts the TCP server, at a port of the address, and returns where.
func (n *Node) Listen(addr netip.Addr, at *netip.AddrPort) error {
	l, where, err := n.listen(ByTCP, addr)
	if err != nil {
		return err
	}
	n.tcpSize.Store(RegionBytes)
	*at = where
	go serveStreams(l, n.serveTCP)
	return nil
}

func (n *Node) serveTCP(c net.Conn) {
	defer c.Close()
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	size := int(binary.BigEndian.Uint64(head[1:]))
	if size <= 0 || size > RegionBytes {
		return
	}
	if head[0] == tcpEcho {
		for {
			if _, err := io.ReadFull(c, n.buf[:size]); err != nil {
				return
			}
			if _, err := c.Write(n.buf[:size]); err != nil {
				return
			}
		}
	}
	total, off := 0, 0
	for {
		k, err := c.Read(n.buf[off:min(off+maxMessage, size)])
		total += k
		if off += k; off == size {
			off = 0
		}
		if err != nil {
			break
		}
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(total))
	_, _ = c.Write(b[:])
}

// TCPArgs name the server besides what is to be done.
type TCPArgs struct {
	To     netip.AddrPort
	Size   int // bytes of a write
	Region int
	Ns     int64
	N      int // round trips
}

func dial(a *TCPArgs, kind byte, size int) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", a.To.String(), giveUp)
	if err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint64([]byte{kind}, uint64(size))
	if _, err = c.Write(head); err == nil {
		err = c.SetDeadline(time.Now().Add(time.Duration(a.Ns) + giveUp))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// TCPBulk writes for the time asked for, one write for each message, until the peer
// has read everything.
func (n *Node) TCPBulk(a TCPArgs, r *BulkReply) error {
	c, err := dial(&a, tcpSink, a.Region)
	if err != nil {
		return err
	}
	defer c.Close()
	start := time.Now()
	for i := 0; ; i++ {
		// The clock is read as seldom as with messages posted in batches.
		if i%16 == 0 && time.Since(start) >= time.Duration(a.Ns) {
			break
		}
		off := i * a.Size % (a.Region - a.Size + 1)
		if _, err := c.Write(n.buf[off : off+a.Size]); err != nil {
			return err
		}
		r.Msgs++
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	var b [8]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	r.Ns = int64(time.Since(start))
	if got := binary.BigEndian.Uint64(b[:]); got != uint64(r.Msgs*a.Size) {
		return fmt.Errorf("TCP: sent %d bytes, the peer has read %d", r.Msgs*a.Size, got)
	}
	return nil
}

// TCPPing is Ping by TCP.
func (n *Node) TCPPing(a TCPArgs, r *PingReply) error {
	c, err := dial(&a, tcpEcho, a.Size)
	if err != nil {
		return err
	}
	defer c.Close()
	took := make([]float64, 0, a.N)
	for range a.N {
		start := time.Now()
		if _, err := c.Write(n.buf[:a.Size]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, n.buf[:a.Size]); err != nil {
			return err
		}
		took = append(took, half(start))
	}
	*r = percentiles(took)
	return nil
}
