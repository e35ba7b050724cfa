package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Sockets are where a node serves the same things by rsocket or by TCP.
type Sockets struct {
	RSocket      bool
	HTTP, Stream netip.AddrPort
	Messages     netip.AddrPort // of roce.Conn in place of rsocket
}

const (
	// answerBytes is the length of the small answers.
	answerBytes = 128
	// downloadBytes is the length of the large one.
	downloadBytes = RegionBytes
	// chunkBytes is what a stream is written in, and what its reader has room for.
	chunkBytes = 1 << 20
	// warmUps are requests that each client makes before it is counted.
	warmUps = 8
)

// chunkLast is the first byte of a chunk that is to be answered with the number of chunks.
const chunkLast = 0xFF

// sockets is what a node has open of them.
type sockets struct {
	serving []io.Closer
	clients []*http.Client
	url     string
	stream  net.Conn
	askers  []asker
}

// ServeSockets serves HTTP and streams at an address, by TCP or on the device.
func (n *Node) ServeSockets(a SocketArgs, at *Sockets) error {
	web, stream := net.Listener(nil), net.Listener(nil)
	var err error
	if web, at.HTTP, err = n.listen(streamsBy(a.RSocket), a.Addr); err != nil {
		return err
	}
	s := &http.Server{Handler: n.handler()}
	n.sockets.serving = append(n.sockets.serving, s)
	go func() { _ = s.Serve(web) }() // until it is closed
	if stream, at.Stream, err = n.listen(streamsBy(a.RSocket), a.Addr); err != nil {
		return err
	}
	n.sockets.serving = append(n.sockets.serving, stream)
	go serveStreams(stream, sink)
	at.RSocket = a.RSocket
	at.Messages, err = n.serveMessages(a)
	return err
}

// SocketArgs say by what, and at which address.
type SocketArgs struct {
	RSocket bool
	Addr    netip.Addr
}

func streamsBy(rsocket bool) string {
	if rsocket {
		return ByRSocket
	}
	return ByTCP
}

func (n *Node) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/answer", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(n.buf[:answerBytes]) })
	m.HandleFunc("/download", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(n.buf[:downloadBytes]))
	})
	return m
}

// sink reads chunks, and answers the last of each run.
func sink(c net.Conn) {
	defer c.Close()
	b := make([]byte, chunkBytes)
	for chunks := uint64(1); ; chunks++ {
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if b[0] == chunkLast {
			if _, err := c.Write(binary.BigEndian.AppendUint64(nil, chunks)); err != nil {
				return
			}
			chunks = 0
		}
	}
}

// UseArgs say what to do with the sockets of the other node.
type UseArgs struct {
	At       Sockets
	Clients  int // that ask, each on a connection of its own; 0: a stream
	Download bool
	Messages bool
	Ns       int64 // for how long, at least
}

// UseSockets connects, and uses each connection for a moment.
func (n *Node) UseSockets(a UseArgs, _ *struct{}) error {
	u, by := &n.sockets, streamsBy(a.At.RSocket)
	if a.Messages {
		return n.openAskers(a)
	}
	if a.Clients == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		defer cancel()
		var err error
		if u.stream, err = n.dial(ctx, by, a.At.Stream); err != nil {
			return err
		}
		return n.RunSockets(UseArgs{}, new(SocketReply))
	}
	u.url = fmt.Sprintf("http://%s/answer", a.At.HTTP)
	times := warmUps
	if a.Download {
		u.url = fmt.Sprintf("http://%s/download", a.At.HTTP)
		times = 1
	}
	u.clients = make([]*http.Client, a.Clients)
	return each(u.clients, func(c **http.Client) error {
		*c = &http.Client{Timeout: giveUp, Transport: &http.Transport{
			DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return n.dial(ctx, by, a.At.HTTP)
			},
		}}
		buf := make([]byte, 64<<10)
		for range times {
			if _, err := get(*c, u.url, buf); err != nil {
				return err
			}
		}
		return nil
	})
}

// SocketReply is what was done.
type SocketReply struct {
	Requests int
	Bytes    int
	Ns       int64
}

// RunSockets asks again and again, or writes chunks, until all was answered.
func (n *Node) RunSockets(a UseArgs, r *SocketReply) error {
	u := &n.sockets
	start := time.Now()
	over := func() bool { return time.Since(start) >= time.Duration(a.Ns) }
	if u.askers != nil {
		requests, err := n.runAskers(over)
		r.Requests, r.Ns = requests, int64(time.Since(start))
		return err
	}
	if u.stream != nil {
		err := n.writeChunks(over, r)
		r.Ns = int64(time.Since(start))
		return err
	}
	var mu sync.Mutex
	err := each(u.clients, func(c **http.Client) error {
		buf := make([]byte, 64<<10)
		requests, total := 0, 0
		for requests == 0 || !over() {
			k, err := get(*c, u.url, buf)
			if err != nil {
				return err
			}
			requests, total = requests+1, total+k
		}
		mu.Lock()
		defer mu.Unlock()
		r.Requests, r.Bytes = r.Requests+requests, r.Bytes+total
		return nil
	})
	r.Ns = int64(time.Since(start))
	return err
}

// newChunk is memory to write from, every page of which was written. Linux maps one page of zeros
// wherever a program has only read: a sender of such memory reads its first-level cache, as no
// program does that has something to say.
func newChunk() []byte {
	b := make([]byte, chunkBytes)
	for i := range b {
		b[i] = byte(i % chunkLast)
	}
	return b
}

func (n *Node) writeChunks(over func() bool, r *SocketReply) error {
	b := newChunk()
	for b[0] != chunkLast {
		if over() {
			b[0] = chunkLast
		}
		k, err := n.sockets.stream.Write(b)
		if err != nil {
			return err
		}
		r.Bytes += k
	}
	var answer [8]byte
	if _, err := io.ReadFull(n.sockets.stream, answer[:]); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint64(answer[:]); got*chunkBytes != uint64(r.Bytes) {
		return fmt.Errorf("%d bytes written, %d chunks read", r.Bytes, got)
	}
	return nil
}

// get makes a request, and reads the answer into memory, as one does that wants it.
func get(c *http.Client, url string, buf []byte) (n int, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return 0, err
	}
	for err == nil {
		var k int
		k, err = resp.Body.Read(buf)
		n += k
	}
	if err == io.EOF {
		err = nil
	}
	if int64(n) != resp.ContentLength {
		err = errors.Join(err, fmt.Errorf("%d bytes of %d", n, resp.ContentLength))
	}
	return n, errors.Join(err, resp.Body.Close())
}

// each runs f for each element, at the same time.
func each[T any](list []T, f func(*T) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f(&list[i])
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// CloseSockets ends what ServeSockets or UseSockets began.
func (n *Node) CloseSockets(struct{}, *struct{}) error {
	u := &n.sockets
	var errs []error
	for _, c := range u.clients {
		if c != nil {
			c.CloseIdleConnections()
		}
	}
	for _, c := range u.askers {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if u.stream != nil {
		errs = append(errs, u.stream.Close())
	}
	for _, s := range u.serving {
		errs = append(errs, s.Close())
	}
	*u = sockets{}
	return errors.Join(errs...)
}
