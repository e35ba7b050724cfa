package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce"
)

// LoadArgs say what clients do on a number of connections.
type LoadArgs struct {
	By    string
	Addr  netip.Addr     // that the server listens on
	At    netip.AddrPort // where it is, for clients
	Conns int
	Size  int   // of a request and of its answer; 0: streams
	Ns    int64 // how long
}

const (
	// writeBytes is what a stream is written in, and what its reader has room for.
	writeBytes = 256 << 10
	// remoteBytes is what a stream of roce.Conn is written in, one after the other, and the memory
	// of a connection that it is written to.
	remoteBytes = chunkBytes
	// computeSteps is how much is computed between two looks at whether to end.
	computeSteps = 1 << 20
)

// load is what a node has open of one.
type load struct {
	serving []io.Closer
	clients []client
	times   [][]time.Duration // of each client's requests
	regions atomic.Int64      // that were handed out
}

// client is a connection of a load.
type client interface {
	ask(b []byte) error
	// write writes b until it has been long enough, once at least, and returns how many bytes have
	// arrived.
	write(b []byte, over func() bool) (int, error)
	Close() error
}

// ServeLoad serves one.
func (n *Node) ServeLoad(a LoadArgs, at *netip.AddrPort) (err error) {
	n.load.regions.Store(0)
	var open io.Closer
	if a.By == ByConn || a.By == ByRead {
		serve := answerMessages
		if a.By == ByRead || a.Size == 0 {
			serve = n.shareMemory
		}
		open, *at, err = n.serveConns(a.Addr, serve)
	} else {
		var l net.Listener
		serve := swallow
		if a.Size > 0 {
			serve = func(c net.Conn) { answerStream(c, a.Size) }
		}
		if l, *at, err = n.listen(a.By, a.Addr); err == nil {
			go serveStreams(l, serve)
		}
		open = l
	}
	if err == nil {
		n.load.serving = append(n.load.serving, open)
	}
	return err
}

// shareMemory lets the peer read and write memory of its own, until it goes.
func (n *Node) shareMemory(ctx context.Context, c *roce.Conn) error {
	off := int(n.load.regions.Add(1)-1) * remoteBytes % len(n.buf)
	if _, err := c.Share(ctx, n.buf[off:off+remoteBytes], roce.RemoteRead|roce.RemoteWrite); err != nil {
		return err
	}
	return answerMessages(ctx, c)
}

// swallow reads what comes, and says how much that was.
func swallow(c net.Conn) {
	defer c.Close()
	// Without the methods by which io.Copy would leave the reading to somebody else.
	k, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, writeBytes))
	if err == nil {
		_, _ = c.Write(binary.BigEndian.AppendUint64(nil, uint64(k)))
	}
}

// OpenLoad connects the clients.
func (n *Node) OpenLoad(a LoadArgs, _ *struct{}) error {
	n.load.clients = make([]client, a.Conns)
	return each(n.load.clients, func(c *client) error {
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		defer cancel()
		own, err := n.dialLoad(ctx, &a)
		if err == nil {
			*c = own
		}
		return err
	})
}

func (n *Node) dialLoad(ctx context.Context, a *LoadArgs) (client, error) {
	switch a.By {
	case ByTCP, ByRSocket:
		c, err := n.dial(ctx, a.By, a.At)
		return streamClient{streamAsker{c}}, err
	case ByConn, ByRead:
		c, err := n.dialConn(ctx, a.At)
		if err != nil || a.By == ByConn && a.Size > 0 {
			return connClient{connAsker: connAsker{c}}, err
		}
		m, err := c.Shared(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		own := connClient{connAsker{c}, m}
		if a.By == ByRead {
			return readClient{own}, nil
		}
		return own, nil
	}
	return nil, fmt.Errorf("no load goes by %q", a.By)
}

// streamClient is one of TCP or rsocket.
type streamClient struct{ streamAsker }

func (c streamClient) write(b []byte, over func() bool) (int, error) {
	b = b[:writeBytes]
	total := 0
	for total == 0 || !over() {
		k, err := c.Write(b)
		if err != nil {
			return 0, err
		}
		total += k
	}
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return 0, err
	}
	var answer [8]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return 0, err
	}
	if got := binary.BigEndian.Uint64(answer[:]); got != uint64(total) {
		return 0, fmt.Errorf("%d bytes written, %d read", total, got)
	}
	return total, nil
}

// connClient is one of roce.Conn.
type connClient struct {
	connAsker
	memory roce.RemoteMemory
}

func (c connClient) write(b []byte, over func() bool) (int, error) {
	total := 0
	for total == 0 || !over() {
		if err := c.Write(context.Background(), b, c.memory); err != nil {
			return 0, err
		}
		total += len(b)
	}
	return total, nil
}

// readClient takes its answers from the server's memory.
type readClient struct{ connClient }

func (c readClient) ask(b []byte) error { return c.Read(context.Background(), b, c.memory) }

// LoadReply is what was done.
type LoadReply struct {
	Requests int
	Bytes    int // of streams
	Ns       int64
	CPU      float64 // seconds, of this node
}

// RunLoad asks again and again over all connections, or writes streams, which it ends.
func (n *Node) RunLoad(a LoadArgs, r *LoadReply) error {
	clients := n.load.clients
	times := make([][]time.Duration, len(clients))
	written := make([]int, len(clients))
	index := make([]int, len(clients))
	for i := range index {
		index[i] = i
	}
	var before, after Usage
	if err := n.Usage(false, &before); err != nil {
		return err
	}
	start := time.Now()
	over := func() bool { return time.Since(start) >= time.Duration(a.Ns) }
	stuck := time.AfterFunc(time.Duration(a.Ns)+giveUp, func() { _ = closeAll(clients) })
	err := each(index, func(i *int) (err error) {
		if a.Size == 0 {
			written[*i], err = clients[*i].write(n.buf[*i*chunkBytes%len(n.buf):][:chunkBytes], over)
			return err
		}
		times[*i], err = askUntil(clients[*i], a.Size, over)
		return err
	})
	r.Ns = int64(time.Since(start))
	if !stuck.Stop() {
		err = errors.Join(fmt.Errorf("not done in %v after the time was over", giveUp), err)
	}
	if err == nil {
		err = n.Usage(false, &after)
	}
	r.CPU = after.CPU - before.CPU
	for i := range clients {
		r.Requests += len(times[i])
		r.Bytes += written[i]
	}
	n.load.times = times
	return err
}

// askUntil asks until it has been long enough, once at least, and returns how long each took.
func askUntil(c client, size int, over func() bool) ([]time.Duration, error) {
	b := make([]byte, size)
	var took []time.Duration
	for len(took) == 0 || !over() {
		start := time.Now()
		if err := c.ask(b); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// LoadTimes returns how long the requests of the last run took, in microseconds. It is apart from
// the run, because sorting takes CPU time.
func (n *Node) LoadTimes(_ struct{}, r *PingReply) error {
	var all []float64
	for _, ts := range n.load.times {
		for _, t := range ts {
			all = append(all, float64(t)/1e3)
		}
	}
	if len(all) == 0 {
		return errors.New("there were no requests")
	}
	*r = percentiles(all)
	return nil
}

// CloseLoad ends what ServeLoad or OpenLoad began.
func (n *Node) CloseLoad(struct{}, *struct{}) error {
	err := closeAll(n.load.clients)
	for _, s := range n.load.serving {
		err = errors.Join(err, s.Close())
	}
	n.load.serving, n.load.clients, n.load.times = nil, nil, nil
	return err
}

func closeAll(clients []client) (err error) {
	for _, c := range clients {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// computing is goroutines that compute.
type computing struct {
	stop atomic.Bool
	done sync.WaitGroup
	sum  atomic.Uint64
}

// Compute starts so many goroutines that compute, until StopComputing.
func (n *Node) Compute(goroutines int, _ *struct{}) error {
	n.computing.stop.Store(false)
	for range goroutines {
		n.computing.done.Add(1)
		go func() {
			defer n.computing.done.Done()
			x := uint64(1)
			for !n.computing.stop.Load() {
				for range computeSteps {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
				}
			}
			n.computing.sum.Add(x) // so that it is computed
		}()
	}
	return nil
}

// StopComputing ends it.
func (n *Node) StopComputing(struct{}, *struct{}) error {
	n.computing.stop.Store(true)
	n.computing.done.Wait()
	return nil
}
