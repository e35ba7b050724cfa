package mesh

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// TCP is the same on TCP connections.
type TCP struct{}

func (TCP) listen(ctx context.Context, cfg Config, found func(int, Link)) (func(), error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Addrs[cfg.Rank])
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var rank [4]byte
			c.SetReadDeadline(time.Now().Add(silence)) // a stranger may say nothing
			if _, err := io.ReadFull(c, rank[:]); err != nil {
				c.Close()
				continue
			}
			c.SetReadDeadline(time.Time{})
			found(int(binary.BigEndian.Uint32(rank[:])), newTCPLink(c, cfg.Arena))
		}
	}()
	return func() { l.Close(); <-done }, nil
}

func (TCP) dial(ctx context.Context, cfg Config, rank int) (Link, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", cfg.Addrs[rank])
		if err == nil {
			if _, err := c.Write(binary.BigEndian.AppendUint32(nil, uint32(cfg.Rank))); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return newTCPLink(c, cfg.Arena), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := pause(ctx); err != nil { // it has not begun yet
			return nil, err
		}
	}
}

// headerBytes is the length of the header of a piece: offset, length and tag.
const headerBytes = 16

// direct is the longest piece that Put writes itself: the buffers of two sockets take several of
// them, so that members that all put before they look at what comes do not wait for each other.
const direct = 16 << 10

// tcpLink reads in Next, straight into the arena, and has a goroutine that writes what is long.
type tcpLink struct {
	c     net.Conn
	r     *bufio.Reader
	arena []byte

	puts    chan tcpPiece
	queued  atomic.Int32 // pieces that the goroutine has not written yet
	head    [headerBytes]byte
	closed  chan struct{}
	failed  chan struct{} // closed when err is set, by the goroutine that writes
	err     error
	close   sync.Once
	running sync.WaitGroup
}

// tcpPiece is a piece to write, or, with flushed, a question when those before it are written.
type tcpPiece struct {
	header  [headerBytes]byte
	data    []byte
	flushed chan struct{}
}

func newTCPLink(c net.Conn, arena []byte) *tcpLink {
	l := &tcpLink{c: c, r: bufio.NewReaderSize(c, 4<<10), // what is longer goes past it
		arena: arena, puts: make(chan tcpPiece, depth), closed: make(chan struct{}), failed: make(chan struct{})}
	l.running.Go(l.write)
	return l
}

func (l *tcpLink) write() {
	for {
		select {
		case p := <-l.puts:
			if p.flushed != nil {
				close(p.flushed)
				continue
			}
			b := net.Buffers{p.header[:], p.data}
			if _, err := b.WriteTo(l.c); err != nil {
				l.err = err
				close(l.failed)
				return
			}
			l.queued.Add(-1)
		case <-l.closed:
			return
		}
	}
}

func (l *tcpLink) Put(ctx context.Context, to, from, n int, tag uint32) error {
	p := tcpPiece{data: l.arena[from : from+n]}
	binary.BigEndian.PutUint64(p.header[:], uint64(to))
	binary.BigEndian.PutUint32(p.header[8:], uint32(n))
	binary.BigEndian.PutUint32(p.header[12:], tag)
	if n <= direct && l.queued.Load() == 0 {
		b := net.Buffers{p.header[:], p.data}
		_, err := b.WriteTo(l.c)
		return err
	}
	l.queued.Add(1)
	return l.put(ctx, p)
}

func (l *tcpLink) put(ctx context.Context, p tcpPiece) error {
	select {
	case l.puts <- p:
		return nil
	case <-l.failed:
		return l.err
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *tcpLink) Flush(ctx context.Context) error {
	if l.queued.Load() == 0 {
		return nil
	}
	p := tcpPiece{flushed: make(chan struct{})}
	if err := l.put(ctx, p); err != nil {
		return err
	}
	select {
	case <-p.flushed:
		return nil
	case <-l.failed:
		return l.err
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *tcpLink) Next(ctx context.Context) (tag uint32, err error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { l.c.SetReadDeadline(time.Unix(1, 0)) })
		defer func() {
			if !stop() {
				err = ctx.Err()
			}
		}()
	}
	if _, err := io.ReadFull(l.r, l.head[:]); err != nil {
		return 0, err
	}
	to, n := binary.BigEndian.Uint64(l.head[:]), uint64(binary.BigEndian.Uint32(l.head[8:]))
	if to > uint64(len(l.arena)) || n > uint64(len(l.arena))-to {
		return 0, fmt.Errorf("mesh: a piece of %d bytes for offset %d of an arena of %d", n, to, len(l.arena))
	}
	if _, err := io.ReadFull(l.r, l.arena[to:to+n]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(l.head[12:]), nil
}

func (l *tcpLink) Close() (err error) {
	l.close.Do(func() {
		close(l.closed)
		err = l.c.Close()
		l.running.Wait()
	})
	return err
}
