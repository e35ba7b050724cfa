package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
)

// Device is the name of the interface at both ends of a Pair.
const Device = "veth0"

// Pair is two namespaces with a link between them, a veth pair.
type Pair [2]*Namespace

// NewPair makes the namespaces and the link, which is up, with the addresses of each end. The error
// is unix.EPERM (by errors.Is) without the privilege.
func NewPair(mtu int, addrs [2][]netip.Prefix) (p Pair, err error) {
	for i := range p {
		if p[i], err = New(); err != nil {
			return Pair{}, errors.Join(err, p.Close())
		}
	}
	err = p[0].IP("link add %s mtu %d type veth peer name %s mtu %d netns %s", Device, mtu, Device, mtu, p[1].Path())
	for i, n := range p {
		if err != nil {
			break
		}
		err = n.IP("link set lo up")
		for _, a := range addrs[i] {
			nodad := ""
			if a.Addr().Is6() {
				nodad = "nodad"
			}
			err = errors.Join(err, n.IP("addr add %v dev %s %s", a, Device, nodad))
		}
		err = errors.Join(err, n.IP("link set %s up", Device))
	}
	if err != nil {
		return Pair{}, errors.Join(err, p.Close())
	}
	return p, nil
}

// SetUp takes one end of the link down, or up again.
func (p Pair) SetUp(end int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return p[end].IP("link set %s %s", Device, state)
}

// SetMTU changes the MTU at both ends.
func (p Pair) SetMTU(mtu int) error {
	return errors.Join(p[0].IP("link set %s mtu %d", Device, mtu), p[1].IP("link set %s mtu %d", Device, mtu))
}

// Close lets go of the namespaces.
func (p Pair) Close() error {
	var err error
	for _, n := range p {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}

// IP runs a command of iproute2 in the namespace. What it printed is in the error.
func (n *Namespace) IP(format string, args ...any) error {
	cmd := exec.Command("ip", strings.Fields(fmt.Sprintf(format, args...))...)
	var out []byte
	var err error
	if e := n.Do(func() { out, err = cmd.CombinedOutput() }); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
