package rdmacm_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// An identifier of librdmacm's kind, with its events.
func ExampleID() {
	ctx := context.Background()
	host := netip.MustParseAddr("127.77.0.3")
	dev, err := roce.DefaultDevice(host)
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16, nil)
	check(err)
	events, err := rdmacm.CreateEventChannel(dev)
	check(err)
	id, err := rdmacm.CreateID(events, rdmacm.PortSpaceTCP)
	check(err)
	defer id.Close()
	// Nobody listens there.
	check(id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(host, 1)))
	for {
		e, err := events.Get(ctx)
		check(err)
		fmt.Println(e.Type)
		switch e.Type {
		case rdmacm.EventAddrResolved:
			check(id.ResolveRoute())
		case rdmacm.EventRouteResolved:
			_, err = id.CreateQP(pd, verbs.QPInitAttr{SendCQ: cq})
			check(err)
			check(id.Connect(nil))
		case rdmacm.EventRejected:
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
