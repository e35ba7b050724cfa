package rsocket_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// device opens a device on one of the loopback addresses.
func device(t testing.TB) *verbs.Device {
	t.Helper()
	p := os.Getpid()
	for i := range 1000 {
		a := netip.AddrFrom4([4]byte{127, byte(p>>7) | 0x80, byte(p)&0x7f | byte(i/200)<<7, byte(i%200) + 1})
		d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{a}})
		if err == nil {
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			return d
		}
	}
	t.Fatal("no free loopback address")
	return nil
}

// net/http, both sides, over rsocket: keep-alive connections, many at a time, large bodies both
// ways, and a shutdown that leaves nothing.
func TestHTTP(t *testing.T) {
	a, b := device(t), device(t)
	l, err := (&rsocket.ListenConfig{Device: b}).ListenAddr(netip.AddrPortFrom(b.Addrs()[0], 0))
	require.NoError(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Digest", fmt.Sprintf("%x", sha256.Sum256(body)))
		_, _ = w.Write(bytes.Repeat(body, 2))
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	tr := &http.Transport{DialContext: (&rsocket.Dialer{Device: a}).DialContext, MaxIdleConnsPerHost: 4}
	client := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 10 {
				body := bytes.Repeat([]byte{byte(worker), byte(i)}, 1<<(2*i))
				resp, err := client.Post("http://"+l.Addr().String()+"/", "application/octet-stream",
					bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, bytes.Repeat(body, 2)) ||
					resp.Header.Get("Digest") != fmt.Sprintf("%x", sha256.Sum256(body)) {
					t.Errorf("worker %d request %d: %d bytes, %v", worker, i, len(got), err)
				}
			}
		})
	}
	wg.Wait()
	tr.CloseIdleConnections()
	require.NoError(t, srv.Shutdown(context.Background()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

// A web server and its client, as curl would be.
func Example() {
	open := func(addr string) *verbs.Device {
		d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
		if err != nil {
			log.Fatal(err)
		}
		return d
	}
	server, client := open("127.80.0.1"), open("127.80.0.2")
	defer server.Close()
	defer client.Close()

	l, err := (&rsocket.ListenConfig{Device: server}).ListenAddr(netip.MustParseAddrPort("127.80.0.1:80"))
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s over RDMA", r.Method, r.URL.Path)
	}))
	defer l.Close()

	web := http.Client{Transport: &http.Transport{
		DialContext: (&rsocket.Dialer{Device: client}).DialContext, DisableKeepAlives: true,
	}}
	resp, err := web.Get("http://127.80.0.1/index.html")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s\n", body)
	// Output: GET of /index.html over RDMA
}

// Two ends of a stream, without net/http.
func ExampleDial() {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.80.0.3")}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	l, err := (&rsocket.ListenConfig{Device: d}).ListenAddr(netip.MustParseAddrPort("127.80.0.3:7471"))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.AcceptConn()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c) // until the client has said it all
	}()

	c, err := (&rsocket.Dialer{Device: d}).DialAddr(context.Background(), netip.MustParseAddrPort("127.80.0.3:7471"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "there and back")
	c.CloseWrite()
	b, err := io.ReadAll(c)
	fmt.Printf("%s %v\n", b, err)
	// Output: there and back <nil>
}

// Memory that the peer writes by itself.
func ExampleConn_Map() {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.80.0.4")}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	at := netip.MustParseAddrPort("127.80.0.4:7471")
	l, err := (&rsocket.ListenConfig{Device: d, Config: rsocket.Config{IOMaps: 1}}).ListenAddr(at)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	c, err := (&rsocket.Dialer{Device: d}).DialAddr(context.Background(), at)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptConn()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	// The client maps memory, and says so by sending something.
	screen := make([]byte, 20)
	m, err := c.Map(screen, 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(c, "!")
	b := make([]byte, 1)
	io.ReadFull(s, b)
	// The server writes there, and then says so.
	s.WriteAt([]byte("hello"), 1007)
	fmt.Fprint(s, "!")
	io.ReadFull(c, b)
	m.Sync()
	fmt.Printf("%q\n", screen)
	// Output: "\x00\x00\x00\x00\x00\x00\x00hello\x00\x00\x00\x00\x00\x00\x00\x00"
}
