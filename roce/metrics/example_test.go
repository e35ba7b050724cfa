package metrics_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/metrics"
)

// The metrics of the device that Dial and Listen use, for /debug/vars and for whatever else wants
// them.
func Example() {
	d, err := roce.DefaultDevice(netip.MustParseAddr("127.77.2.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	metrics.Publish("roce", d)
	for _, m := range metrics.Read(d) {
		if m.Name == "retransmitted_pkts" || m.Name == "port_active" {
			fmt.Println(m.Name, m.Value)
		}
	}
	// Output:
	// retransmitted_pkts 0
	// port_active 1
}
