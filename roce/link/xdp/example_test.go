//go:build linux

package xdp_test

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/verbs"
)

// A device on an interface with an XDP link. What the interface can do decides how it is attached.
func Example() {
	l, err := xdp.Open(xdp.Options{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	if err != nil {
		fmt.Println(err) // says what to do
		return
	}
	fmt.Println(l.Capabilities().Mode, l.MTU())
	dev, err := verbs.Open(verbs.Config{Addrs: l.Addrs(), Link: l})
	if err != nil {
		l.Close()
		return
	}
	defer dev.Close() // closes the link, too
}
