package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// BlockBytes is the size of a block.
	BlockBytes = 4096
	// slotHead is what a slot has before its block: checksum (4), nothing (4), version (8).
	slotHead  = 64
	slotBytes = slotHead + BlockBytes
	// copies is how many slots a block has. They are written in turn, so that a write that is cut
	// off leaves what was there before.
	copies = 2
	// superBytes is what comes before the slots: magic (8), missing (8), epoch (8). missing has a
	// bit for each replica, in the order of the addresses, that has not all that this one has. The
	// epoch is the number of the client that had it last.
	superBytes = 4096
	magic      = 0x676f726f_63656c6b
)

// epochShift is where the epoch is in a version. So what a client writes is newer than all that
// those before it wrote, also to a replica that is not there now.
const epochShift = 40

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the head of a slot whose block is there.
func seal(slot []byte, version uint64) {
	binary.LittleEndian.PutUint64(slot[8:], version)
	binary.LittleEndian.PutUint32(slot, crc32.Checksum(slot[8:slotBytes], castagnoli))
}

// version returns the version of a slot; 0 is a block that was never written. A slot with a wrong
// checksum has none.
func version(slot []byte) (v uint64, whole bool) {
	v, sum := binary.LittleEndian.Uint64(slot[8:]), binary.LittleEndian.Uint32(slot)
	if v == 0 && sum == 0 { // also what is left of a first write: nothing says that it was ever made
		return 0, true
	}
	return v, v != 0 && crc32.Checksum(slot[8:slotBytes], castagnoli) == sum
}

// diskBytes is the size of a disk of so many blocks.
func diskBytes(blocks int) int { return superBytes + blocks*copies*slotBytes }

// Disk is memory that lasts, once it was made to.
type Disk interface {
	Bytes() []byte
	Persist(from, n int) error // of Bytes
	Close() error
}

// file is a file that is mapped.
type file struct {
	b []byte
}

// OpenFile maps a file of a replica, and makes it if it is not there.
func OpenFile(name string, blocks int) (Disk, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(diskBytes(blocks))
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if st.Size() != 0 && st.Size() != size {
		return nil, fmt.Errorf("store: %s has %d bytes, %d blocks are %d", name, st.Size(), blocks, size)
	}
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &file{b}, nil
}

func (f *file) Bytes() []byte { return f.b }

// Persist writes the pages of some bytes to the file.
func (f *file) Persist(from, n int) error {
	if n == 0 {
		return nil
	}
	start := from &^ (os.Getpagesize() - 1) // msync wants whole pages
	return os.NewSyscallError("msync", unix.Msync(f.b[start:from+n], unix.MS_SYNC))
}

func (f *file) Close() error { return unix.Munmap(f.b) }
