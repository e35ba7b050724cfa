package main

import (
	"sync"
	"sync/atomic"
)

// A handle names an object of one kind to the C half: the place in the table of that kind, and how
// often the place was used before, so that a handle that was given back is told from one that is in
// use.
//
//	bits 0-21   place + 1: no handle is 0
//	bits 22-31  generation
const (
	placeBits  = 22
	placeMask  = 1<<placeBits - 1
	chunkBits  = 10
	chunkSize  = 1 << chunkBits
	maxObjects = placeMask
)

// table is the objects of one kind. Looking one up takes no lock.
type table[T any] struct {
	chunks [1 << (placeBits - chunkBits)]atomic.Pointer[[chunkSize]slot[T]]
	mu     sync.Mutex
	used   uint32   // places that were ever used
	free   []uint32 // places that can be used again
}

type slot[T any] struct {
	object atomic.Pointer[T]
	handle atomic.Uint32 // that of the object, or of the next one
}

// get returns the object of a handle; nil if there is none.
func (t *table[T]) get(handle uint32) *T {
	place := handle&placeMask - 1
	if place >= maxObjects {
		return nil // handle & placeMask was 0
	}
	chunk := t.chunks[place>>chunkBits].Load()
	if chunk == nil {
		return nil
	}
	s := &chunk[place%chunkSize]
	if s.handle.Load() != handle {
		return nil
	}
	return s.object.Load()
}

// put returns a handle for an object; 0 if there are too many.
func (t *table[T]) put(object *T) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var place uint32
	if n := len(t.free); n > 0 {
		place = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if t.used == maxObjects {
			return 0
		}
		place = t.used
		t.used++
	}
	c := &t.chunks[place>>chunkBits]
	if c.Load() == nil {
		c.Store(new([chunkSize]slot[T]))
	}
	s := &c.Load()[place%chunkSize]
	handle := s.handle.Load()&^placeMask | (place + 1)
	s.handle.Store(handle)
	s.object.Store(object)
	return handle
}

// drop gives a handle back and returns what it named: nil if it named nothing. Of several calls one
// gets the object.
func (t *table[T]) drop(handle uint32) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	object := t.get(handle)
	if object == nil {
		return nil
	}
	place := handle&placeMask - 1
	s := &t.chunks[place>>chunkBits].Load()[place%chunkSize]
	s.object.Store(nil)
	s.handle.Store(handle + 1<<placeBits)
	t.free = append(t.free, place)
	return object
}

// each calls f for all objects.
func (t *table[T]) each(f func(*T)) {
	t.mu.Lock()
	var all []*T
	for place := range t.used {
		if o := t.chunks[place>>chunkBits].Load()[place%chunkSize].object.Load(); o != nil {
			all = append(all, o)
		}
	}
	t.mu.Unlock()
	for _, o := range all {
		f(o)
	}
}
