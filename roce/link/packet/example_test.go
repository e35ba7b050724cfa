package packet_test

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/verbs"
)

// A device on a packet link, or what to do where that is not permitted.
func ExampleOpen() {
	l, err := packet.Open(packet.Options{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.8")}})
	if errors.Is(err, syscall.EPERM) {
		fmt.Println(err) // says that CAP_NET_RAW is missing
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := verbs.Open(verbs.Config{Link: l})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	fmt.Println(d.Port().LinkName, d.Capabilities().ICRCBits)
}
