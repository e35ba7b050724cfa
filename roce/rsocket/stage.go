package rsocket

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// Data that the peer's program has no room for is staged: the send buffer takes it, and Write
// returns, as with TCP. The call that handles the completion with new credit or a grant sends it;
// if no call is in progress, the alarm of this file does.

// stage copies p into the send buffer, which has room for it, to be sent later. mu is released
// meanwhile; wmu is held.
func (c *Conn) stage(p []byte) error {
	b := &c.s.snd.buf
	mem, at := c.send[c.out].mem, b.head
	b.pinned = true
	c.mu.Unlock()
	n := copy(mem[at:b.size], p)
	copy(mem, p[n:])
	c.mu.Lock()
	b.pinned = false
	if err := c.writeEnd(); err != nil {
		return err
	}
	c.s.stage(len(p))
	c.pour() // the peer may have read meanwhile
	return c.err
}

// stageGrown gets a larger send buffer for rest bytes that the peer has no room for, once it has
// taken nothing for so long that it may not be reading at all: for 20 ms, and until the buffers of
// the device may grow. If the peer reads soon, a larger buffer would only fill up as well, and its
// pages cost more than the wait. mu and wmu are held.
func (c *Conn) stageGrown(rest int) bool {
	snd := &c.s.snd
	if c.out == smallBuffer {
		c.growSend(snd.buf.size + 1)
		return true
	}
	if now := c.alarm.Now(); !c.wr.try {
		if c.stallEnds == 0 {
			c.stallEnds = now + min(max(time.Duration(c.host.grown.Load())-now, hurry), longStall)
		}
		if now < c.stallEnds {
			c.pourer.Set(c.stallEnds-now, 0)
			return false
		}
	}
	c.growSend(snd.staged + rest)
	return true
}

// longStall is how long a peer must not have read before more is staged in any case.
const longStall = 200 * time.Millisecond

// prod makes a Write that has waited for the peer to read look again: the answer of the peer's
// adapter ends its wait. mu is held.
func (c *Conn) prod() {
	if c.stallEnds == 0 {
		return
	}
	if left := c.stallEnds - c.alarm.Now(); left > 0 || !c.s.canControl() {
		c.pourer.Set(max(left, firstLook), 0)
		return
	}
	c.s.keepAlive(false, &c.cmsg)
	c.postControl()
}

// pour sends staged data, and then the end of the data, as far as the peer has room. mu is held,
// which keeps the order: a Write that finds nothing staged comes later.
func (c *Conn) pour() {
	s := &c.s
	if !s.stages() || s.failed {
		return
	}
	for c.err == nil && s.snd.staged > 0 {
		n := s.snd.pourable()
		if n == 0 {
			return
		}
		s.pour(n, &c.cmsg)
		c.postPoured()
	}
	if c.err == nil && s.finStaged && s.canControl() {
		c.postFin()
	}
}

// postPoured posts cmsg, which carries staged bytes. mu is held.
func (c *Conn) postPoured() {
	m, wr, buf := &c.cmsg, &c.cwr, &c.send[c.out]
	*wr = verbs.SendWR{
		ID: m.id, Opcode: verbs.WRWriteImm, Imm: m.imm, RemoteAddr: m.to.addr, RKey: ib.RKey(m.to.key),
	}
	if !m.quiet {
		wr.Flags = verbs.SendSignaled
	}
	c.csg[0] = buf.mr.SGE(m.at, m.first)
	wr.SGList = c.csg[:1]
	if m.first < m.held {
		c.csg[1] = buf.mr.SGE(0, m.held-m.first)
		wr.SGList = c.csg[:2]
	}
	if err := c.qp.PostSend(wr); err != nil {
		c.fail(err)
	}
}

// tend makes staged data leave although no call is in progress: the next completion sets off the
// alarm, or time does on a device in polling mode, where nothing else polls. mu is held.
func (c *Conn) tend() {
	if c.tended || c.closed || c.err != nil {
		return
	}
	c.tended = true
	if access.Shard(c.dev).Mode() == shard.Polling {
		c.pourer.Set(max(c.tendGap, firstLook), 0)
		return
	}
	c.tendable.Store(true)
	if err := c.cq.RequestNotify(false); err != nil {
		c.fail(err)
		return
	}
	c.look() // completions from before the request raise no event
}

// poured is called by the alarm: it looks, and sends.
func (c *Conn) poured() {
	c.mu.Lock()
	c.tended = false
	if c.closed {
		c.mu.Unlock() // Close does it
		return
	}
	c.prod()
	before := c.s.snd.staged
	for c.look() == len(c.wcs) {
	}
	if c.tendGap = min(2*max(c.tendGap, firstLook), lastLook); c.s.snd.staged != before {
		c.tendGap = firstLook
	}
	c.leave()
}
