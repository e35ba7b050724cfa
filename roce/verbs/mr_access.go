package verbs

import (
	"io"

	"github.com/goroce/goroce/roce/internal/access"
)

// ReadAt copies len(p) bytes of the region from offset off, in order with the device: between two
// packets, counting the operations of all peers. It is the way to wait for a one-sided operation,
// which makes no completion here. Suppose that a peer writes a message by one WRITE and a flag by
// the next, or at the end of the same WRITE's last packet (the bytes of a WRITE become visible in
// the order of its packets). Once ReadAt has seen the flag, Bytes shows the message. ReadAt takes
// the locks of all shards: between looks in a loop, let others run.
//
// As an [io.ReaderAt] it returns io.EOF with fewer bytes than asked for at the end of the region. A
// closed region returns ErrDestroyed, one whose memory is missing (see [MR.Lost]) mem.FaultMemory,
// a closed device ErrClosed.
func (mr *MR) ReadAt(p []byte, off int64) (int, error) {
	return mr.access("read memory", p, off, io.EOF, func(at []byte) int { return copy(p, at) })
}

// WriteAt copies p to the region at offset off, in order with the device as ReadAt does: a READ by
// a peer sees all or nothing of it, as far as its data is in one packet. It returns
// io.ErrShortWrite if p reaches beyond the end of the region.
func (mr *MR) WriteAt(p []byte, off int64) (int, error) {
	return mr.access("write memory", p, off, io.ErrShortWrite, func(at []byte) int { return copy(at, p) })
}

func (mr *MR) access(op string, p []byte, off int64, short error, f func(at []byte) int) (int, error) {
	if off < 0 {
		return 0, argError(op, "off", "is negative")
	}
	if mr.d.unmade() {
		return 0, access.ErrZero
	}
	all := mr.d.shards.all()
	if err := lockAll(all); err != nil {
		return 0, err
	}
	defer unlockShards(all)
	if !mr.t.Registered() {
		return 0, &OpError{Op: op, Err: ErrDestroyed}
	}
	if mr.t.Lost() {
		return 0, lostError(op)
	}
	// Use the memory of this moment: Close and Reregister give memory back once they have seen each
	// lock free, and only then update the getters.
	bytes := mr.t.Bytes()
	n := 0
	if off < int64(len(bytes)) {
		var err error
		if n, err = mr.touch(op, func() int { return f(bytes[off:]) }); err != nil {
			return 0, err
		}
	}
	if n < len(p) {
		return n, short
	}
	return n, nil
}
