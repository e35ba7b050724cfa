package sockio

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// Reader receives datagrams in batched calls. It takes few in a call while they are long, so that
// they stay in the cache, and many while they are single packets.
type Reader struct {
	// Recvmmsg is Recv; tests replace it by a function that fails.
	Recvmmsg func(fd int, msgs []Mmsghdr) (int, unix.Errno)
	// Prepare, if set, readies the first message headers for a call: the kernel changes the lengths
	// of names and control messages of those that it has filled.
	Prepare func(hdrs []Mmsghdr)
	// Gone, if set, is the error of a read that dropped a datagram which the socket cannot express.
	// Others are behind it.
	Gone unix.Errno

	hdrs  []Mmsghdr
	iovs  []unix.Iovec
	bufs  [][]byte
	bulk  int // datagrams of a call when they are long
	width int // datagrams of the next call
	n, i  int // of the last call: received, and consumed
	spent int // headers that have to be prepared: the first ones
}

// NewReader returns a Reader of datagrams of up to size bytes, which takes bulk of them in a call
// when they are long, up to MaxReadBatch; 0 is a default.
func NewReader(size, bulk int) *Reader {
	if bulk <= 0 {
		bulk = defaultReadBatch
	}
	bulk = min(bulk, MaxReadBatch)
	r := &Reader{
		Recvmmsg: Recv,
		hdrs:     make([]Mmsghdr, MaxReadBatch), iovs: make([]unix.Iovec, MaxReadBatch), bufs: make([][]byte,
			MaxReadBatch),
		bulk: bulk, width: bulk, spent: MaxReadBatch,
	}
	mem := make([]byte, MaxReadBatch*size)
	for i := range r.hdrs {
		b := mem[i*size:][:size:size]
		r.bufs[i] = b
		r.iovs[i].Base = &b[0]
		r.iovs[i].SetLen(len(b))
		h := &r.hdrs[i].Hdr
		h.Iov = &r.iovs[i]
		h.SetIovlen(1)
	}
	return r
}

// Read receives what is available from a socket, at most limit, without blocking. It overwrites the
// result of the previous call.
func (r *Reader) Read(fd, limit int) (int, unix.Errno) {
	if r.Prepare != nil && r.spent > 0 {
		r.Prepare(r.hdrs[:r.spent])
		r.spent = 0
	}
	n, errno := r.Recvmmsg(fd, r.hdrs[:min(r.width, limit)])
	r.n, r.i, r.spent = n, 0, n
	if n > 0 {
		r.adapt()
	}
	return n, errno
}

// adapt chooses how many datagrams the next call takes.
func (r *Reader) adapt() {
	if r.n < r.width {
		return
	}
	total := 0
	for i := range r.n {
		total += int(r.hdrs[i].N)
	}
	if total/r.n > 2*ib.MaxPacketBytes {
		r.width = r.bulk
	} else {
		r.width = min(2*r.width, MaxReadBatch)
	}
}

// Pending reports whether Next has another datagram.
func (r *Reader) Pending() bool { return r.i < r.n }

// Next moves to the next datagram of the last call, and returns its number in the call, its header
// and its bytes.
func (r *Reader) Next() (i int, h *unix.Msghdr, b []byte, ok bool) {
	if r.i >= r.n {
		return 0, nil, nil, false
	}
	i = r.i
	r.i++
	return i, &r.hdrs[i].Hdr, r.bufs[i][:r.hdrs[i].N], true
}
