package lab

import (
	"fmt"
	"os"
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// Namespace is a network namespace of this process's own: a thread that lives in it and does there
// what it is told. Sockets stay in the namespace in which they were opened, so that one process can
// have devices in several, with a switch of package wire between them. Nothing of the machine's own
// network is seen or touched. It needs root.
type Namespace struct {
	calls chan func()
}

// NewNamespace makes an empty namespace, with its loopback up. The error is
// unix.EPERM (by errors.Is) without the privilege.
func NewNamespace() (*Namespace, error) {
	n := &Namespace{calls: make(chan func())}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and the namespace
		// with the last socket in it.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- fmt.Errorf("lab: network namespace: %w", err)
			return
		}
		made <- nil
		for f := range n.calls {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	if err := n.Do(func() error { return ip("link", "set", "lo", "up") }); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Do runs f inside of the namespace and returns what it returns. Goroutines
// that f starts are outside.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	n.calls <- func() { done <- f() }
	return <-done
}

// Tap makes a tap device with addresses ("10.0.0.1/24") in the namespace and
// returns its far end, for a port of a wire.Switch.
func (n *Namespace) Tap(name string, mtu int, addrs ...string) (*os.File, error) {
	var f *os.File
	err := n.Do(func() (err error) {
		f, err = openTap(name, mtu, addrs...)
		return err
	})
	return f, err
}

// Close ends the thread. The namespace goes when nothing in it is open.
func (n *Namespace) Close() { close(n.calls) }
