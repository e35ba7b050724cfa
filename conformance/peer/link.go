package peer

import (
	"fmt"
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
var goroceLinks = []struct {
	name string
	open func(GorocePlace) (link.Link, error)
}{
	{"udp", func(at GorocePlace) (link.Link, error) {
		return udp.Open(at.Addrs(), udp.Options{RxeFlush: at.RxeFlush})
	}},
	{"packet", func(at GorocePlace) (link.Link, error) {
		return packet.Open(packet.Options{Addrs: at.Addrs(), RxeFlush: at.RxeFlush})
	}},
	{"xdp", func(at GorocePlace) (link.Link, error) {
		return xdp.Open(xdp.Options{Addrs: at.Addrs(), RxeFlush: at.RxeFlush})
	}},
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

// openDevice opens a device on the link of a place.
func openDevice(at GorocePlace) (*verbs.Device, error) {
	for _, l := range goroceLinks {
		if l.name != at.Link {
			continue
		}
		k, err := l.open(at)
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
	return nil, CheckLink(at.Link)
}
