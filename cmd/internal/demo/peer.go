package demo

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// answerTimeout bounds every wait of the peer: the data is on its way when it is asked.
const answerTimeout = 10 * time.Second

// node is what both processes make on their device.
type node struct {
	dev   *verbs.Device
	cfg   roce.ConnConfig
	buf   *verbs.MappedBuffer
	mr    *verbs.MR
	conns [numConns]*roce.Conn
}

// newNode registers memory for all connections.
func newNode(dev *verbs.Device) (*node, error) {
	n := &node{dev: dev, cfg: roce.ConnConfig{Device: dev, RecvBytes: helloBytes, SendDepth: depth}}
	var err error
	if n.cfg.PD, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	n.buf, n.mr, err = n.cfg.PD.AllocBuffer(memoryBytes,
		verbs.LocalWrite|roce.RemoteWrite|roce.RemoteRead|roce.RemoteAtomic)
	return n, err
}

// dial makes the connections, one after the other.
func (n *node) dial(ctx context.Context, to netip.AddrPort) (err error) {
	d := roce.Dialer{ConnConfig: n.cfg}
	for i := range n.conns {
		if n.conns[i], err = d.DialAddr(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// accept takes them in that order.
func (n *node) accept(ctx context.Context, l *roce.Listener) (err error) {
	for i := range n.conns {
		if n.conns[i], err = l.Accept(ctx); err != nil {
			return err
		}
	}
	return nil
}

// memory returns the registered memory after taking the lock of each connection's shard once,
// which orders this goroutine after whatever the device wrote before.
func (n *node) memory() []byte {
	for _, c := range n.conns {
		if c != nil {
			c.QP().State()
		}
	}
	return n.buf.Bytes()
}

// servePeer is the peer process: it answers requests until its input ends.
func servePeer(ctx context.Context, dev *verbs.Device, in io.Reader, out io.Writer) error {
	n, err := newNode(dev)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(n.buf.Bytes()[wordOffset:], firstValue)
	lc := roce.ListenConfig{ConnConfig: n.cfg}
	l, err := lc.ListenAddr(netip.AddrPortFrom(dev.Addrs()[0], 0))
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(ctx)
	accepted := make(chan error, 1)
	var accepting sync.WaitGroup
	accepting.Go(func() { accepted <- n.accept(ctx, l) })
	defer accepting.Wait()
	defer cancel()
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q request
		if err := dec.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := n.answer(ctx, q, l, accepted)
		if err != nil {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}

func (n *node) answer(ctx context.Context, q request, l *roce.Listener, accepted <-chan error) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	switch q.Op {
	case "hello":
		return reply{PID: os.Getpid(), Addr: l.Addr().String(), VAddr: n.mr.Addr(), RKey: uint32(n.mr.RKey())}, nil
	case "connect":
		select {
		case err := <-accepted:
			return reply{}, err
		case <-ctx.Done():
			return reply{}, fmt.Errorf("no connection came: %w", context.Cause(ctx))
		}
	case "received":
		m, err := n.conns[mainConn].RecvMsg(ctx)
		if err != nil {
			return reply{}, fmt.Errorf("no message arrived: %w", err)
		}
		defer m.Release()
		if m.Len() != q.Len {
			return reply{}, fmt.Errorf("a message of %d bytes arrived instead of %d", m.Len(), q.Len)
		}
		if i := differs(m.Bytes(), q.Seed); i >= 0 {
			return reply{}, fmt.Errorf("byte %d of the message is wrong", i)
		}
		return reply{}, nil
	case "check":
		if q.Off < 0 || q.Len < 0 || q.Off > memoryBytes-q.Len {
			return reply{}, errors.New("outside the memory")
		}
		return reply{}, n.check(q.Off, q.Len, q.Seed)
	case "fill":
		pattern(n.memory()[dataOffset:dataOffset+dataBytes], q.Seed)
		return reply{}, nil
	case "word":
		return reply{Word: binary.NativeEndian.Uint64(n.memory()[wordOffset:])}, nil
	case "event":
		return n.accessError(ctx)
	}
	return reply{}, fmt.Errorf("unknown request %q", q.Op)
}

// accessError waits for the asynchronous event about a refused access. Others may precede it.
func (n *node) accessError(ctx context.Context) (reply, error) {
	for {
		e, err := n.dev.AsyncEvent(ctx)
		if err != nil {
			return reply{}, fmt.Errorf("no event about a refused access: %w", err)
		}
		if e.QP == n.conns[victimConn].QP() && (e.Type == verbs.EventQPAccessError || e.Type == verbs.EventQPFatal) {
			return reply{Event: e.Type.String()}, nil
		}
	}
}

// check compares memory with what belongs there.
func (n *node) check(off, length int, seed uint64) error {
	if i := differs(n.memory()[off:off+length], seed); i >= 0 {
		return fmt.Errorf("byte %d of %d at offset %d is wrong", i, length, off)
	}
	return nil
}
