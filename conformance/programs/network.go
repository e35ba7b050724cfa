package programs

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/internal/netns"
)

// device is the name of the interface at both ends.
const device = Interface

// Interface is that name.
const Interface = "veth0"

// linkMTU has room for the largest path MTU.
const linkMTU = 9000

// Net is two network namespaces with a link between them.
type Net struct {
	ends [2]*netns.Namespace
}

// NewNet makes the namespaces and the link.
func NewNet() (*Net, error) {
	n := &Net{}
	for i := range n.ends {
		var err error
		if n.ends[i], err = netns.New(); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	err := n.ip(0, "link add %s mtu %d type veth peer name %s mtu %d netns %s", device, linkMTU, device, linkMTU, n.ends[1].Path())
	for i := range n.ends {
		if err == nil {
			err = errors.Join(n.ip(i, "link set lo up"), n.ip(i, "addr add %v/24 dev %s", addr4(i), device),
				n.ip(i, "addr add %v/64 dev %s nodad", addr6(i), device), n.ip(i, "link set %s up", device))
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func addr4(end int) netip.Addr { return netip.AddrFrom4([4]byte{10, 97, 0, byte(end + 1)}) }
func addr6(end int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd97::%d", end+1)) }

// ip runs a command of iproute2 at one end.
func (n *Net) ip(end int, format string, args ...any) error {
	cmd := exec.Command("ip", strings.Fields(fmt.Sprintf(format, args...))...)
	var out []byte
	var err error
	if e := n.ends[end].Do(func() { out, err = cmd.CombinedOutput() }); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// SetUp takes the link down at one end, or up again.
func (n *Net) SetUp(end int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return n.ip(end, "link set %s %s", device, state)
}

// Close lets go of the namespaces.
func (n *Net) Close() error {
	var err error
	for _, ns := range n.ends {
		if ns != nil {
			err = errors.Join(err, ns.Close())
		}
	}
	return err
}

// HostPlace returns one end, for programs of this machine, on the project's programs and libraries in a folder.
func (n *Net) HostPlace(bin string, end int, opts ...string) *Place {
	p := n.Place(nil, end, opts...)
	p.own = filepath.Join(bin, ownProgram)
	return p
}

// Place returns one end, for programs of a stage.
func (n *Net) Place(s *Stage, end int, opts ...string) *Place {
	return &Place{Stage: s, Addr4: addr4(end), Addr6: addr6(end), Options: opts, own: ownDir + "/" + ownProgram, do: n.ends[end].Do}
}
