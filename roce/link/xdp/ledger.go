package xdp

import "fmt"

// owner is the side that may touch a chunk.
type owner uint8

const (
	ours    owner = iota // this process
	kernels              // handed over by a ring
)

func (o owner) String() string {
	if o == ours {
		return "this process"
	}
	return "the kernel"
}

// ledger records the owner of each chunk of a part of the UMEM. It books every address that goes
// through a ring: an address that is handed over twice, comes back without having been handed over,
// or is no chunk at all is an error rather than a corrupted packet. It costs a byte a chunk. It
// belongs to one side of the link.
type ledger struct {
	what  string
	base  uint64
	owner []owner
	away  int // chunks that the kernel has
}

// frameError says that the ownership of frames of the UMEM got mixed up. It is fatal for the link.
type frameError struct {
	what string
	addr uint64
	has  string
}

func (e *frameError) Error() string {
	return fmt.Sprintf("xdp link: %s frame at %#x of the UMEM came up, but %s has it", e.what, e.addr, e.has)
}

func newLedger(what string, base uint64, chunks int) ledger {
	return ledger{what: what, base: base, owner: make([]owner, chunks)}
}

// move books that the chunk of an address gets a new owner.
func (l *ledger) move(addr uint64, to owner) error {
	i := (addr - l.base) / chunkBytes // an address below base wraps around, beyond all
	if i >= uint64(len(l.owner)) {
		return &frameError{l.what, addr, "nobody"}
	}
	if l.owner[i] == to {
		return &frameError{l.what, addr, to.String()}
	}
	l.owner[i] = to
	if to == kernels {
		l.away++
	} else {
		l.away--
	}
	return nil
}
