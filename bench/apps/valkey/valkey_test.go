package valkey

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
)

// serve is a server of the same protocol for GET and SET, at an address of loopback.
func serve(t *testing.T, addr string) {
	t.Helper()
	l, err := (&roce.ListenConfig{ConnConfig: config()}).Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		for {
			rc, err := l.Accept(ctx)
			if err != nil {
				return
			}
			c, err := begin(rc, true)
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() { answer(c) })
			wg.Go(func() { <-c.done; c.Close() })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); wg.Wait() })
}

// answer answers what comes on a connection.
func answer(c net.Conn) {
	r := bufio.NewReader(c)
	values := map[string][]byte{}
	for {
		line, err := readLine(r)
		if err != nil {
			return
		}
		var args [][]byte
		for range line[1] - '0' {
			arg, err := readReply(r)
			if err != nil {
				return
			}
			args = append(args, arg)
		}
		reply := []byte("+OK\r\n")
		switch string(args[0]) {
		case "SET":
			values[string(args[1])] = args[2]
		case "GET":
			v := values[string(args[1])]
			reply = append(append(fmt.Appendf(nil, "$%d\r\n", len(v)), v...), "\r\n"...)
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// exchange sets and gets values, so many bytes that each buffer begins again several times.
func exchange(t *testing.T, addr string) {
	t.Helper()
	c, err := Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := NewClient(c)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		key, value := fmt.Appendf(nil, "goroce:%d", i%7), make([]byte, []int{0, 1, 100, 70_000, 300_000, 1 << 20}[i%6])
		for k := range value {
			value[k] = byte(rng.Uint32())
		}
		if got, err := client.Do([]byte("SET"), key, value); err != nil || string(got) != "OK" {
			t.Fatalf("SET: %q, %v", got, err)
		}
		if got, err := client.Do([]byte("GET"), key); err != nil || !bytes.Equal(got, value) {
			t.Fatalf("GET: %d bytes of %d, %v", len(got), len(value), err)
		}
	}
}

func TestExchange(t *testing.T) {
	const addr = "127.44.6.1:6379"
	serve(t, addr)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { exchange(t, addr) })
	}
	wg.Wait()
}

// An unmodified server: VALKEY_RDMA is the address of its RDMA module.
func TestServer(t *testing.T) {
	addr := os.Getenv("VALKEY_RDMA")
	if addr == "" {
		t.Skip("VALKEY_RDMA does not name a valkey-server with its RDMA module (host:port)")
	}
	exchange(t, addr)
}

func TestDeadlineAndEnd(t *testing.T) {
	const addr = "127.44.6.2:6379"
	serve(t, addr)
	c, err := Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != os.ErrDeadlineExceeded {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(c)
		ended <- err
	}()
	c.Close()
	<-ended
	if _, err := c.Write([]byte("x")); err == nil {
		t.Fatal("wrote to a connection that is closed")
	}
}
