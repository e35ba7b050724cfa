package rsocket_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/goroce/goroce/roce/rsocket"
	"github.com/stretchr/testify/require"
)

// HTTP/2 without TLS, as gRPC uses it: many streams on one connection, each of
// them two-way at the same time, with trailers.
func TestHTTP2Streams(t *testing.T) {
	const streams, lines = 20, 50
	a, b := device(t), device(t)
	l, err := (&rsocket.ListenConfig{Device: b}).ListenAddr(netip.AddrPortFrom(b.Addrs()[0], 0))
	require.NoError(t, err)
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	var conns sync.Map
	srv := &http.Server{Protocols: &h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, r.ProtoMajor)
		w.Header().Set("Trailer", "Status")
		flush := http.NewResponseController(w)
		_ = flush.Flush() // the client waits for the header
		for in := bufio.NewScanner(r.Body); in.Scan(); {
			fmt.Fprintf(w, "re: %s\n", in.Text())
			_ = flush.Flush()
		}
		w.Header().Set("Status", "0")
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	tr := &http.Transport{Protocols: &h2, DialContext: (&rsocket.Dialer{Device: a}).DialContext}
	client := &http.Client{Transport: tr}
	call := func(stream int) error {
		r, w := io.Pipe()
		defer w.Close()
		resp, err := client.Post("http://"+l.Addr().String()+"/echo", "text/plain", r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answers := bufio.NewReader(resp.Body)
		for i := range lines {
			said := fmt.Sprintf("stream %d line %d", stream, i)
			fmt.Fprintln(w, said)
			if line, err := answers.ReadString('\n'); err != nil || line != "re: "+said+"\n" {
				return fmt.Errorf("%q: %v", line, err)
			}
		}
		w.Close()
		if _, err := answers.ReadByte(); err != io.EOF || resp.Trailer.Get("Status") != "0" {
			return fmt.Errorf("end: %v, trailer %v", err, resp.Trailer)
		}
		return nil
	}
	require.NoError(t, call(0), "the connection is there for the others")
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			if err := call(1 + i); err != nil {
				t.Errorf("stream %d: %v", 1+i, err)
			}
		})
	}
	wg.Wait()
	n := 0
	conns.Range(func(_, proto any) bool {
		n++
		require.Equal(t, 2, proto)
		return true
	})
	require.Equal(t, 1, n, "one connection for all")
	tr.CloseIdleConnections()
	require.NoError(t, srv.Shutdown(context.Background()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}
