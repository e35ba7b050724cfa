package peer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/verbs"
)

// goroceLinks are the links that a Goroce can be opened on, each by the name that the
// tools know it by (--link). The device closes the link.
var goroceLinks = []goroceLink{
	{"udp", func(o linkOptions) (link.Link, error) {
		return udp.OpenAny(o.addrs, udp.Options{RxeFlush: o.rxeFlush})
	}},
	{"packet", func(o linkOptions) (link.Link, error) {
		return packet.Open(packet.Options{Addrs: o.addrs, RxeFlush: o.rxeFlush, Exclusive: o.bare})
	}},
	{"xdp", func(o linkOptions) (link.Link, error) {
		return xdp.Open(xdp.Options{Addrs: o.addrs, RxeFlush: o.rxeFlush})
	}},
}

type goroceLink struct {
	name string
	open func(linkOptions) (link.Link, error)
}

type linkOptions struct {
	addrs    []netip.Addr
	rxeFlush bool
	bare     bool // without a device
}

// DefaultLink is what an empty GorocePlace.Link stands for.
const DefaultLink = "udp"

// Links returns the names of the links.
func Links() []string {
	names := make([]string, 0, len(goroceLinks))
	for _, l := range goroceLinks {
		names = append(names, l.name)
	}
	return names
}

// CheckLink returns an error that lists the links if there is none of that name.
func CheckLink(name string) error {
	if slices.Contains(Links(), name) {
		return nil
	}
	return fmt.Errorf("peer: %q is not a link: use one of %s", name, strings.Join(Links(), ", "))
}

// OpenBareLink opens a link by its name without a device on it: of packet and xdp, which give such
// a user the packets for all queue pairs.
func OpenBareLink(name string, addrs []netip.Addr) (link.Link, error) {
	if name == DefaultLink {
		return nil, fmt.Errorf("peer: the link %s is for devices only", name)
	}
	return openLink(name, linkOptions{addrs: addrs, bare: true})
}

func openLink(name string, o linkOptions) (link.Link, error) {
	i := slices.IndexFunc(goroceLinks, func(l goroceLink) bool { return l.name == name })
	if i < 0 {
		return nil, CheckLink(name)
	}
	return goroceLinks[i].open(o)
}

// openDevice opens a device on the link of a place.
func openDevice(at GorocePlace) (*verbs.Device, error) {
	k, err := openLink(at.Link, linkOptions{addrs: at.Addrs(), rxeFlush: at.RxeFlush})
	if err != nil {
		return nil, err
	}
	if at.WrapLink != nil {
		k = at.WrapLink(k)
	}
	dev, err := verbs.Open(verbs.Config{Addrs: at.Addrs(), Link: k, Tuning: at.Tuning})
	if err != nil {
		k.Close()
		return nil, err
	}
	return dev, nil
}
