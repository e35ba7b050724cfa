package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/maphash"
)

const (
	// SlotBytes is the size of a slot.
	SlotBytes = 256
	// MaxEntry is how long a key and its value may be together.
	MaxEntry = SlotBytes - slotHead
	// reach is how many slots a home has, side by side: what one READ gets.
	reach = 4
	// choices is how many homes a key has. It is in the first one that had a free slot.
	choices = 2
	// slotHead is what a slot has before key and value: checksum, lengths, version.
	slotHead = 16
)

// moved is the version of slots of a table that is no longer in use.
const moved = ^uint64(0)

// castagnoli is a checksum that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrTooLong is the error for a key and value that do not fit a slot.
var ErrTooLong = errors.New("cache: key and value have more than MaxEntry bytes")

// encodeSlot writes an entry to a slot. The lengths of an empty one are 0, and it has no key; a key
// of no bytes is none.
//
//	0   checksum of the rest, as far as it is used
//	4   length of key, length of value (2 bytes each)
//	8   version
//	16  key, value
func encodeSlot(slot []byte, version uint64, key, value []byte) {
	binary.LittleEndian.PutUint16(slot[4:], uint16(len(key)))
	binary.LittleEndian.PutUint16(slot[6:], uint16(len(value)))
	binary.LittleEndian.PutUint64(slot[8:], version)
	copy(slot[slotHead:], key)
	copy(slot[slotHead+len(key):], value)
	binary.LittleEndian.PutUint32(slot, crc32.Checksum(slot[4:slotHead+len(key)+len(value)], castagnoli))
}

// slotState is what decodeSlot finds.
type slotState uint8

const (
	slotEntry slotState = iota
	slotEmpty
	slotMoved
	slotTorn // half of one entry and half of another: read again
)

// decodeSlot returns the entry of a slot; key and value are parts of the slot.
func decodeSlot(slot []byte) (key, value []byte, state slotState) {
	k, v := int(binary.LittleEndian.Uint16(slot[4:])), int(binary.LittleEndian.Uint16(slot[6:]))
	if k+v > MaxEntry {
		return nil, nil, slotTorn
	}
	if crc32.Checksum(slot[4:slotHead+k+v], castagnoli) != binary.LittleEndian.Uint32(slot) {
		return nil, nil, slotTorn
	}
	switch {
	case binary.LittleEndian.Uint64(slot[8:]) == moved:
		return nil, nil, slotMoved
	case k == 0:
		return nil, nil, slotEmpty
	}
	return slot[slotHead : slotHead+k], slot[slotHead+k : slotHead+k+v], slotEntry
}

// find looks for key in the slots of a home.
func find(slots, key []byte) (value []byte, found bool, state slotState) {
	for ; len(slots) >= SlotBytes; slots = slots[SlotBytes:] {
		k, v, state := decodeSlot(slots[:SlotBytes])
		switch {
		case state == slotMoved || state == slotTorn:
			return nil, false, state
		case state == slotEntry && string(k) == string(key):
			return v, true, slotEntry
		}
	}
	return nil, false, slotEntry
}

// homes returns the homes of a key in a table of n. Both sides have to agree on them. The server
// draws a seed, so that keys that meet in one cache do not in another. Clients know the seed, and
// one that is hostile can choose keys that meet: its PUTs are refused then (ErrFull), and so are
// those of others for the same homes.
func homes(seed uint64, key []byte, n int) (h [choices]int) {
	// FNV-1a from a start that differs, and mixes behind it, since FNV leaves its low bits weak.
	x := seed ^ 14695981039346656037
	for _, b := range key {
		x = (x ^ uint64(b)) * 1099511628211
	}
	for i := range h {
		x ^= x >> 32
		x *= 0xd6e8feb86659fd93
		x ^= x >> 29
		h[i] = int(x % uint64(n))
	}
	return h
}

// newSeed draws a seed.
func newSeed() uint64 { return new(maphash.Hash).Sum64() }
