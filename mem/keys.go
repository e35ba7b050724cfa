package mem

import (
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
)

// keyTable finds a grant by its key. It uses open addressing with linear probing and is at most
// half full. The hash of a key is the low bits of its index, which is random already; a peer
// chooses the keys that are looked up but not those that are stored, so it cannot make chains
// longer than chance does.
//
// Lookups take no lock. They run beside one writer, which holds the table's lock. These rules make
// each result correct for some moment of the lookup:
//
//   - A key does not move within one published table. When a table ages, the writer publishes a
//     new one; the old one stays as it was for the lookups that are in it.
//   - A slot before a key in its chain does not become empty while the key is there. A removed key
//     leaves a tombstone. Another key may take it, or it becomes empty at the end of a chain.
//   - The grant is stored before the key, and a grant knows its key. A lookup that reads a key, and
//     then the grant of another key that has taken the slot, notices the difference.
//   - Revoking a key first changes the state of its grant. A lookup in an old table, which still
//     has the key, sees that.
type keyTable struct {
	_ [64]byte // pub has a cache line of its own: the fields behind it change
	// pub is the table that lookups see.
	pub atomic.Pointer[keySlots]
	_   [56]byte

	full     int // slots of pub that are not empty: keys, quarantined keys and tombstones
	occupied int // keys and quarantined keys
	rng      io.Reader
	buf      [4]byte

	// quarantine is a ring of freed indices, oldest at head.
	quarantine    []uint32
	head          int
	maxQuarantine int
}

// keySlots is one published table. It has a cache line of its own.
type keySlots struct {
	slots []slot // length is a power of two
	_     [40]byte
}

// slot is one place of the key table. An empty slot has key 0, a tombstone tombKey; a quarantined
// key has no grant.
type slot struct {
	key atomic.Uint32
	g   atomic.Pointer[grant]
}

const (
	keyIndexShift = 8

	// Keys below 256 are never drawn; these two have other meanings.
	tombKey = 1 // in a slot: nothing is here, but the chain goes on
	anyKey  = 2 // in a grant: it goes by the key in its slot
)

var errStuckRandom = errors.New("random source repeats itself")

func (k *keyTable) init(rng io.Reader, quarantine int) {
	k.rng, k.maxQuarantine = rng, quarantine
	k.pub.Store(&keySlots{slots: make([]slot, minSlots)})
}

// lookup returns the grant whose current key is exactly key, or nil. It needs no lock.
func (k *keyTable) lookup(key uint32) *grant {
	g := k.probe(key)
	if g == nil || g.key != key && g.key != anyKey {
		return nil
	}
	return g
}

// probe is lookup without the last step: the caller must check that the key of the grant is the one
// that it asked for, or anyKey. It is small enough to be inlined.
func (k *keyTable) probe(key uint32) *grant {
	slots := k.pub.Load().slots
	mask := uint32(len(slots) - 1)
	for i := key >> keyIndexShift; ; i++ {
		s := &slots[i&mask]
		if found := s.key.Load(); found == key {
			return s.g.Load() // nil in an empty slot (key 0), a tombstone, and in quarantine
		} else if found == 0 {
			return nil
		}
	}
}

// find returns the slot of an index and true. Without one, it returns where the index belongs and
// false: the first tombstone of its chain, or the empty slot at the end.
func (k *keyTable) find(index uint32) (at int, found bool) {
	slots := k.pub.Load().slots
	mask := uint32(len(slots) - 1)
	at = -1
	for i := index; ; i++ {
		switch key := slots[i&mask].key.Load(); {
		case key == 0:
			if at < 0 {
				at = int(i & mask)
			}
			return at, false
		case key == tombKey:
			if at < 0 {
				at = int(i & mask)
			}
		case key>>keyIndexShift == index:
			return int(i & mask), true
		}
	}
}

// slot returns the slot of a key that is in the table.
func (k *keyTable) slot(key uint32) *slot {
	at, found := k.find(key >> keyIndexShift)
	if !found {
		panic("mem: a key is missing in the table") // a bug in this package
	}
	return &k.pub.Load().slots[at]
}

// take returns the wanted key if it is free, or a random one if want is 0, and makes room for it.
func (k *keyTable) take(want uint32) (uint32, error) {
	if want == 0 {
		return k.draw()
	}
	index := want >> keyIndexShift
	if index == 0 {
		return 0, ErrInvalid
	}
	at, found := k.find(index)
	if found {
		return 0, ErrBusy
	}
	k.makeRoom(at)
	return want, nil
}

// makeRoom prepares the table for a key to be put into slot at.
func (k *keyTable) makeRoom(at int) {
	if slots := k.pub.Load().slots; slots[at].key.Load() == 0 && 2*(k.full+1) > len(slots) {
		k.rebuild()
	}
}

// draw returns a free random key and makes room for it.
func (k *keyTable) draw() (uint32, error) {
	if k.rng == nil {
		return 0, errors.New("no random source")
	}
	for range maxDraws {
		if _, err := io.ReadFull(k.rng, k.buf[:]); err != nil {
			return 0, err
		}
		key := binary.LittleEndian.Uint32(k.buf[:])
		index := key >> keyIndexShift
		if index == 0 {
			continue // keys below 256 are never valid: 0 means "no key" to peers
		}
		at, found := k.find(index)
		if found {
			continue
		}
		k.makeRoom(at)
		return key, nil
	}
	return 0, errStuckRandom
}

// put stores a key that take or draw has returned.
func (k *keyTable) put(key uint32, g *grant) {
	at, _ := k.find(key >> keyIndexShift)
	s := &k.pub.Load().slots[at]
	if s.key.Load() == 0 {
		k.full++
	}
	k.occupied++
	s.g.Store(g)
	s.key.Store(key)
}

// replace makes a key refer to g and changes its variant: now has the same index.
func (k *keyTable) replace(key, now uint32, g *grant) {
	s := k.slot(key)
	s.g.Store(g)
	s.key.Store(now)
}

// remove frees a key; its index goes to quarantine.
func (k *keyTable) remove(key uint32) {
	index := key >> keyIndexShift
	k.slot(key).g.Store(nil)
	if k.maxQuarantine == 0 {
		k.erase(index)
		return
	}
	if len(k.quarantine) < k.maxQuarantine {
		k.quarantine = append(k.quarantine, index)
		return
	}
	k.erase(k.quarantine[k.head])
	k.quarantine[k.head] = index
	k.head++
	if k.head == len(k.quarantine) {
		k.head = 0
	}
}

// erase turns the slot of an index into a tombstone, or into an empty slot if its chain ends there.
func (k *keyTable) erase(index uint32) {
	i, _ := k.find(index)
	slots := k.pub.Load().slots
	mask := len(slots) - 1
	slots[i].key.Store(tombKey)
	k.occupied--
	for slots[i].key.Load() == tombKey && slots[(i+1)&mask].key.Load() == 0 {
		slots[i].key.Store(0)
		k.full--
		i = (i - 1) & mask
	}
}

// rebuild publishes a table without tombstones and at most 3/8 full, so that the next rebuild is
// not soon.
func (k *keyTable) rebuild() {
	size := minSlots
	for 8*(k.occupied+1) > 3*size {
		size *= 2
	}
	slots := make([]slot, size)
	mask := uint32(size - 1)
	for i := range k.pub.Load().slots {
		s := &k.pub.Load().slots[i]
		key := s.key.Load()
		if key == 0 || key == tombKey {
			continue
		}
		at := key >> keyIndexShift & mask
		for slots[at].key.Load() != 0 {
			at = (at + 1) & mask
		}
		slots[at].g.Store(s.g.Load())
		slots[at].key.Store(key)
	}
	k.full = k.occupied
	k.pub.Store(&keySlots{slots: slots})
}

// all yields every grant. Keys may be removed meanwhile, but not added.
func (k *keyTable) all(yield func(*grant) bool) {
	slots := k.pub.Load().slots
	for i := range slots {
		if g := slots[i].g.Load(); g != nil && !yield(g) {
			return
		}
	}
}
