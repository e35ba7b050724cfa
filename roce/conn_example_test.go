package roce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// serve gives its client memory to write to and read from.
func serve(ctx context.Context, l *roce.Listener) {
	c, err := l.Accept(ctx)
	check(err)
	defer c.Close()
	memory, err := c.Register(make([]byte, 64), verbs.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
	check(err)
	key, err := memory.Remote().MarshalBinary()
	check(err)
	check(c.Send(ctx, key))
	reply := make([]byte, 64)
	n, err := c.Recv(ctx, reply)
	check(err)
	fmt.Printf("client: %s\nmemory: %s\n", reply[:n], memory.Bytes()[:5])
}

// client writes to the memory of the server, and reads it back.
func client(ctx context.Context, addr string) {
	c, err := roce.Dial(ctx, addr)
	check(err)
	defer c.Close()
	key := make([]byte, roce.RemoteMemoryBytes)
	_, err = c.Recv(ctx, key)
	check(err)
	var memory roce.RemoteMemory
	check(memory.UnmarshalBinary(key))
	check(c.Write(ctx, []byte("hello"), memory)) // the server does nothing
	back := make([]byte, 5)
	check(c.Read(ctx, back, memory)) // nor now
	check(c.Send(ctx, append([]byte("I read "), back...)))
}

// A client and a server, usually on two hosts.
func ExampleDial() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.3:0") // all of 127.0.0.0/8 is this machine
	check(err)
	defer l.Close()
	done := make(chan bool)
	go func() { serve(ctx, l); close(done) }()
	client(ctx, l.Addr().String())
	<-done
	// Output:
	// client: I read hello
	// memory: hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
