package soak

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/goroce/goroce/internal/netns"
)

// device is the name of the interface on both sides.
const device = "veth0"

// mtus are those that the link has in turn. Path MTUs of 1024, 2048 and 4096 fit.
var mtus = []int{1500, 9000, 2300}

// network is two sides and what is between them.
type network struct {
	sides [2]side // clients, servers
}

// side is one end.
type side struct {
	addr netip.Addr
	ns   *netns.Namespace // nil: this process's own
}

// newNetwork makes two namespaces and a veth pair, or, without the privilege, takes two loopback addresses.
func newNetwork() (*network, error) {
	n := &network{}
	for i := range n.sides {
		var err error
		if n.sides[i].ns, err = netns.New(); err != nil {
			n.close()
			return &network{[2]side{{addr: netip.MustParseAddr("127.0.99.1")}, {addr: netip.MustParseAddr("127.0.99.2")}}}, nil
		}
		n.sides[i].addr = netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)})
	}
	err := n.sides[0].ip("link add %s type veth peer name %s netns %s", device, device, n.sides[1].ns.Path())
	for i := range n.sides {
		s := &n.sides[i]
		if err == nil {
			err = errors.Join(s.ip("link set lo up"), s.ip("addr add %s/24 dev %s", s.addr, device), s.ip("link set %s up", device))
		}
	}
	if err == nil {
		err = n.setMTU(mtus[0])
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// virtual reports whether there is a link that something can happen to.
func (n *network) virtual() bool { return n.sides[0].ns != nil }

func (n *network) String() string {
	if n.virtual() {
		return "two network namespaces, veth pair"
	}
	return "loopback addresses, without link events"
}

func (n *network) setMTU(mtu int) error {
	return errors.Join(n.sides[0].ip("link set %s mtu %d", device, mtu), n.sides[1].ip("link set %s mtu %d", device, mtu))
}

// setUp takes one end down, or up again.
func (n *network) setUp(side int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return n.sides[side].ip("link set %s %s", device, state)
}

func (n *network) close() {
	for _, s := range n.sides {
		if s.ns != nil {
			s.ns.Close()
		}
	}
}

// ip runs a command of iproute2.
func (s *side) ip(format string, args ...any) error {
	cmd := exec.Command("ip", strings.Fields(fmt.Sprintf(format, args...))...)
	var out []byte
	err := s.do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// do runs f on this side.
func (s *side) do(f func() error) (err error) {
	if s.ns == nil {
		return f()
	}
	if e := s.ns.Do(func() { err = f() }); e != nil {
		return e
	}
	return err
}
