package verbs

import (
	"github.com/goroce/goroce/mem"
)

// touch runs f, which accesses the region. The locks of all shards are held.
func (mr *MR) touch(op string, f func() int) (int, error) {
	n, there := mr.d.s.Touch(f)
	if !there {
		return 0, lostError(op)
	}
	return n, nil
}

func lostError(op string) error { return &OpError{Op: op, Err: mem.FaultMemory} }

// Lost reports whether the memory of the region turned out to be missing when it was accessed: a
// mapped file was truncated, or the pages were unmapped. The keys of such a region are refused from
// then on. Close it, or give it other memory with Reregister.
func (mr *MR) Lost() bool {
	return mr.t != nil && mr.t.Lost()
}
