package main

import (
	"net"
	"runtime"
	"testing"
)

// A server takes what a client sends, and answers its small messages.
func TestTransfer(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := c.LocalAddr().String()
	if err := c.Close(); err != nil { // the server listens there next
		t.Fatal(err)
	}
	server, client := &work{}, &work{}
	for i, f := range []func(chan struct{}) error{
		func(r chan struct{}) error { return server.serve(at, r) },
		func(r chan struct{}) error { return client.send(at, true, r) },
	} {
		ready, failed := make(chan struct{}), make(chan error, 1)
		go func() { failed <- f(ready) }()
		select {
		case <-ready:
		case err := <-failed:
			t.Fatal(i, err)
		}
	}
	trips := 0
	for server.sample().Bytes[0] < 1<<20 || trips < 3 {
		trips += len(client.sample().Trips)
		runtime.Gosched()
	}
}
