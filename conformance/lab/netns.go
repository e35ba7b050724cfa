package lab

import (
	"fmt"
	"os"

	"github.com/goroce/goroce/internal/netns"
)

// Namespace is a network namespace with its loopback up. Sockets stay in the namespace in which
// they were opened, so one process can have devices in several, with a switch of package ether
// between them. Nothing of the machine's own network is seen or touched. It needs root.
type Namespace struct{ *netns.Namespace }

// NewNamespace makes an empty namespace. The error is unix.EPERM (by errors.Is) without the
// privilege.
func NewNamespace() (*Namespace, error) {
	made, err := netns.New()
	if err != nil {
		return nil, fmt.Errorf("lab: network namespace: %w", err)
	}
	n := &Namespace{made}
	if err := n.Do(func() error { return ip("link", "set", "lo", "up") }); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Do runs f inside of the namespace and returns what it returns. Goroutines that f starts are
// outside.
func (n *Namespace) Do(f func() error) (err error) {
	if e := n.Namespace.Do(func() { err = f() }); e != nil {
		return e
	}
	return err
}

// Tap makes a tap device with addresses ("10.0.0.1/24") in the namespace and returns its far end,
// for a port of a ether.Switch.
func (n *Namespace) Tap(name string, mtu int, addrs ...string) (f *os.File, err error) {
	err = n.Do(func() error {
		f, err = openTap(name, mtu, addrs...)
		return err
	})
	return f, err
}
