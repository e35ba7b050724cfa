package rsocket_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// Two datagram sockets of one device. The other side could be any program on librdmacm's
// rsocket(AF_INET, SOCK_DGRAM, 0).
func ExamplePacketConfig_ListenAddr() {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	// The device's address, and a free port.
	server, err := (&rsocket.PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := (&rsocket.PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if _, err := client.WriteTo([]byte("hello"), server.LocalAddr()); err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 2048)
	n, from, err := server.ReadFrom(b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, from the client: %v\n", b[:n], from.String() == client.LocalAddr().String())
	// Output: hello, from the client: true
}
