package verbs

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Sizes of a BufPool, in bytes.
const (
	minPoolBuf = 256
	MaxPoolBuf = 1 << 20
	poolSlab   = 64 << 10 // registered at a time, unless one buffer is larger
	// DefaultPoolBytes bounds the memory of a pool.
	DefaultPoolBytes = 64 << 20
)

const poolClasses = 13 // 256 bytes to 1 MiB

// BufPool hands out buffers of registered memory, so that a program that only sends and receives
// need not deal with regions and keys. The buffers serve the local side of operations. The pool
// gives peers no rights, because its buffers share a region and thereby a key. For memory that
// peers may access see roce.Conn.Register.
//
// All methods may be called from any goroutine.
type BufPool struct {
	pd  *PD
	max int

	mu     sync.Mutex
	free   [poolClasses][]*poolSlot
	slabs  []*MR
	bytes  int
	out    int // buffers handed out
	closed bool
}

// NewBufPool makes a pool in a protection domain that holds up to maxBytes; 0 is DefaultPoolBytes.
// It registers memory when it needs some.
func NewBufPool(pd *PD, maxBytes int) *BufPool {
	if maxBytes <= 0 {
		maxBytes = DefaultPoolBytes
	}
	return &BufPool{pd: pd, max: maxBytes}
}

// PoolBuf is a buffer of a BufPool. Copies of it are the same buffer: releasing one releases all.
type PoolBuf struct {
	slot *poolSlot
	turn uint64 // the slot's turn
	n    int
}

// poolSlot is the memory of a buffer.
type poolSlot struct {
	pool  *BufPool
	mr    *MR
	mem   []byte // part of mr, from off; it outlives the registration
	off   int
	class int
	turn  atomic.Uint64 // how often it was given back; pool.mu guards changes
}

// poolClass returns the class of buffers of at least n bytes.
func poolClass(n int) int {
	if n <= minPoolBuf {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(minPoolBuf-1))
}

// Get returns a buffer of n bytes, up to 1 MiB. It contains data of earlier uses. The error wraps
// ErrLimit if the pool is exhausted.
func (p *BufPool) Get(n int) (PoolBuf, error) {
	if n < 0 || n > MaxPoolBuf {
		return PoolBuf{}, argError("get buffer", "n", fmt.Sprintf("%d is not in 0..%d", n, MaxPoolBuf))
	}
	class := poolClass(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return PoolBuf{}, ErrClosed
	}
	if len(p.free[class]) == 0 {
		if err := p.grow(class); err != nil {
			return PoolBuf{}, err
		}
	}
	last := len(p.free[class]) - 1
	s := p.free[class][last]
	p.free[class] = p.free[class][:last]
	p.out++
	return PoolBuf{s, s.turn.Load(), n}, nil
}

// grow registers another slab of a class.
func (p *BufPool) grow(class int) error {
	size := minPoolBuf << class
	slab := max(size, poolSlab)
	if p.bytes+slab > p.max {
		return fmt.Errorf("roce: buffer pool holds %d of %d bytes: %w", p.bytes, p.max, ErrLimit)
	}
	slabMem := make([]byte, slab)
	mr, err := p.pd.RegisterMR(slabMem, LocalWrite, nil)
	if err != nil {
		return err
	}
	p.slabs = append(p.slabs, mr)
	p.bytes += slab
	for off := slab - size; off >= 0; off -= size {
		p.free[class] = append(p.free[class],
			&poolSlot{pool: p, mr: mr, mem: slabMem[off : off+size : off+size], off: off, class: class})
	}
	return nil
}

// held returns the slot if this buffer still owns it.
func (b PoolBuf) held() *poolSlot {
	if b.slot == nil || b.slot.turn.Load() != b.turn {
		return nil
	}
	return b.slot
}

// Bytes returns the memory, and nil after Release. Do not touch it after Release, or while an
// operation uses it.
func (b PoolBuf) Bytes() []byte {
	if s := b.held(); s != nil {
		return s.mem[:b.n:b.n]
	}
	return nil
}

// SGE returns the first n bytes as an element of a work request; it is empty after Release.
func (b PoolBuf) SGE(n int) SGE {
	if s := b.held(); s != nil {
		return s.mr.SGE(s.off, min(n, b.n))
	}
	return SGE{}
}

// Release gives the buffer back to its pool. Releasing it again, or a copy of it, does nothing.
func (b PoolBuf) Release() {
	s := b.slot
	if s == nil {
		return // a zero PoolBuf has no pool
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.turn.CompareAndSwap(b.turn, b.turn+1) {
		return
	}
	p.out--
	if !p.closed {
		p.free[s.class] = append(p.free[s.class], s)
	}
}

// Stats returns how many bytes the pool has registered, and how many buffers are in use.
func (p *BufPool) Stats() (bytes, buffers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.out
}

// Close ends the registration of all memory. It does not wait for buffers in use: operations that
// use them fail, and releasing them does nothing.
func (p *BufPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var first error
	for _, mr := range p.slabs {
		if err := mr.Close(); err != nil && first == nil {
			first = err
		}
	}
	p.slabs, p.bytes = nil, 0
	p.free = [poolClasses][]*poolSlot{}
	return first
}
