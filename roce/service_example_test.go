package roce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/goroce/goroce/roce"
)

// upper answers each message until the client hangs up, or the server shuts down.
func upper(ctx context.Context, c *roce.Conn) error {
	for {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			return err
		}
		err = c.Send(ctx, append([]byte("HELLO "), m.Bytes()...))
		if err := errors.Join(err, m.Release()); err != nil {
			return err
		}
	}
}

// A server that is told to end answers what it has begun, and then ends.
func ExampleServer_Shutdown() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.5:0")
	check(err)
	srv := &roce.Server{Handler: upper}
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, l) }()

	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	defer c.Close()
	check(c.Send(ctx, []byte("world")))
	answer := make([]byte, 64)
	n, err := c.Recv(ctx, answer)
	check(err)
	fmt.Printf("%s\n", answer[:n])

	// In a program: when a signal has come.
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println("shutdown:", srv.Shutdown(patience))
	fmt.Println("serve:", <-served)
	fmt.Println("the client sees the end:", c.Wait(ctx))
	// Output:
	// HELLO world
	// shutdown: <nil>
	// serve: the server is shutting down
	// the client sees the end: <nil>
}

// Work that takes several messages of the peer: Shutdown lets the handler wait for the rest of it.
func ExampleConn_BeginWork() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.10:0")
	check(err)
	begun := make(chan struct{})
	recv := func(c *roce.Conn) (string, error) {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			return "", err
		}
		return string(m.Bytes()), m.Release()
	}
	srv := &roce.Server{Handler: func(ctx context.Context, c *roce.Conn) error {
		first, err := recv(c)
		if err != nil {
			return err
		}
		c.BeginWork()
		close(begun)
		second, err := recv(c)
		if err != nil {
			return err
		}
		c.EndWork()
		fmt.Println("order:", first, second)
		_, err = recv(c) // between two orders: Shutdown ends it
		fmt.Println("handler:", errors.Is(err, roce.ErrServerClosed))
		return err
	}}
	go func() { _ = srv.Serve(ctx, l) }()

	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	defer c.Close()
	check(c.Send(ctx, []byte("ten")))
	<-begun
	down := make(chan error)
	go func() { down <- srv.Shutdown(ctx) }()
	check(c.Send(ctx, []byte("apples")))
	fmt.Println("shutdown:", <-down)
	// Output:
	// order: ten apples
	// handler: true
	// shutdown: <nil>
}

// A whole device ends when its work is done: servers, and connections that were dialed.
func ExampleShutdown() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.6:0")
	check(err)
	go func() { _ = l.Serve(ctx, upper) }()
	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	check(c.Send(ctx, []byte("x")))
	check(c.Close())
	fmt.Println(roce.Shutdown(ctx, c.Device()))
	d, err := roce.DefaultDevice(l.Addr().Addr())
	check(err)
	fmt.Println(roce.Shutdown(ctx, d))
	// Output:
	// <nil>
	// <nil>
}

// Deadlines are there beside contexts, as for a net.Conn.
func ExampleConn_SetReadDeadline() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.7:0")
	check(err)
	defer l.Close()
	go func() { _ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error { return c.Wait(ctx) }) }()
	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	defer c.Close()
	check(c.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = c.RecvMsg(ctx) // nothing comes
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
	// Output: true
}

// How a connection fares.
func ExampleConn_Stats() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.8:0")
	check(err)
	defer l.Close()
	go func() { _ = l.Serve(ctx, upper) }()
	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	check(c.Send(ctx, []byte("you")))
	_, err = c.RecvMsg(ctx)
	check(err)
	s := c.Stats()
	fmt.Println(s.State, s.SentMessages, s.SentBytes, s.ReceivedBytes, s.SmoothedRTT > 0)
	check(c.Close())
	fmt.Println(c.Stats().State)
	// Output:
	// open 1 3 9 true
	// closed
}

// What begins and ends is logged, if somebody wants to know.
func ExampleConnConfig_logger() {
	ctx := context.Background()
	// Without what is another one in each run.
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey || a.Key == slog.LevelKey {
			return a
		}
		return slog.Attr{}
	}}
	l, err := roce.Listen(ctx, "127.77.0.9:0")
	check(err)
	defer l.Close()
	go func() { _ = l.Serve(ctx, upper) }()
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Logger: slog.New(slog.NewTextHandler(os.Stdout, plain))}}
	c, err := d.Dial(ctx, l.Addr().String())
	check(err)
	check(c.Send(ctx, []byte("x")))
	check(c.Close())
	// Output:
	// level=INFO msg="roce: connection established"
	// level=INFO msg="roce: connection closed"
}

// The longest message that the peer takes was told when the connection was made.
func ExampleConn_MaxMessage() {
	ctx := context.Background()
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{RecvBytes: 1000}}
	l, err := lc.Listen(ctx, "127.77.0.10:0")
	check(err)
	defer l.Close()
	go func() { _ = l.Serve(ctx, upper) }()
	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	defer c.Close()
	fmt.Println(c.MaxMessage())
	fmt.Println(errors.Is(c.Send(ctx, make([]byte, 1001)), roce.ErrMessageTooLong))
	fmt.Println(c.Send(ctx, []byte("the connection goes on")))
	// Output:
	// 1000
	// true
	// <nil>
}

// A listener whose connections the program handles itself waits until they are closed.
func ExampleListener_Shutdown() {
	ctx := context.Background()
	l, err := roce.Listen(ctx, "127.77.0.11:0")
	check(err)
	accepted := make(chan *roce.Conn)
	go func() {
		c, err := l.Accept(ctx)
		check(err)
		accepted <- c
	}()
	client, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	defer client.Close()
	c := <-accepted
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	fmt.Println(errors.Is(l.Shutdown(soon), os.ErrDeadlineExceeded)) // c is open
	check(c.Close())
	fmt.Println(l.Shutdown(ctx))
	// Output:
	// true
	// <nil>
}
