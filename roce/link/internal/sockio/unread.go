package sockio

import "github.com/goroce/goroce/internal/unix"

// Unread bounds what is still in the receive buffer of a socket of what was there
// at a moment.
type Unread struct {
	bytes int // of the buffer; 0 or less: nothing is
}

// Mark notes the moment. The buffer is of size bytes, as the kernel says.
func (u *Unread) Mark(size int) { u.bytes = size + maxOverrun }

// Empty notes that nothing was in the buffer, or that it cannot be read.
func (u *Unread) Empty() { u.bytes = 0 }

// Took notes the datagrams of the last call of Read.
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

// ReadAgain reports whether a call of Read that failed says nothing about what
// is in the buffer, so that another may succeed.
func ReadAgain(errno unix.Errno) bool {
	return errno != 0 && errno != unix.EAGAIN && !Dead(errno)
}
