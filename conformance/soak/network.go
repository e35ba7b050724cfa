package soak

import (
	"errors"
	"net/netip"
	"os"

	"github.com/goroce/goroce/internal/netns"
)

// mtus are those that the link has in turn. Path MTUs of 1024, 2048 and 4096 fit.
var mtus = []int{1500, 9000, 2300}

// network is two sides and what is between them.
type network struct {
	sides [2]side // clients, servers
	pair  netns.Pair
}

// side is one end.
type side struct {
	addr netip.Addr
	ns   *netns.Namespace // nil: this process's own
}

// newNetwork makes two namespaces and a veth pair, or, without the privilege, takes two loopback
// addresses.
func newNetwork() (*network, error) {
	n := &network{}
	var addrs [2][]netip.Prefix
	for i := range addrs {
		n.sides[i].addr = netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)})
		addrs[i] = []netip.Prefix{netip.PrefixFrom(n.sides[i].addr, 24)}
	}
	p, err := netns.NewPair(mtus[0], addrs)
	if refused := (*os.SyscallError)(nil); errors.As(err, &refused) { // no namespace
		return &network{sides: [2]side{
			{addr: netip.MustParseAddr("127.0.99.1")}, {addr: netip.MustParseAddr("127.0.99.2")},
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	n.pair = p
	for i := range n.sides {
		n.sides[i].ns = p[i]
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

func (n *network) setMTU(mtu int) error { return n.pair.SetMTU(mtu) }

// setUp takes one end down, or up again.
func (n *network) setUp(side int, up bool) error { return n.pair.SetUp(side, up) }

func (n *network) close() { _ = n.pair.Close() }

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
