// Package netlab makes the network of a measurement: two network namespaces with a
// veth pair between them where that is permitted, otherwise two loopback
// addresses.
//
// The namespaces have no names. They end with the processes in them and with Close,
// and so does the pair.
//
// # Concurrency
//
// A Net is made and used by one goroutine at a time.
package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/goroce/goroce/internal/netns"
)

// MTU is that of the veth pair: room for the largest path MTU.
const MTU = 9000

// device is the name of the interface in both namespaces.
const device = "veth0"

// Net is the network.
type Net struct {
	A, B Side
	// Kind says what it is, for reports.
	Kind string
}

// Side is one end of it.
type Side struct {
	Addr netip.Addr
	ns   *netns.Namespace // nil: this process's own
}

// New makes the network. Without the privilege, or the ip command, it is loopback, and
// Kind says why.
func New() (*Net, error) {
	n := &Net{}
	var err error
	for _, s := range []*Side{&n.A, &n.B} {
		if s.ns, err = netns.New(); err != nil {
			return Loopback(fmt.Sprintf("a namespace needs root: %v", err)), n.Close()
		}
	}
	n.A.Addr, n.B.Addr = netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("10.98.0.2")
	if _, err := exec.LookPath("ip"); err != nil {
		return Loopback(err.Error()), n.Close()
	}
	mtu := fmt.Sprint(MTU)
	err = n.A.Run(exec.Command("ip", "link", "add", device, "mtu", mtu, "type", "veth", "peer", "name", device, "mtu", mtu, "netns", n.B.ns.Path()))
	for _, s := range []*Side{&n.A, &n.B} {
		for _, args := range []string{"link set lo up", "addr add " + s.Addr.String() + "/24 dev " + device, "link set " + device + " up"} {
			if err == nil {
				err = s.Run(exec.Command("ip", strings.Fields(args)...))
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.Kind = fmt.Sprintf("two network namespaces, veth pair, MTU %d", MTU)
	return n, nil
}

// Loopback is the network without privilege.
func Loopback(why string) *Net {
	return &Net{
		A: Side{Addr: netip.MustParseAddr("127.0.98.1")}, B: Side{Addr: netip.MustParseAddr("127.0.98.2")},
		Kind: "loopback addresses of one machine (" + why + ")",
	}
}

// Virtual reports whether the network is a veth pair.
func (n *Net) Virtual() bool { return n.A.ns != nil }

// Offload switches segmentation offload of the interfaces on or off: without, the
// kernel cuts segmented datagrams up. ok is false if that cannot be done.
func (n *Net) Offload(on bool) (ok bool) {
	if !n.Virtual() {
		return false
	}
	state := map[bool]string{true: "on", false: "off"}[on]
	for _, s := range []*Side{&n.A, &n.B} {
		if s.Run(exec.Command("ethtool", "-K", device, "tx-udp-segmentation", state)) != nil {
			return false
		}
	}
	return true
}

// SetMTU gives the interfaces an MTU. ok is false if that cannot be done.
func (n *Net) SetMTU(mtu int) (ok bool) {
	if !n.Virtual() {
		return false
	}
	for _, s := range []*Side{&n.A, &n.B} {
		if s.Run(exec.Command("ip", "link", "set", device, "mtu", fmt.Sprint(mtu))) != nil {
			return false
		}
	}
	return true
}

// Close ends the namespaces, once no process is in them.
func (n *Net) Close() error {
	var err error
	for _, s := range []*Side{&n.A, &n.B} {
		if s.ns != nil {
			err = errors.Join(err, s.ns.Close())
			s.ns = nil
		}
	}
	return err
}

// Start starts a command at this end.
func (s *Side) Start(cmd *exec.Cmd) (err error) {
	if s.ns == nil {
		return cmd.Start()
	}
	if e := s.ns.Do(func() { err = cmd.Start() }); e != nil {
		return e
	}
	return err
}

// Run runs a command at this end. What it printed is in the error.
func (s *Side) Run(cmd *exec.Cmd) error {
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
