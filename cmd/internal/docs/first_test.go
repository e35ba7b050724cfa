package docs_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce"
)

// README: begin
func server(ctx context.Context, addr string, memory []byte) error {
	l, err := roce.Listen(ctx, addr)
	if err != nil {
		return err
	}
	return l.Serve(ctx, roce.SharedMemory(memory, roce.RemoteWrite|roce.RemoteRead))
}

func client(ctx context.Context, addr string, back []byte) error {
	c, err := roce.Dial(ctx, addr) // RDMA-CM, then an RC queue pair: UDP, no root
	if err != nil {
		return err
	}
	defer c.Close()
	memory, err := c.Shared(ctx) // then RDMA WRITE and READ, for which the server's program does nothing
	if err != nil {
		return err
	}
	return cmp.Or(c.Write(ctx, []byte("hello"), memory), c.Read(ctx, back, memory))
}

// README: end

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// freeAddr returns an address of 127/8 that no other device uses.
func freeAddr() netip.Addr {
	for {
		var r [3]byte
		must(rand.Read(r[:]))
		a := netip.AddrFrom4([4]byte{127, 32 + r[0]&31, r[1], max(r[2], 1)})
		if c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 4791))); err == nil {
			must(0, c.Close())
			return a
		}
	}
}

// One side writes into the memory of the other and reads it back; the other's
// program does nothing for it.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	addr := netip.AddrPortFrom(freeAddr(), 7471).String()
	memory, back := make([]byte, 64), make([]byte, 5)
	served := make(chan error)
	go func() { served <- server(ctx, addr, memory) }()
	err := client(ctx, addr, back)
	for errors.Is(err, roce.ErrConnRefused) { // the server does not listen yet
		err = client(ctx, addr, back)
	}
	stop()
	fmt.Printf("client: %v, read %q\n", err, back)
	err = <-served
	fmt.Printf("server: stopped %t, %q in its memory\n", errors.Is(err, context.Canceled), memory[:5])
	// Output:
	// client: <nil>, read "hello"
	// server: stopped true, "hello" in its memory
}
