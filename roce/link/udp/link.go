package udp

import (
	"errors"
	"net/netip"

	"github.com/goroce/goroce/roce/link"
)

// Open opens the link on local addresses.
func Open(addrs []netip.Addr, o Options) (link.Link, error) {
	return nil, errors.New("udp link: not there yet")
}
