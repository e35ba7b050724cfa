package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// A service and two clients on a network that loses packets, and that is cut for half
// a minute. In a test, use sim.Test instead of sim.Run, and require instead of must.
func Example() {
	faults := sim.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05}
	sim.Run(sim.Config{Seed: 42, Faults: faults}, func(net *sim.Fabric) {
		addr := netip.MustParseAddrPort("192.0.2.1:7000")
		server := openOn(net, addr.Addr())
		defer server.Close()
		l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: server}}).ListenAddr(addr)
		must(err)
		ctx, stop := context.WithCancel(context.Background())
		var service sync.WaitGroup
		service.Go(func() { _ = l.Serve(ctx, shout) })

		var clients sync.WaitGroup
		for i, word := range []string{"hello", "goodbye"} {
			local := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
			clients.Go(func() {
				device := openOn(net, local)
				defer device.Close()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of virtual time
				defer cancel()
				dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: device}}
				c, err := dialer.DialAddr(ctx, addr)
				must(err)
				must(c.Send(ctx, []byte(word)))
				answer := make([]byte, 64)
				n, err := c.Recv(ctx, answer)
				must(err)
				fmt.Printf("%s\n", answer[:n])

				net.Partition(addr.Addr(), local, true)
				time.Sleep(30 * time.Second)
				net.Partition(addr.Addr(), local, false)
				if err := c.Send(ctx, []byte("anybody?")); errors.Is(err, context.DeadlineExceeded) {
					fmt.Println("a call hangs")
				}
				must(c.Close())
			})
			clients.Wait() // the next one when this has said what it has to say
		}
		stop()
		service.Wait()
	})
	// Output:
	// HELLO
	// GOODBYE
}

// shout is the service.
func shout(ctx context.Context, c *roce.Conn) error {
	b := make([]byte, 64)
	for {
		n, err := c.Recv(ctx, b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.Send(ctx, []byte(strings.ToUpper(string(b[:n])))); err != nil {
			return err
		}
	}
}

func openOn(net *sim.Fabric, addr netip.Addr) *verbs.Device {
	host, err := net.Link(addr)
	must(err)
	d, err := verbs.Open(verbs.Config{Link: host}) // the keys come from the seed, too
	must(err)
	return d
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
