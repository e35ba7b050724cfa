package xdp

import (
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// ring is one of the four rings shared with the kernel. One side produces, the other consumes; the
// methods used determine which side this process is.
type ring[T unix.XDPDesc | uint64] struct {
	mem        []byte
	prod, cons *uint32
	flags      *uint32
	entries    []T
	mask       uint32
	next       uint32 // own position, ahead of what is published
	peer       uint32 // position of the kernel as last seen
}

// mapRing maps a ring of size entries.
func mapRing[T unix.XDPDesc | uint64](r *ring[T], fd int, page int64, o unix.XDPRingOffset, size int) error {
	var zero T
	n := int(o.Desc) + size*int(unsafe.Sizeof(zero))
	mem, err := unix.Mmap(fd, page, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap ring", err)
	}
	r.mem = mem
	r.prod = (*uint32)(unsafe.Pointer(&mem[o.Producer]))
	r.cons = (*uint32)(unsafe.Pointer(&mem[o.Consumer]))
	r.flags = (*uint32)(unsafe.Pointer(&mem[o.Flags]))
	r.entries = unsafe.Slice((*T)(unsafe.Pointer(&mem[o.Desc])), size)
	r.mask = uint32(size - 1)
	return nil
}

func (r *ring[T]) unmap() error {
	if r.mem == nil {
		return nil
	}
	err := unix.Munmap(r.mem)
	*r = ring[T]{}
	return os.NewSyscallError("munmap", err)
}

// room returns how many entries can be put, at least want if there is room.
func (r *ring[T]) room(want uint32) uint32 {
	size := r.mask + 1
	if free := size - (r.next - r.peer); free >= want {
		return free
	}
	r.peer = atomic.LoadUint32(r.cons)
	return size - (r.next - r.peer)
}

// put adds an entry; there must be room.
func (r *ring[T]) put(v T) {
	r.entries[r.next&r.mask] = v
	r.next++
}

// publish shows the kernel what was put.
func (r *ring[T]) publish() { atomic.StoreUint32(r.prod, r.next) }

// unconsumed returns how many published entries the kernel has not taken.
func (r *ring[T]) unconsumed() uint32 {
	r.peer = atomic.LoadUint32(r.cons)
	return r.next - r.peer
}

// available returns how many entries there are to take; it reads the kernel's position only if
// fewer than want are known.
func (r *ring[T]) available(want uint32) uint32 {
	if n := r.peer - r.next; n >= want {
		return n
	}
	r.peer = atomic.LoadUint32(r.prod)
	return r.peer - r.next
}

// at returns entry i of those available.
func (r *ring[T]) at(i uint32) T { return r.entries[(r.next+i)&r.mask] }

// take consumes n entries; release frees their places.
func (r *ring[T]) take(n uint32) { r.next += n }
func (r *ring[T]) release()      { atomic.StoreUint32(r.cons, r.next) }

// needsWakeup reports whether the kernel needs a call to go on.
func (r *ring[T]) needsWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}
