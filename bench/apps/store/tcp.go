package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The store over TCP is what it is compared with: the client is the same, and so is the disk, but
// the program of the replica does what its adapter does over RoCE. A request is operation (1),
// nothing (3), length (4) and offset (8), and the bytes of a write. An answer is 0, or 1 for an
// error, and the bytes of a read. They come in the order of the requests. First of all the replica
// says the size of its disk (8).
const (
	tcpWrite = iota + 1
	tcpRead
	tcpFlush
	tcpHead = 16
)

// flushSilence is how long a replica may be silent while its disk writes. Over RoCE its adapter
// answers keep-alives meanwhile.
const flushSilence = 10 * silence

// OpenTCP is Open over TCP, to replicas that serve it: see [Replica.ServeTCP].
func OpenTCP(ctx context.Context, addrs []string, blocks int) (*Volume, error) {
	return openOn(ctx, &tcpNetwork{slots: make([]byte, staging*slotBytes)}, addrs, blocks)
}

type tcpNetwork struct{ slots []byte }

func (n *tcpNetwork) staging() []byte { return n.slots }
func (n *tcpNetwork) close() error    { return nil }

func (n *tcpNetwork) dial(ctx context.Context, addr string) (wire, error) {
	d := net.Dialer{Timeout: silence}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	var size [8]byte
	c.SetReadDeadline(time.Now().Add(silence))
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	w := &tcpWire{c: c, r: bufio.NewReaderSize(c, 64<<10), disk: int(binary.BigEndian.Uint64(size[:])), slots: n.slots,
		asked: make(chan *tcpAnswer, 2*staging), closing: make(chan struct{}), ended: make(chan struct{})}
	go w.listen()
	return w, nil
}

// tcpWire is a connection with requests under way, whose answers a goroutine reads.
type tcpWire struct {
	c     net.Conn
	r     *bufio.Reader
	disk  int
	slots []byte

	mu      sync.Mutex // of the order of requests
	asked   chan *tcpAnswer
	once    sync.Once
	closing chan struct{}
	ended   chan struct{} // nothing is read into memory any more
}

// tcpAnswer is an answer that is waited for.
type tcpAnswer struct {
	w    *tcpWire
	into []byte
	wait time.Duration // how long the replica may be silent
	done chan error
}

func (w *tcpWire) listen() {
	defer close(w.ended)
	var failed error
	for {
		var a *tcpAnswer
		select {
		case a = <-w.asked:
		case <-w.closing:
			return
		}
		if failed == nil {
			if failed = w.answer(a); failed != nil {
				w.c.Close()
			}
		}
		a.done <- failed
	}
}

// answer reads one answer, of a replica that is not silent for too long.
func (w *tcpWire) answer(a *tcpAnswer) error {
	w.c.SetReadDeadline(time.Now().Add(a.wait))
	status, err := w.r.ReadByte()
	if err != nil {
		return err
	}
	if status != 0 {
		return errors.New("store: the replica refused a request")
	}
	_, err = io.ReadFull(w.r, a.into)
	return err
}

// Wait waits for the answer.
func (a *tcpAnswer) Wait(ctx context.Context) error {
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-a.w.ended:
	}
	select { // it may have come before the end
	case err := <-a.done:
		return err
	default:
		return net.ErrClosed
	}
}

// ask sends a request with the bytes out, whose answer goes to into.
func (w *tcpWire) ask(op byte, at, n int, out, into []byte) (*tcpAnswer, error) {
	var head [tcpHead]byte
	head[0] = op
	binary.BigEndian.PutUint32(head[4:], uint32(n))
	binary.BigEndian.PutUint64(head[8:], uint64(at))
	a := &tcpAnswer{w: w, into: into, wait: silence, done: make(chan error, 1)}
	if op == tcpFlush {
		a.wait = flushSilence
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.asked <- a:
	case <-w.ended:
		return nil, net.ErrClosed
	}
	w.c.SetWriteDeadline(time.Now().Add(silence))
	parts := net.Buffers{head[:], out}
	if _, err := parts.WriteTo(w.c); err != nil {
		w.c.Close() // the answers are no longer those of the requests
		return nil, err
	}
	return a, nil
}

func (w *tcpWire) slot(slot int) []byte { return w.slots[slot*slotBytes:][:slotBytes] }

func (w *tcpWire) size() int { return w.disk }

func (w *tcpWire) write(_ context.Context, at, slot int) (pending, error) {
	return w.ask(tcpWrite, at, slotBytes, w.slot(slot), nil)
}

func (w *tcpWire) read(_ context.Context, at, slot int) (pending, error) {
	return w.ask(tcpRead, at, slotBytes, nil, w.slot(slot))
}

// await waits for the answer to a request.
func await(ctx context.Context, a *tcpAnswer, err error) error {
	if err != nil {
		return err
	}
	return a.Wait(ctx)
}

func (w *tcpWire) put(ctx context.Context, at int, b []byte) error {
	a, err := w.ask(tcpWrite, at, len(b), b, nil)
	return await(ctx, a, err)
}

// get reads into memory of its own: the caller's may be used again when the context has ended.
func (w *tcpWire) get(ctx context.Context, at int, b []byte) error {
	read := make([]byte, len(b))
	a, err := w.ask(tcpRead, at, len(read), nil, read)
	if err := await(ctx, a, err); err != nil {
		return err
	}
	copy(b, read)
	return nil
}

func (w *tcpWire) flush(ctx context.Context, at, n int) error {
	a, err := w.ask(tcpFlush, at, n, nil, nil)
	return await(ctx, a, err)
}

func (w *tcpWire) Close() (err error) {
	w.once.Do(func() {
		err = w.c.Close()
		close(w.closing)
	})
	<-w.ended
	return err
}

// ServeTCP serves clients of [OpenTCP] until the listener is closed.
func (r *Replica) ServeTCP(l net.Listener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		serving.Go(func() { r.clientTCP(c) })
	}
}

// clientTCP gives a client the disk, and does what it asks for until another one has it.
func (r *Replica) clientTCP(c net.Conn) error {
	defer c.Close()
	var mu sync.Mutex // held while the disk is used
	gone := false
	o := &owner{end: func() {
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		gone = true
	}}
	if !r.take(o) {
		return net.ErrClosed
	}
	defer r.leave(o)
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(len(r.disk.Bytes())))); err != nil {
		return err
	}
	in := bufio.NewReaderSize(c, 64<<10)
	var head [tcpHead]byte
	var b []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		op, n, at := head[0], uint64(binary.BigEndian.Uint32(head[4:])), binary.BigEndian.Uint64(head[8:])
		disk := r.disk.Bytes()
		if at > uint64(len(disk)) || n > uint64(len(disk))-at {
			return fmt.Errorf("store: %d bytes at %d of a disk of %d", n, at, len(disk))
		}
		if op == tcpWrite {
			if n > slotBytes {
				return fmt.Errorf("store: a write of %d bytes", n)
			}
			b = append(b[:0], make([]byte, n)...)
			if _, err := io.ReadFull(in, b); err != nil {
				return err
			}
		}
		mu.Lock()
		if gone {
			mu.Unlock()
			return net.ErrClosed
		}
		var err error
		answer := net.Buffers{{0}}
		switch op {
		case tcpWrite:
			copy(disk[at:], b)
		case tcpRead:
			answer = append(answer, disk[at:at+n])
		case tcpFlush:
			err = r.disk.Persist(int(at), int(n))
		default:
			err = fmt.Errorf("store: operation %d", op)
		}
		mu.Unlock()
		if err != nil {
			c.Write([]byte{1})
			return err
		}
		if _, err := answer.WriteTo(c); err != nil {
			return err
		}
	}
}
