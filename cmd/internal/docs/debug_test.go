package docs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/goroce/goroce/roce/verbs"
)

// guide: begin debug
// openTraced opens a device that writes its packets to a file for Wireshark, and loses every
// hundredth that it sends.
func openTraced(addr netip.Addr, file io.Writer) (*verbs.Device, error) {
	return verbs.Open(verbs.Config{
		Addrs: []netip.Addr{addr},
		WrapLink: func(l link.Link) (link.Link, error) {
			traced, err := trace.New(l, file)
			if err != nil {
				return nil, err
			}
			return fault.New(traced, fault.Rule{Dir: fault.Send, Action: fault.Drop, Every: 100}), nil
		},
	})
}

// guide: end

func Example_debug() {
	ctx := context.Background()
	var file bytes.Buffer
	w := bufio.NewWriter(&file)
	d := must(openTraced(netip.MustParseAddr("127.77.8.9"), w))
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}
	l := must(lc.Listen(ctx, "127.77.8.9:0"))
	go func() { _ = l.Serve(ctx, echo) }()
	c := must((&roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}}).DialAddr(ctx, l.Addr()))
	for d.Counters().RetransmittedPkts == 0 { // until one was lost that is missed
		must(0, c.Send(ctx, []byte("hello")))
		must(c.Recv(ctx, make([]byte, 8)))
	}
	must(0, d.Close())
	must(0, w.Flush())
	fmt.Println("traced:", file.Len() > 1000)
	// Output:
	// traced: true
}
