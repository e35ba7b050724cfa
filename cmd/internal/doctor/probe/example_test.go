package probe_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/doctor/probe"
)

// Both ends of a path, here over loopback.
func Example() {
	server, err := probe.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Serve(ctx) }()
	r, err := probe.Run(ctx, probe.Config{Local: netip.MustParseAddr("127.0.0.1"), Remote: server.Addr(),
		LocalMTU: 1500, Patience: 10 * time.Second})
	cancel()
	<-done
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("reachable:", r.Reachable)
	fmt.Println("ICRC there and back:", r.Forward.ICRC, r.Back.ICRC)
	fmt.Println("path MTU:", r.Forward.MTU)
	fmt.Println("ECN is kept:", r.Forward.ECN.ECT && r.Forward.ECN.CE)
	// Output:
	// reachable: true
	// ICRC there and back: good good
	// path MTU: 1024
	// ECN is kept: true
}
