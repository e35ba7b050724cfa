package readme

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce"
)

// README: begin
func server(ctx context.Context, l *roce.Listener) string {
	c := must(l.Accept(ctx))
	defer c.Close()
	memory := must(c.Register(make([]byte, 64), roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead))
	check(c.Send(ctx, must(memory.Remote().MarshalBinary()))) // where it is, and its key
	must(c.Recv(ctx, make([]byte, 16)))                       // wait for "done"
	return string(memory.Bytes()[:5])                         // written by the client
}

func client(ctx context.Context, addr string) string {
	c := must(roce.Dial(ctx, addr)) // RDMA-CM, then an RC queue pair: UDP, no root
	defer c.Close()
	key := make([]byte, roce.RemoteMemoryBytes)
	must(c.Recv(ctx, key))
	var memory roce.RemoteMemory
	check(memory.UnmarshalBinary(key))
	check(c.Write(ctx, []byte("hello"), memory)) // RDMA WRITE: the server's program does nothing
	back := make([]byte, 5)
	check(c.Read(ctx, back, memory)) // RDMA READ: nor now
	check(c.Send(ctx, []byte("done")))
	return string(back)
}

// README: end

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// freeAddr returns an address of 127/8 that no other device uses.
func freeAddr() netip.Addr {
	for {
		var r [3]byte
		must(rand.Read(r[:]))
		a := netip.AddrFrom4([4]byte{127, 32 + r[0]&31, r[1], max(r[2], 1)})
		if c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 4791))); err == nil {
			check(c.Close())
			return a
		}
	}
}

// One side writes into the memory of the other and reads it back; the other
// does nothing for it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l := must(roce.Listen(ctx, netip.AddrPortFrom(freeAddr(), 0).String()))
	defer l.Close()
	written := make(chan string)
	go func() { written <- server(ctx, l) }()
	fmt.Println("read:", client(ctx, l.Addr().String()))
	fmt.Println("in the server's memory:", <-written)
	// Output:
	// read: hello
	// in the server's memory: hello
}
