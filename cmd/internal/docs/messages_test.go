package docs

import (
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/roce"
)

// guide: begin messages
// echo is a handler: it is called for each connection, in a goroutine of its own.
func echo(ctx context.Context, c *roce.Conn) error {
	for {
		m, err := c.RecvMsg(ctx) // in the buffer that it came to
		if err != nil {
			return err // io.EOF when the peer has closed
		}
		err = c.Send(ctx, m.Bytes()) // returns when the peer's adapter has it
		if err := errors.Join(err, m.Release()); err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, addr string, question string) (string, error) {
	c, err := roce.Dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Send(ctx, []byte(question)); err != nil {
		return "", err
	}
	answer := make([]byte, roce.DefaultRecvBytes)
	n, err := c.Recv(ctx, answer)
	return string(answer[:n]), err
}

// guide: end

func Example_messages() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.1:0"))
	defer l.Close()
	go func() { _ = l.Serve(ctx, echo) }()
	fmt.Println(ask(ctx, l.Addr().String(), "hello"))
	// Output: hello <nil>
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
