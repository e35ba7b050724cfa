package rsocket

import (
	"errors"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// buffer is registered memory of a connection.
type buffer struct {
	mem    []byte
	mr     *verbs.MR
	mapped *verbs.MappedBuffer // a large one, which lies outside of the heap
}

// The buffers of each direction.
const (
	smallBuffer = iota
	largeBuffer
)

// register makes the small buffer of a direction.
func (b *buffer) register(pd *verbs.PD, n int, access verbs.Access, o verbs.MROptions) (err error) {
	b.mem = make([]byte, n)
	b.mr, err = pd.RegisterMRWith(b.mem, access, o)
	return err
}

// obtain makes a large one. Its pages cost memory when they are first used.
func (b *buffer) obtain(h *host, pd *verbs.PD, n int, access verbs.Access, o verbs.MROptions) (err error) {
	if h.large.Add(int64(n)) > maxLargeBytes {
		h.large.Add(-int64(n))
		return errNoRoom
	}
	if b.mapped, err = verbs.MapBuffer(n, false); err == nil {
		if b.mr, err = b.mapped.RegisterWith(pd, access, o); err != nil {
			err = errors.Join(err, b.mapped.Close())
		}
	}
	if err != nil {
		h.large.Add(-int64(n))
		*b = buffer{}
		return err
	}
	b.mem = b.mapped.Bytes()
	return nil
}

// errNoRoom is why a connection stays with its small buffer.
var errNoRoom = errors.New("rsocket: the large buffers of the device are in use")

// release gives the memory back.
func (b *buffer) release(h *host) error {
	var err error
	if b.mr != nil {
		err = b.mr.Close()
	}
	if b.mapped != nil {
		h.large.Add(-int64(len(b.mem)))
		err = errors.Join(err, b.mapped.Close())
	}
	*b = buffer{}
	return err
}

// place is a receive buffer in the words of the protocol.
func (b *buffer) place(which int) place {
	return place{which, b.mr.Addr(), uint32(b.mr.RKey()), len(b.mem) / 2}
}

const remoteWrite = verbs.LocalWrite | roce.RemoteWrite

// growSend goes on with a large send buffer, if there can be one. mu and wmu are held.
func (c *Conn) growSend() {
	if !c.cfg.growSend || c.out == largeBuffer {
		return
	}
	if c.send[largeBuffer].obtain(c.host, c.pd, largeSendBuffer, verbs.LocalWrite, verbs.MROptions{}) != nil {
		c.cfg.growSend = false // the small one does
		return
	}
	c.out = largeBuffer
	c.s.snd.buf.move(largeSendBuffer)
}

// shrinkSend gives the large send buffer of an idle connection back. mu is held.
func (c *Conn) shrinkSend() {
	if b := &c.s.snd.buf; c.out == largeBuffer && b.used == 0 && b.old == 0 && !b.pinned {
		c.out = smallBuffer
		b.move(len(c.send[smallBuffer].mem))
		_ = c.send[largeBuffer].release(c.host) // nobody uses it
	}
}

// fitRecv chooses the receive buffer in which the next half is granted: a large one while halves are
// read in a hurry, the small one when that is over. mu is held.
func (c *Conn) fitRecv() {
	if !c.cfg.growRecv || !c.s.rcv.roomy() {
		return
	}
	r, large := &c.s.rcv, &c.recv[largeBuffer]
	now := c.alarm.Now()
	gap := now - c.granted
	c.granted = now
	switch {
	case r.to.buf == largeBuffer:
		if gap > leisure && !r.uses(smallBuffer) {
			r.move(c.recv[smallBuffer].place(smallBuffer))
		}
	case large.mem != nil: // it was needed once
		if !r.uses(largeBuffer) {
			_ = large.release(c.host) // fails if the device is closed
		}
	case r.hurried() && gap < hurry:
		o := verbs.MROptions{IOVA: largeIOVA, SetIOVA: true}
		if large.obtain(c.host, c.pd, largeRecvBuffer, remoteWrite, o) != nil {
			c.cfg.growRecv = false // the small one does
			return
		}
		r.move(large.place(largeBuffer))
	}
}

const (
	// hurry is the time for a half of the small receive buffer below which a large one is worth it,
	// leisure that for a half of the large one above which it is not: at 1.6 and at 2 MB/s.
	hurry   = 20 * time.Millisecond
	leisure = time.Second
)
