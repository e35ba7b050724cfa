package lab

import (
	"fmt"
	"net/netip"
	"os/exec"
)

// Host is a place of this machine on the segment under test: a network namespace with a tap
// and addresses of its own. Devices and programs at different Hosts meet only on the wire:
// each has port 4791, its TCP ports and its interface to itself, as if on machines of their
// own. It lives as long as its Lab.
type Host struct {
	// Name is the name of its port on the wire and of the tap.
	Name string
	// Addr4 and Addr6 are its addresses on the segment under test.
	Addr4, Addr6 netip.Addr

	ns *Namespace
}

// AddHost makes one more place, MaxHosts at most.
func (l *Lab) AddHost() (*Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.hosts)
	if n >= MaxHosts {
		return nil, fmt.Errorf("lab: more than %d hosts", MaxHosts)
	}
	h := &Host{
		Name:  fmt.Sprintf("host%d", n),
		Addr4: netip.MustParseAddr(fmt.Sprintf("%s%d", net4, firstHost+n)),
		Addr6: netip.MustParseAddr(fmt.Sprintf("%s%d", net6, firstHost+n)),
	}
	var err error
	if h.ns, err = NewNamespace(); err != nil {
		return nil, err
	}
	f, err := h.ns.Tap(h.Name, mtu, h.Addr4.String()+"/24", h.Addr6.String()+"/64")
	if err != nil {
		h.ns.Close()
		return nil, err
	}
	if _, err := l.Wire.Attach(h.Name, f); err != nil {
		f.Close()
		h.ns.Close()
		return nil, err
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// Do runs f where the sockets that it opens are the Host's. Goroutines that it starts are outside.
func (h *Host) Do(f func() error) error { return h.ns.Do(f) }

// Start starts a command there.
func (h *Host) Start(cmd *exec.Cmd) error { return h.ns.Do(cmd.Start) }

// Interface returns what "ip -d link" says of the tap.
func (h *Host) Interface() (out string, err error) {
	err = h.ns.Do(func() error {
		out, err = ipOutput("-d", "link", "show", "dev", h.Name)
		return err
	})
	return out, err
}
