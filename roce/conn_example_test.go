package roce_test

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/roce"
)

// A server lets its client write to a buffer and read it.
func ExampleDial() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() { // the client
		c, _ := roce.Dial(ctx, l.Addr().String())
		defer c.Close()
		var key [16]byte
		_, _ = c.Recv(ctx, key[:])
		var remote roce.RemoteMemory
		_ = remote.UnmarshalBinary(key[:])
		_ = c.Write(ctx, []byte("written by the client"), remote)
		back := make([]byte, 7)
		_ = c.Read(ctx, back, remote)
		_ = c.Send(ctx, append([]byte("I have read back: "), back...))
	}()
	c, _ := l.Accept(ctx)
	defer c.Close()
	memory, _ := c.Register(make([]byte, 64), roce.RemoteWrite|roce.RemoteRead|roce.LocalWrite)
	key, _ := memory.Remote().MarshalBinary()
	_ = c.Send(ctx, key)
	message := make([]byte, 64)
	n, _ := c.Recv(ctx, message)
	fmt.Println(string(message[:n]))
	fmt.Println(string(memory.Bytes()[:21]))
	// Output:
	// I have read back: written
	// written by the client
}
