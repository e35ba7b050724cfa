package suite

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/goroce/goroce/internal/netns"
)

// vethMTU is that of the veth pair: room for the largest path MTU.
const vethMTU = 9000

// vethName is the name of the interface in both namespaces.
const vethName = "veth0"

// network is that of a measurement: two network namespaces with a veth pair between them where that
// is permitted, otherwise two loopback addresses. The namespaces have no names. They end with the
// processes in them and with Close, and so does the pair. One goroutine at a time uses it.
type network struct {
	A, B side
	// Kind says what it is, for reports.
	Kind string
}

// side is one end of it.
type side struct {
	Addr netip.Addr
	ns   *netns.Namespace // nil: this process's own
}

// newNetwork makes the network. Without the privilege, or the ip command, it is loopback, and
// Kind says why.
func newNetwork() (*network, error) {
	n := &network{}
	var err error
	for _, s := range []*side{&n.A, &n.B} {
		if s.ns, err = netns.New(); err != nil {
			return loopback(fmt.Sprintf("a namespace needs root: %v", err)), n.Close()
		}
	}
	n.A.Addr, n.B.Addr = netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("10.98.0.2")
	if _, err := exec.LookPath("ip"); err != nil {
		return loopback(err.Error()), n.Close()
	}
	mtu := fmt.Sprint(vethMTU)
	err = n.A.Run(exec.Command("ip", "link", "add", vethName, "mtu", mtu, "type", "veth", "peer", "name",
		vethName, "mtu", mtu, "netns", n.B.ns.Path()))
	for _, s := range []*side{&n.A, &n.B} {
		for _, args := range []string{"link set lo up", "addr add " + s.Addr.String() + "/24 dev " + vethName,
			"link set " + vethName + " up"} {
			if err == nil {
				err = s.Run(exec.Command("ip", strings.Fields(args)...))
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.Kind = fmt.Sprintf("two network namespaces, veth pair, MTU %d", vethMTU)
	return n, nil
}

// loopback is the network without privilege.
func loopback(why string) *network {
	return &network{
		A: side{Addr: netip.MustParseAddr("127.0.98.1")}, B: side{Addr: netip.MustParseAddr("127.0.98.2")},
		Kind: "loopback addresses of one machine (" + why + ")",
	}
}

// Virtual reports whether the network is a veth pair.
func (n *network) Virtual() bool { return n.A.ns != nil }

// Offload switches segmentation offload of the interfaces on or off: without, the
// kernel cuts segmented datagrams up. ok is false if that cannot be done.
func (n *network) Offload(on bool) (ok bool) {
	if !n.Virtual() {
		return false
	}
	state := map[bool]string{true: "on", false: "off"}[on]
	for _, s := range []*side{&n.A, &n.B} {
		if s.Run(exec.Command("ethtool", "-K", vethName, "tx-udp-segmentation", state)) != nil {
			return false
		}
	}
	return true
}

// SetMTU gives the interfaces an MTU. ok is false if that cannot be done.
func (n *network) SetMTU(mtu int) (ok bool) {
	if !n.Virtual() {
		return false
	}
	for _, s := range []*side{&n.A, &n.B} {
		if s.Run(exec.Command("ip", "link", "set", vethName, "mtu", fmt.Sprint(mtu))) != nil {
			return false
		}
	}
	return true
}

// Close ends the namespaces, once no process is in them.
func (n *network) Close() error {
	var err error
	for _, s := range []*side{&n.A, &n.B} {
		if s.ns != nil {
			err = errors.Join(err, s.ns.Close())
			s.ns = nil
		}
	}
	return err
}

// Start starts a command at this end.
func (s *side) Start(cmd *exec.Cmd) (err error) {
	if s.ns == nil {
		return cmd.Start()
	}
	if e := s.ns.Do(func() { err = cmd.Start() }); e != nil {
		return e
	}
	return err
}

// Run runs a command at this end. What it printed is in the error.
func (s *side) Run(cmd *exec.Cmd) error {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := s.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}
