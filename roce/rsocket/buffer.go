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
	mapped *verbs.MappedBuffer // a large buffer, outside the heap
	used   int                 // bytes in use
}

// Indexes of the receive buffers, and of the first send buffer.
const (
	smallBuffer = iota
	largeBuffer
)

// sendSizes are the sizes of the send buffers; Config sets the first.
var sendSizes = [...]int{smallBuffer: 0, firstLarge, streamSend, maxSend}

// register makes the small buffer of a direction.
func (b *buffer) register(pd *verbs.PD, n int, access verbs.Access, o verbs.MROptions) (err error) {
	b.mem, b.used = make([]byte, n), n
	b.mr, err = pd.RegisterMR(b.mem, access, &o)
	return err
}

// obtain makes a large buffer of n bytes, of which used are in use at first. Pages cost memory once
// they are used. mu is held.
func (c *Conn) obtain(b *buffer, n, used int, access verbs.Access, o verbs.MROptions) (err error) {
	if err := c.host.reserve(used, c.alarm.Now()); err != nil {
		return err
	}
	if b.mapped, err = verbs.MapBuffer(n, false); err == nil {
		if b.mr, err = b.mapped.Register(c.pd, access, &o); err != nil {
			err = errors.Join(err, b.mapped.Close())
		}
	}
	if err != nil {
		c.host.large.Add(-int64(used))
		*b = buffer{}
		return err
	}
	b.mem, b.used = b.mapped.Bytes(), used
	return nil
}

// errNoRoom makes a connection keep its small buffer.
var errNoRoom = errors.New("rsocket: the large buffers of the device are in use")

// release frees the memory.
func (b *buffer) release(h *host) error {
	var err error
	if b.mr != nil {
		err = b.mr.Close()
	}
	if b.mapped != nil {
		h.large.Add(-int64(b.used))
		err = errors.Join(err, b.mapped.Close())
	}
	*b = buffer{}
	return err
}

// place returns the receive buffer in the protocol's terms.
func (b *buffer) place(which int) place {
	return place{which, b.mr.Addr(), uint32(b.mr.RKey()), b.used / 2}
}

const remoteWrite = verbs.LocalWrite | roce.RemoteWrite

// growSend switches to a larger send buffer, if one can be had: the smallest with room for need
// bytes, or the largest. Staged bytes move along. mu and wmu are held.
func (c *Conn) growSend(need int) {
	to := c.nextSend(need)
	if to == c.out {
		return
	}
	if err := c.obtain(&c.send[to], sendSizes[to], sendSizes[to], verbs.LocalWrite, verbs.MROptions{}); err != nil {
		c.cfg.growSend = err == errNoRoom // try again when others have released some
		return
	}
	snd := &c.s.snd
	if from, into := c.send[c.out].mem, c.send[to].mem; snd.staged > 0 {
		at := snd.buf.head - snd.staged
		if at < 0 {
			into = into[copy(into, from[at+snd.buf.size:snd.buf.size]):]
			at = 0
		}
		copy(into, from[at:snd.buf.head])
	}
	c.out, c.moved = to, true
	snd.move(sendSizes[to])
}

// nextSend returns the buffer that growSend would switch to: the current one if there is no larger
// one.
func (c *Conn) nextSend(need int) int {
	if snd := &c.s.snd; !c.cfg.growSend || snd.hold > 0 && snd.hold <= snd.buf.size {
		return c.out
	}
	for i := c.out + 1; i < len(sendSizes); i++ {
		if sendSizes[i] >= need || i == len(sendSizes)-1 {
			return i
		}
	}
	return c.out
}

// canGrowSend reports whether a larger send buffer is available.
func (c *Conn) canGrowSend() bool {
	to := c.nextSend(0)
	return to != c.out && c.host.large.Load()+int64(sendSizes[to]) <= maxLargeBytes
}

// retireSends frees the send buffers that are no longer in use. mu is held.
func (c *Conn) retireSends() {
	c.moved = false
	for i := range c.send {
		if i != smallBuffer && i != c.out {
			_ = c.send[i].release(c.host) // fails if the device is closed
		}
	}
}

// shrinkSend frees the large send buffer of an idle connection. mu is held.
func (c *Conn) shrinkSend() {
	if b := &c.s.snd.buf; c.out != smallBuffer && b.used == 0 && b.old == 0 && !b.pinned {
		c.out, c.near = smallBuffer, false
		c.s.snd.move(len(c.send[smallBuffer].mem))
		c.retireSends()
	}
}

// streamGrown gets a larger send buffer for data that the peer takes as fast as it comes. mu and
// wmu are held.
func (c *Conn) streamGrown() {
	size := c.s.snd.buf.size
	if size >= maxSend || c.near || c.out != smallBuffer && !c.host.mayGrow(c.alarm.Now()) {
		return
	}
	if size >= streamSend && c.qp.Stats().SmoothedRTT <= longTrip {
		c.near = true
		return
	}
	c.growSend(size + 1)
}

// fitRecv chooses the receive buffer for the next half to grant: a large one while halves are read
// in a hurry, then the small one again. It uses more and more of the large one. mu is held.
func (c *Conn) fitRecv() {
	if !c.cfg.growRecv || !c.s.rcv.roomy() {
		return
	}
	r, large := &c.s.rcv, &c.recv[largeBuffer]
	now := c.alarm.Now()
	gap := now - c.granted
	trip := c.qp.Stats().SmoothedRTT
	// A half that is used within a round trip is used up before the grant of the next arrives.
	waits := r.tight && gap < max(hurry, 2*trip) || trip > farTrip && gap < trip*5/4
	most := nearRecvBuffer
	if waits && trip > longTrip {
		most = largeRecvBuffer
	}
	c.granted, r.tight = now, false
	switch {
	case r.to.buf == largeBuffer:
		if gap > leisure && !r.uses(smallBuffer) {
			r.move(c.recv[smallBuffer].place(smallBuffer))
		} else if (r.hurried() || waits && trip > farTrip) && large.used < most && c.host.mayGrow(now) {
			if c.host.reserve(large.used, now) == nil {
				large.used *= 2
				r.widen(large.used)
			}
		}
	case large.mem != nil: // left over from an earlier hurry
		if !r.uses(largeBuffer) {
			_ = large.release(c.host) // fails if the device is closed
		}
	case r.hurried() && gap < hurry, waits:
		o := verbs.MROptions{IOVA: largeIOVA, SetIOVA: true}
		if err := c.obtain(large, largeRecvBuffer, firstLarge, remoteWrite, o); err != nil {
			c.cfg.growRecv = err == errNoRoom // try again when others have released some
			return
		}
		r.move(large.place(largeBuffer))
	}
}

const (
	// A large receive buffer pays if a half of the small one is used in less than hurry (1.6 MB/s)
	// or, if the peer waits for a grant to arrive, than two round trips; hurry is also how long a
	// peer must not have read before more is staged. The large buffer stops paying when a half of
	// it takes more than leisure, at 0.25 to 2 MB/s.
	hurry   = 20 * time.Millisecond
	leisure = time.Second
	// farTrip is the round trip over which 512 KiB are too little for 2 Gb/s. Over shorter ones
	// more would be memory for nothing.
	farTrip = 2 * time.Millisecond
	// longTrip is the round trip over which 2 MiB that are on their way, and two halves of 2 MiB of
	// which one waits for its grant to arrive, are too little for half a Gb/s.
	longTrip = 30 * time.Millisecond
)
