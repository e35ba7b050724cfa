package programs

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/goroce/goroce/internal/netns"
)

// Interface is the name of the interface at both ends.
const Interface = netns.Device

// linkMTU has room for the largest path MTU.
const linkMTU = 9000

// Net is two network namespaces with a link between them.
type Net struct{ netns.Pair }

// NewNet makes the namespaces and the link.
func NewNet() (*Net, error) {
	var addrs [2][]netip.Prefix
	for i := range addrs {
		addrs[i] = []netip.Prefix{netip.PrefixFrom(addr4(i), 24), netip.PrefixFrom(addr6(i), 64)}
	}
	p, err := netns.NewPair(linkMTU, addrs)
	if err != nil {
		return nil, err
	}
	return &Net{p}, nil
}

func addr4(end int) netip.Addr { return netip.AddrFrom4([4]byte{10, 97, 0, byte(end + 1)}) }
func addr6(end int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd97::%d", end+1)) }

// HostPlace returns one end, for programs of this machine, on the project's programs and libraries
// in a folder.
func (n *Net) HostPlace(bin string, end int, opts ...string) *Place {
	p := n.Place(nil, end, opts...)
	p.own = filepath.Join(bin, ownProgram)
	return p
}

// Place returns one end, for programs of a stage.
func (n *Net) Place(s *Stage, end int, opts ...string) *Place {
	return &Place{Stage: s, Addr4: addr4(end), Addr6: addr6(end), Options: opts,
		own: ownDir + "/" + ownProgram, do: n.Pair[end].Do}
}
