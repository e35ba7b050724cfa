// Package netns makes network namespaces without names, which end with the last socket and process
// in them and with [Namespace.Close], and enters those that there are. It needs root.
//
// # Concurrency
//
// A Namespace may be used from anywhere until it is closed.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// Namespace is a network namespace.
type Namespace struct {
	file *os.File
}

// New makes an empty namespace, with its loopback interface down. The error is
// unix.EPERM (by errors.Is) without the privilege.
func New() (*Namespace, error) {
	n := &Namespace{}
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Open opens a namespace that there is, by a path such as /run/netns/NAME.
func Open(path string) (*Namespace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Namespace{f}, nil
}

// Do runs f on a thread that is in the namespace; sockets that it opens and commands that it starts
// stay there, goroutines do not. f may end by runtime.Goexit.
func (n *Namespace) Do(f func()) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		f()
		return nil
	})
}

// onThread runs f on a thread that ends with it, whatever it has become by then.
func onThread(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread is not used again
		if unix.Gettid() == unix.Getpid() {
			// The main thread never ends, and /proc/self is about it. This holds it while
			// another does the work.
			err = onThread(f)
			runtime.UnlockOSThread()
			return
		}
		err = f()
	}()
	<-done
	return err
}

// Path is a name of the namespace for commands, while this process lives.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Close lets go of the namespace.
func (n *Namespace) Close() error { return n.file.Close() }
