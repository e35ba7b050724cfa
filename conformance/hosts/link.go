package hosts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/ib"
)

// LinkInUse is what the kernel shows to be open at the place.
func (h Local) LinkInUse() (string, error) { return LinkAt(h.At) }

// LinkAt asks the kernel which link is open at a place; "" is none.
func LinkAt(at *lab.Host) (string, error) {
	device, err := at.Interface()
	if err != nil {
		return "", err
	}
	var packet, udpSockets []byte
	err = at.Do(func() error {
		var errs []error
		for _, f := range []struct {
			to   *[]byte
			name string
		}{{&packet, "packet"}, {&udpSockets, "udp"}, {&udpSockets, "udp6"}} {
			b, err := os.ReadFile("/proc/thread-self/net/" + f.name)
			*f.to = append(*f.to, b...)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return "", err
	}
	return linkInUse(device, string(packet), string(udpSockets)), nil
}

// linkInUse tells the link from what the kernel says of the interface ("ip -d link"), of packet
// sockets and of UDP sockets. Links that go around UDP may hold its port all the same.
func linkInUse(device, packet, udpSockets string) string {
	switch {
	case strings.Contains(device, "xdp"):
		return "xdp"
	case strings.Count(strings.TrimSpace(packet), "\n") > 0: // below the heading
		return "packet"
	case strings.Contains(udpSockets, fmt.Sprintf(":%04X ", ib.UDPPort)):
		return "udp"
	}
	return ""
}
