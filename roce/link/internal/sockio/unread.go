package sockio

import "github.com/goroce/goroce/internal/unix"

// Unread bounds how much of a receive buffer's content at a given moment is still there.
type Unread struct {
	bytes int // of the buffer; 0 or less: nothing is left
}

// Mark sets the moment. size is the size of the buffer in bytes, as the kernel reports it.
func (u *Unread) Mark(size int) { u.bytes = size + maxOverrun }

// Empty records that the buffer was empty, or cannot be read.
func (u *Unread) Empty() { u.bytes = 0 }

// Took records the datagrams of the last call of Read.
func (u *Unread) Took(r *Reader) {
	if u.bytes <= 0 {
		return
	}
	for i := range r.n {
		u.bytes -= max(int(r.hdrs[i].N), minBuffered)
	}
}

// None reports whether nothing of it is left.
func (u *Unread) None() bool { return u.bytes <= 0 }

// ReadAgain reports whether a failed Read says nothing about the content of the buffer, so that
// another may succeed.
func ReadAgain(errno unix.Errno) bool {
	return errno != 0 && errno != unix.EAGAIN && !Dead(errno)
}
