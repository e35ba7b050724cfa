package valkey

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// The opcodes of control messages, which are 32 bytes each.
const (
	getServerFeature   = 0
	setClientFeature   = 1
	keepalive          = 2
	registerXferMemory = 3

	controlBytes = 32
)

const (
	// bufferBytes is what each side can have written to it: what valkey itself has by default.
	bufferBytes = 1 << 20
	// depth is how many messages may be on their way, as the protocol recommends.
	depth = 1024
	// stageBytes is what a Write may have on its way.
	stageBytes = 256 << 10
)

var errProtocol = errors.New("valkey: the peer breaks the RDMA protocol")

// Conn is a stream to a valkey server. One goroutine may read and another may write.
type Conn struct {
	c    *roce.Conn
	rx   []byte // the peer writes here
	mr   *verbs.MR
	rmu  sync.Mutex
	pos  int // read of rx
	end  int // written by the peer; of the reader
	wmu  sync.Mutex
	out  []byte // registered: what is on its way
	omr  *verbs.MR
	last [2]*roce.Pending // of each half of out
	half int

	mu    sync.Mutex
	tx    roce.RemoteMemory // where the peer reads
	off   int               // written of it
	again chan struct{}     // closed when there is new room
	data  chan struct{}     // has one when there is more to read
	got   int               // bytes written by the peer since the last registration
	err   error

	rdl, wdl deadline
	server   bool
	done     chan struct{}
}

// Dial connects to a server at host:port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	p := rdmacm.DefaultConnParam()
	d := roce.Dialer{ConnConfig: config()}
	d.Param = &p
	rc, err := d.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c, err := begin(rc, false)
	if err != nil {
		return nil, errors.Join(err, rc.Close())
	}
	for _, op := range []uint16{getServerFeature, setClientFeature} {
		if err := c.control(ctx, op, nil); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.control(ctx, registerXferMemory, c.mr); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func config() roce.ConnConfig {
	return roce.ConnConfig{SendDepth: depth, RecvDepth: depth, RecvBytes: controlBytes}
}

// begin has the buffers of a connection, and a goroutine that hears what the peer does.
func begin(rc *roce.Conn, server bool) (*Conn, error) {
	c := &Conn{
		c: rc, server: server, rx: make([]byte, bufferBytes), out: make([]byte, 2*stageBytes),
		again: make(chan struct{}), data: make(chan struct{}, 1), done: make(chan struct{}),
	}
	var err error
	if c.mr, err = rc.Register(c.rx, roce.RemoteWrite|verbs.LocalWrite); err == nil {
		c.omr, err = rc.Register(c.out, 0)
	}
	if err != nil {
		return nil, err
	}
	go c.hear()
	return c, nil
}

// control sends a control message, with the memory of a registration.
func (c *Conn) control(ctx context.Context, op uint16, mr *verbs.MR) error {
	var b [controlBytes]byte
	binary.BigEndian.PutUint16(b[:], op)
	if mr != nil {
		m := mr.Remote()
		binary.BigEndian.PutUint64(b[16:], m.Addr)
		binary.BigEndian.PutUint32(b[24:], m.Len)
		binary.BigEndian.PutUint32(b[28:], uint32(m.RKey))
	}
	return c.c.Send(ctx, b[:])
}

// hear takes what the peer sends until the connection ends.
func (c *Conn) hear() {
	defer close(c.done)
	ctx := context.Background()
	for {
		m, err := c.c.RecvMsg(ctx)
		if err == nil {
			err = c.heard(ctx, &m)
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			close(c.again)
			c.mu.Unlock()
			close(c.data)
			return
		}
	}
}

func (c *Conn) heard(ctx context.Context, m *roce.Message) error {
	if m.Written {
		n := m.Imm
		if err := m.Release(); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n > bufferBytes || c.got+int(n) > bufferBytes {
			return fmt.Errorf("%w: %d bytes, which do not fit", errProtocol, n)
		}
		c.got += int(n)
		select {
		case c.data <- struct{}{}:
		default:
		}
		return nil
	}
	var b [controlBytes]byte
	n := copy(b[:], m.Bytes())
	if err := m.Release(); err != nil {
		return err
	}
	if n != controlBytes {
		return fmt.Errorf("%w: a control message of %d bytes", errProtocol, n)
	}
	switch op := binary.BigEndian.Uint16(b[:]); op {
	case keepalive, getServerFeature:
	case setClientFeature:
		if c.server {
			return c.control(ctx, registerXferMemory, c.mr)
		}
	case registerXferMemory:
		c.mu.Lock()
		c.tx = roce.RemoteMemory{Addr: binary.BigEndian.Uint64(b[16:]), RKey: ib.RKey(binary.BigEndian.Uint32(b[28:]))}
		c.tx.Len = binary.BigEndian.Uint32(b[24:])
		c.off = 0
		close(c.again)
		c.again = make(chan struct{})
		c.mu.Unlock()
	default:
		return fmt.Errorf("%w: opcode %d", errProtocol, op)
	}
	return nil
}

// Read reads what the server has written.
func (c *Conn) Read(b []byte) (int, error) {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	for len(b) > 0 {
		c.mu.Lock()
		c.end = c.got
		err := c.err
		c.mu.Unlock()
		if c.pos < c.end {
			n := copy(b, c.rx[c.pos:c.end])
			if c.pos += n; c.pos == bufferBytes {
				return n, c.renew()
			}
			return n, nil
		}
		if err != nil {
			return 0, ended(err)
		}
		if err := c.rdl.wait(c.data); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// renew lets the peer begin at the start of the buffer, all of which was read.
func (c *Conn) renew() error {
	c.mu.Lock()
	c.got, c.pos = 0, 0
	c.mu.Unlock()
	return c.control(context.Background(), registerXferMemory, c.mr)
}

// Write writes to the server's buffer, as soon as there is room.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	for len(b) > 0 {
		to, err := c.reserve(min(len(b), stageBytes))
		if err != nil {
			return n, err
		}
		k := int(to.Len)
		if err := c.put(to, b[:k]); err != nil {
			return n, err
		}
		n, b = n+k, b[k:]
	}
	return n, nil
}

// reserve returns the next of the peer's buffer, of at most n bytes.
func (c *Conn) reserve(n int) (roce.RemoteMemory, error) {
	for {
		c.mu.Lock()
		room, again, err := int(c.tx.Len)-c.off, c.again, c.err
		if err == nil && room > 0 {
			to := c.tx.Slice(c.off, min(n, room))
			c.off += int(to.Len)
			c.mu.Unlock()
			return to, nil
		}
		c.mu.Unlock()
		if err != nil {
			return roce.RemoteMemory{}, ended(err)
		}
		if err := c.wdl.wait(again); err != nil {
			return roce.RemoteMemory{}, err
		}
	}
}

// put writes through one half of the registered memory, when what went through it before has
// arrived.
func (c *Conn) put(to roce.RemoteMemory, b []byte) error {
	ctx := context.Background()
	if p := c.last[c.half]; p != nil {
		c.last[c.half] = nil
		if err := p.Wait(ctx); err != nil {
			return ended(err)
		}
	}
	at := c.half * stageBytes
	copy(c.out[at:], b)
	p, err := c.c.Start(ctx, verbs.SendWR{
		Opcode: verbs.WRWriteImm, RemoteAddr: to.Addr, RKey: to.RKey, Imm: uint32(len(b)),
		SGList: []verbs.SGE{c.omr.SGE(at, len(b))},
	})
	if err != nil {
		return ended(err)
	}
	c.last[c.half], c.half = p, 1-c.half
	return nil
}

// ended is what a stream says of the end of its connection.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return err
	}
	return fmt.Errorf("valkey: %w", err)
}

// Close ends the connection.
func (c *Conn) Close() error {
	err := c.c.Close()
	<-c.done
	return err
}

// LocalAddr returns the address of this side.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.c.LocalAddr()) }

// RemoteAddr returns the address of the server.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.c.RemoteAddr()) }

// SetDeadline sets when reads and writes that wait fail with os.ErrDeadlineExceeded; zero is never.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is SetDeadline for reads.
func (c *Conn) SetReadDeadline(t time.Time) error { c.rdl.set(t); return nil }

// SetWriteDeadline is SetDeadline for writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { c.wdl.set(t); return nil }
