package mem

import (
	"encoding/binary"
	"errors"
	"io"
)

// slot is one place of the key table. An empty slot has key 0; a quarantined one
// has a key and no grant.
type slot struct {
	key uint32
	g   *grant
}

// keyTable finds a grant by its key: open addressing with linear probing, at
// most half full. The hash of a key is the low bits of its index, which is
// random already; a peer chooses what is looked up but not what is stored, so
// it cannot make a chain longer than chance makes it.
type keyTable struct {
	slots []slot
	used  int // slots that are not empty
	rng   io.Reader
	buf   [4]byte

	// quarantine is a ring of freed indices, oldest at head.
	quarantine    []uint32
	head          int
	maxQuarantine int
}

const keyIndexShift = 8

var errStuckRandom = errors.New("random source repeats itself")

func newKeyTable(rng io.Reader, quarantine int) keyTable {
	return keyTable{slots: make([]slot, minSlots), rng: rng, maxQuarantine: quarantine}
}

// lookup returns the grant whose current key is exactly key, or nil.
func (k *keyTable) lookup(key uint32) *grant {
	slots := k.slots
	mask := uint32(len(slots) - 1)
	for i := key >> keyIndexShift; ; i++ {
		s := &slots[i&mask]
		if s.key == key {
			return s.g // nil in an empty slot (key 0) and in quarantine
		}
		if s.key == 0 {
			return nil
		}
	}
}

// find returns the place of an index, or of the empty slot where it belongs.
func (k *keyTable) find(index uint32) int {
	mask := uint32(len(k.slots) - 1)
	for i := index; ; i++ {
		s := &k.slots[i&mask]
		if s.key == 0 || s.key>>keyIndexShift == index {
			return int(i & mask)
		}
	}
}

// add draws a key for g and stores it.
func (k *keyTable) add(g *grant) error {
	if k.rng == nil {
		return errors.New("no random source")
	}
	for range maxDraws {
		if _, err := io.ReadFull(k.rng, k.buf[:]); err != nil {
			return err
		}
		key := binary.LittleEndian.Uint32(k.buf[:])
		index := key >> keyIndexShift
		if index == 0 {
			continue // keys below 256 are never valid: 0 means "no key" to peers
		}
		i := k.find(index)
		if k.slots[i].key != 0 {
			continue
		}
		if 2*(k.used+1) > len(k.slots) {
			k.grow()
			i = k.find(index)
		}
		k.slots[i] = slot{key, g}
		k.used++
		g.key = key
		return nil
	}
	return errStuckRandom
}

// setVariant replaces the low byte of the key of g.
func (k *keyTable) setVariant(g *grant, key uint32) {
	k.slots[k.find(g.key>>keyIndexShift)].key = key
	g.key = key
}

// remove frees the key of g; its index goes to quarantine.
func (k *keyTable) remove(g *grant) {
	index := g.key >> keyIndexShift
	g.key = 0
	if k.maxQuarantine == 0 {
		k.erase(k.find(index))
		return
	}
	k.slots[k.find(index)].g = nil
	if len(k.quarantine) < k.maxQuarantine {
		k.quarantine = append(k.quarantine, index)
		return
	}
	k.erase(k.find(k.quarantine[k.head]))
	k.quarantine[k.head] = index
	k.head++
	if k.head == len(k.quarantine) {
		k.head = 0
	}
}

// erase empties slot i and moves up whatever a probe would no longer reach
// (Knuth 6.4, algorithm R): no tombstones, so tables do not age.
func (k *keyTable) erase(i int) {
	mask := len(k.slots) - 1
	k.used--
	for j := i; ; {
		k.slots[i] = slot{}
		for {
			j = (j + 1) & mask
			if k.slots[j].key == 0 {
				return
			}
			home := int(k.slots[j].key>>keyIndexShift) & mask
			// Slot j may stay if its home lies cyclically in (i, j].
			if (j-home)&mask < (j-i)&mask {
				continue
			}
			break
		}
		k.slots[i] = k.slots[j]
		i = j
	}
}

func (k *keyTable) grow() {
	old := k.slots
	k.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.key != 0 {
			k.slots[k.find(s.key>>keyIndexShift)] = s
		}
	}
}

// replace makes an existing key name g.
func (k *keyTable) replace(key uint32, g *grant) {
	k.slots[k.find(key>>keyIndexShift)].g = g
}
