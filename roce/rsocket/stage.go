package rsocket

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// What the peer's program does not read yet is staged: the send buffer takes it, and Write returns,
// as with TCP. Whoever handles the completion that brings credit or a grant sends it; if nobody is
// in a call, the alarm of this file does.

// stage puts p into the send buffer, which has room for it, to be sent later. mu is given up
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

// stageGrown has a larger send buffer for rest bytes that the peer has no room for, once it has
// taken nothing for so long that it may not be reading at all: for 20 ms, and until the buffers of
// the device may grow. Where it reads soon, a larger buffer would only be filled, too, and its
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

// longStall is how long a peer has not read before more is staged in any case.
const longStall = 200 * time.Millisecond

// prod has a Write look again that has waited for the peer to read: what the peer's adapter answers
// ends its wait. mu is held.
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

// pour sends what is staged, and then the end of the data, as far as the peer has room. mu is held,
// which keeps the order: a Write that finds nothing staged comes behind.
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

// postPoured posts cmsg, which is of staged bytes. mu is held.
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

// tend has what is staged sent although nobody is in a call: the next completion has the alarm go
// off, or time on a device in polling mode, where nobody else looks. mu is held.
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
	c.look() // what came before the request makes no event
}

// poured is what the alarm does: it looks, and sends.
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
