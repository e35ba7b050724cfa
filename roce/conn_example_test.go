package roce_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/roce"
)

// serve gives its client memory to write to and read from.
func serve(ctx context.Context, l *roce.Listener) {
	c, err := l.Accept(ctx)
	check(err)
	defer c.Close()
	memory, err := c.Register(make([]byte, 64), roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
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

// An identifier of librdmacm's kind, with its events.
func ExampleCMID() {
	ctx := context.Background()
	host := netip.MustParseAddr("127.77.0.3")
	dev, err := roce.DefaultDevice(host)
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16, nil)
	check(err)
	events, err := dev.CreateEventChannel()
	check(err)
	id, err := dev.CreateID(events, roce.PortSpaceTCP)
	check(err)
	defer id.Close()
	// Nobody listens there.
	check(id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(host, 1)))
	for {
		e, err := events.Get(ctx)
		check(err)
		fmt.Println(e.Type)
		switch e.Type {
		case roce.CMAddrResolved:
			check(id.ResolveRoute())
		case roce.CMRouteResolved:
			_, err = id.CreateQP(pd, roce.QPInitAttr{SendCQ: cq})
			check(err)
			check(id.Connect(nil))
		case roce.CMRejected:
			fmt.Println(e.Err)
			return
		}
	}
	// Output:
	// RDMA_CM_EVENT_ADDR_RESOLVED
	// RDMA_CM_EVENT_ROUTE_RESOLVED
	// RDMA_CM_EVENT_REJECTED
	// roce: connection refused: nobody listens at 127.77.0.3:1 (CM reject: invalid service ID, 8)
}
