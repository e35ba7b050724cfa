package verbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
)

// MappedBuffer is page-aligned memory outside the Go heap, where large buffers cost the garbage
// collector nothing. It must be closed, which unmaps it.
type MappedBuffer struct {
	mu    sync.Mutex
	b     []byte
	whole []byte       // as mapped
	users atomic.Int32 // registrations that still use the memory
	huge  bool
}

// hugePageBytes is the size of huge pages asked for.
const hugePageBytes = 2 << 20

// MapBuffer maps n bytes of zeroed memory. With huge it asks for huge pages of 2 MiB, and if none
// are reserved for transparent ones; Huge tells which it got.
func MapBuffer(n int, huge bool) (*MappedBuffer, error) {
	if n <= 0 {
		return nil, argError("map buffer", "n", "must be positive")
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if huge {
		size := (n + hugePageBytes - 1) &^ (hugePageBytes - 1)
		if m, err := unix.Mmap(-1, 0, size, prot, flags|unix.MAP_HUGETLB); err == nil {
			return &MappedBuffer{b: m[:n:n], whole: m, huge: true}, nil
		}
	}
	size := (n + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	m, err := unix.Mmap(-1, 0, size, prot, flags)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if huge {
		// Best effort: without it the memory is merely slower to translate.
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	}
	return &MappedBuffer{b: m[:n:n], whole: m}, nil
}

// AllocBuffer maps n bytes and registers them.
func (pd *PD) AllocBuffer(n int, access Access) (*MappedBuffer, *MR, error) {
	b, err := MapBuffer(n, n >= hugePageBytes)
	if err != nil {
		return nil, nil, err
	}
	mr, err := b.Register(pd, access, nil)
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return b, mr, nil
}

// Register registers the buffer, which then cannot be closed before the region. nil means no
// options.
func (b *MappedBuffer) Register(pd *PD, access Access, o *MROptions) (*MR, error) {
	mem := b.retain()
	if mem == nil {
		return nil, ErrClosed
	}
	// The buffer's lock is not held here: the device takes its own lock, and releases the buffer
	// under it.
	mr, err := pd.RegisterMR(mem, access, b.countRelease(o))
	if err != nil {
		b.users.Add(-1)
	}
	return mr, err
}

// retain counts a registration and returns the memory; nil if the buffer is closed.
func (b *MappedBuffer) retain() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b != nil {
		b.users.Add(1)
	}
	return b.b
}

// countRelease returns options that also count the end of the registration.
func (b *MappedBuffer) countRelease(given *MROptions) *MROptions {
	var o MROptions
	if given != nil {
		o = *given
	}
	also := o.OnRelease
	o.OnRelease = func() {
		b.users.Add(-1)
		if also != nil {
			also()
		}
	}
	return &o
}

// Bytes returns the memory; nil once closed. It must not be touched after Close.
func (b *MappedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b
}

// Huge reports whether the buffer is in reserved huge pages.
func (b *MappedBuffer) Huge() bool { return b.huge }

// Close unmaps the memory. It fails with ErrBusy while a registration uses it.
func (b *MappedBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b == nil {
		return nil
	}
	if n := b.users.Load(); n > 0 {
		return &OpError{Op: "close buffer", Err: detailed(ErrBusy, fmt.Sprintf("%d regions", n))}
	}
	err := unix.Munmap(b.whole)
	b.b, b.whole = nil, nil
	return os.NewSyscallError("munmap", err)
}
