package xdp

import (
	"errors"
	"os"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// queue is the socket of one queue of an interface, with its own UMEM: first the chunks for
// receiving, which belong to the receiving side, then those for sending, which belong to the
// sending side.
type queue struct {
	f  *iface
	fd int
	id int

	umem []byte
	fill ring[uint64]
	rx   ring[unix.XDPDesc]
	comp ring[uint64]
	tx   ring[unix.XDPDesc]

	// kickSend is the function of that name; tests replace it by one that fails.
	kickSend func(fd int) unix.Errno

	// Receiving side.
	rxLedger ledger
	back     []uint64 // chunks to give back to the kernel
	unread   int      // chunks from before the last Mark that may still be there

	// Sending side.
	txLedger  ledger
	slotBytes int
	slotBase  uint64
	slots     []uint64 // free ones, used in LIFO order
	chunksOut []uint8  // by slot: chunks that the kernel has
	dirty     bool     // the ring has something new
	stuck     bool     // the kernel would not take the content of the ring
}

// openQueue makes the socket of a queue and binds it with the flags.
func openQueue(f *iface, id int, flags uint16) (*queue, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket AF_XDP", err)
	}
	q := &queue{f: f, fd: fd, id: id, kickSend: kickSend}
	if err := q.open(flags); err != nil {
		_ = q.close()
		return nil, err
	}
	return q, nil
}

// open allocates the UMEM, maps the rings, and binds the socket.
func (q *queue) open(flags uint16) (err error) {
	o := &q.f.l.opts
	q.slotBytes = chunkBytes
	if flags&unix.XDP_USE_SG != 0 {
		q.slotBytes = slotChunks * chunkBytes
	}
	txChunks := o.TxFrames * q.slotBytes / chunkBytes
	q.slotBase = uint64(o.RxFrames) * chunkBytes
	q.umem, err = unix.Mmap(-1, 0, (o.RxFrames+txChunks)*chunkBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if err = registerUMEM(q.fd, q.umem); err != nil {
		return err
	}
	// Each ring has room for all frames that can be in it.
	for opt, n := range map[int]int{
		unix.XDP_UMEM_FILL_RING: o.RxFrames, unix.XDP_RX_RING: o.RxFrames,
		unix.XDP_UMEM_COMPLETION_RING: txChunks, unix.XDP_TX_RING: txChunks,
	} {
		if err = unix.SetsockoptInt(q.fd, unix.SOL_XDP, opt, n); err != nil {
			return os.NewSyscallError("setsockopt SOL_XDP ring", err)
		}
	}
	off, err := getOption[unix.XDPMmapOffsets](q.fd, unix.XDP_MMAP_OFFSETS)
	if err != nil {
		return err
	}
	err = errors.Join(
		mapRing(&q.fill, q.fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, o.RxFrames),
		mapRing(&q.comp, q.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, txChunks),
		mapRing(&q.rx, q.fd, unix.XDP_PGOFF_RX_RING, off.Rx, o.RxFrames),
		mapRing(&q.tx, q.fd, unix.XDP_PGOFF_TX_RING, off.Tx, txChunks))
	if err != nil {
		return err
	}
	if err = q.stock(); err != nil {
		return err
	}
	sockio.GrowBuffer(q.fd, socketBufferBytes, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	if err = q.bind(flags); err != nil {
		return os.NewSyscallError("bind AF_XDP", err)
	}
	return nil
}

// bind binds the socket to its queue. The kernel releases a queue some time after its previous
// socket was closed (a worker does it), so bind waits for that.
func (q *queue) bind(flags uint16) (err error) {
	for end := time.Now().Add(bindPatience); ; time.Sleep(bindRetry) {
		err = unix.Bind(q.fd, &unix.SockaddrXDP{Flags: flags, Ifindex: uint32(q.f.index), QueueID: uint32(q.id)})
		if err != unix.EBUSY || time.Now().After(end) {
			return err
		}
	}
}

// stock sets up the ledgers and gives the kernel all chunks for receiving.
func (q *queue) stock() error {
	o := &q.f.l.opts
	q.rxLedger = newLedger("received", 0, o.RxFrames)
	q.txLedger = newLedger("sent", q.slotBase, o.TxFrames*q.slotBytes/chunkBytes)
	q.back = make([]uint64, 0, o.RxFrames)
	for i := range o.RxFrames {
		q.back = append(q.back, uint64(i)*chunkBytes)
	}
	q.slots = make([]uint64, 0, o.TxFrames)
	q.chunksOut = make([]uint8, o.TxFrames)
	for i := range o.TxFrames {
		q.slots = append(q.slots, q.slotBase+uint64(i*q.slotBytes))
	}
	return q.giveBack()
}

func (q *queue) close() error {
	err := errors.Join(q.fill.unmap(), q.comp.unmap(), q.rx.unmap(), q.tx.unmap())
	err = errors.Join(err, os.NewSyscallError("close", unix.Close(q.fd)))
	if q.umem != nil {
		err = errors.Join(err, os.NewSyscallError("munmap", unix.Munmap(q.umem)))
		q.umem = nil
	}
	return err
}

// giveBack returns consumed chunks to the kernel.
func (q *queue) giveBack() error {
	if len(q.back) > 0 {
		q.fill.room(uint32(len(q.back))) // as many as there are chunks
		for _, addr := range q.back {
			if err := q.rxLedger.move(addr, kernels); err != nil {
				return err
			}
			q.fill.put(addr)
		}
		q.back = q.back[:0]
		q.fill.publish()
		if q.fill.needsWakeup() {
			kickReceive(q.fd)
		}
	}
	return nil
}

// reclaim takes back the chunks that were sent.
func (q *queue) reclaim() error {
	n := q.comp.available(1)
	if n > q.comp.mask+1 {
		return &ringError{"completion", n, q.comp.mask + 1}
	}
	for i := range n {
		addr := q.comp.at(i)
		if err := q.txLedger.move(addr, ours); err != nil {
			return err
		}
		slot := (addr - q.slotBase) / uint64(q.slotBytes)
		if q.chunksOut[slot]--; q.chunksOut[slot] == 0 {
			q.slots = append(q.slots, q.slotBase+slot*uint64(q.slotBytes))
		}
	}
	if n > 0 {
		q.comp.take(n)
		q.comp.release()
	}
	return nil
}

// slot returns the memory of a free slot; nil if the kernel has all. It stays free until push.
func (q *queue) slot() ([]byte, error) {
	if len(q.slots) == 0 {
		if err := q.reclaim(); err != nil {
			return nil, err
		}
		if len(q.slots) == 0 {
			return nil, nil
		}
	}
	at := q.slots[len(q.slots)-1]
	return q.umem[at : at+uint64(q.slotBytes)], nil
}

// push puts the frame of n bytes in the slot last returned into the ring.
func (q *queue) push(n int) error {
	last := len(q.slots) - 1
	at := q.slots[last]
	q.slots = q.slots[:last]
	q.tx.room(slotChunks) // as many as there are chunks
	slot := (at - q.slotBase) / uint64(q.slotBytes)
	for n > 0 {
		d := unix.XDPDesc{Addr: at, Len: uint32(min(n, chunkBytes))}
		if n -= int(d.Len); n > 0 {
			d.Options = unix.XDP_PKT_CONTD
		}
		if err := q.txLedger.move(at, kernels); err != nil {
			return err
		}
		q.tx.put(d)
		q.chunksOut[slot]++
		at += chunkBytes
	}
	q.dirty = true
	return nil
}

// flush shows the kernel the frames in the ring and makes it send them. The error is that of the
// last call.
func (q *queue) flush(calls *uint64) (errno unix.Errno) {
	q.tx.publish()
	q.dirty, q.stuck = false, false
	before := q.tx.unconsumed()
	unseen := before / kickFrames
	for range maxKicks {
		if !q.tx.needsWakeup() || before == 0 {
			return 0
		}
		errno = q.kickSend(q.fd)
		*calls++
		left := q.tx.unconsumed()
		switch {
		case errno == 0 || left == 0:
			return errno
		case errno == unix.EINTR:
		case errno == unix.EAGAIN || errno == unix.EBUSY || errno == unix.ENOBUFS || errno == unix.ENOMEM:
			// In copy mode a call sends kickFrames at most, of which Linux before 6.17 tells only
			// with the last of the ring; or the device is busy.
			if left != before {
				break
			}
			if unseen == 0 {
				q.stuck = true
				return errno
			}
			unseen--
		default:
			return errno // down or gone: the content of the ring waits
		}
		before = left
	}
	q.stuck = true
	return errno
}
