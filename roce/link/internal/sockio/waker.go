package sockio

import (
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
)

// Waker is an event file descriptor that makes the poll of a link return.
type Waker struct {
	// mu keeps Wake from writing to a closed descriptor.
	mu     sync.Mutex
	fd     int
	closed bool
	woken  atomic.Bool
}

// NewWaker makes the descriptor.
func NewWaker() (*Waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Waker{fd: fd}, nil
}

// FD returns the descriptor to poll for reading.
func (w *Waker) FD() int { return w.fd }

// Wake makes the descriptor readable until the next Clear. After Close it does nothing.
func (w *Waker) Wake() {
	if w.woken.Swap(true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		// The counter cannot overflow: woken lets one write through for each read.
		_, _ = unix.Write(w.fd, one[:])
	}
}

// Clear consumes past wakes. The caller of poll calls it when the descriptor was readable.
func (w *Waker) Clear() {
	var b [8]byte
	// In this order: a Wake in between does not write, but the caller is about to return from its
	// wait. In the other order its write would be read here, and woken would keep later Wakes from
	// writing.
	_, _ = unix.Read(w.fd, b[:])
	w.woken.Store(false)
}

// Take is Clear for a caller that has not polled: a Wake that has not written yet stays one.
func (w *Waker) Take() {
	var b [8]byte
	if w.woken.Load() {
		if n, _ := unix.Read(w.fd, b[:]); n == len(b) {
			w.woken.Store(false)
		}
	}
}

// Close closes the descriptor. Closing again does nothing.
func (w *Waker) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return os.NewSyscallError("close", unix.Close(w.fd))
}
