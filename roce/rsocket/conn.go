package rsocket

import (
	"container/list"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Conn is a connected stream socket. It is a net.Conn, and has the further methods of net.TCPConn
// that make sense here. See the package comment.
type Conn struct {
	dev          *verbs.Device
	id           *rdmacm.ID
	ch           *rdmacm.EventChannel // of id
	cfg          Config
	host         *host
	laddr, raddr Addr

	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP

	sends int // capacity of the empty send queue

	recv [2]buffer // where the peer writes
	send [len(sendSizes)]buffer
	list buffer // grants and mappings, written by the peer

	rd, wr   waiter  // of Read, of Write; with their deadlines
	cl       waiter  // of Close and CloseWrite, under wmu
	rmu, wmu lock    // one Read, one Write at a time; taken before mu
	wmsg     message // under wmu: what Write posts
	wwr      verbs.SendWR
	wsg      [2]verbs.SGE

	// mu guards all below and is held only briefly.
	mu      sync.Mutex
	s       stream
	out     int           // the send buffer in use
	moved   bool          // unacknowledged data may be in earlier send buffers
	near    bool          // a send buffer of streamSend is enough for the path
	granted time.Duration // when a half of the receive buffer was last granted
	debt    int           // receive requests to post again
	err     error         // why nothing works any more, except Close
	closed  bool
	noRead  bool // by CloseRead
	discard bool // noRead, and no Read is in progress any more
	noWrite bool // by CloseWrite
	maps    []*Mapping
	alarm   *shard.Alarm // for probes and, once closed, to look whether it is over
	keepGap time.Duration
	heard   time.Duration // when the peer last sent something other than an answer to a probe
	// answered is when the peer last sent anything.
	answered time.Duration
	lost     bool // data was not acknowledged before the connection failed
	// breached: the peer has broken the protocol, and is ignored from now on.
	breached bool
	// Of a lingering connection:
	orphan bool
	buried bool              // its memory is being freed
	looked time.Duration     // how long it has lingered
	place  *everyaddr.Budget // of a listener at all addresses, until release
	left   *list.Element     // under host.mu

	notify   atomic.Pointer[func()] // see Notify
	asked    atomic.Bool            // notify is wanted
	tended   bool                   // pourer awaits the next completion, or goes off in tendGap
	tendGap  time.Duration          // in polling mode
	tendable atomic.Bool            // the next completion is for pourer
	pourer   *shard.Alarm
	// stallEnds is when a Write has waited long enough for the peer to read; 0: none waits.
	stallEnds time.Duration

	cmsg message // for control messages and staged data
	cwr  verbs.SendWR
	csg  [2]verbs.SGE
	// polling says that a call is in cq.Wait, which then owns wcs and pollCtx.
	polling bool
	pollCtx waitContext
	wcs     [pollBatch]verbs.WC
}

// usable returns an error if c is closed.
func (c *Conn) usable(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return opError(op, c.laddr, c.raddr, net.ErrClosed)
	}
	return nil
}

// valid reports whether c was made by Dial or Accept; nil and the zero Conn were not.
func (c *Conn) valid() bool { return c != nil && c.host != nil }

// Read reads data into p. It returns io.EOF when the peer has closed its side.
func (c *Conn) Read(p []byte) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	if len(p) == 0 {
		return 0, c.usable("read")
	}
	access.Shard(c.dev).Turn(nil)
	c.rmu.Lock()
	n, err := c.read(p)
	c.rmu.Unlock()
	return n, opError("read", c.laddr, c.raddr, err)
}

func (c *Conn) read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.leave()
	if err := c.refused(&c.rd); err != nil {
		return 0, err
	}
	for c.s.rcv.ready == 0 {
		if err := c.readEnd(); err != nil {
			return 0, err
		}
		if err := c.wait(&c.rd); err != nil {
			return 0, err
		}
	}
	n := 0
	for n < len(p) && c.s.rcv.ready > 0 {
		buf, off, k := c.s.rcv.unread(len(p) - n)
		// Only we move the read offset, and the peer must not write here.
		from := c.recv[buf].mem[off : off+k]
		c.mu.Unlock()
		copy(p[n:], from)
		c.mu.Lock()
		c.s.rcv.take(k)
		n += k
	}
	c.credit()
	return n, nil
}

// refused returns the error of a call that must not even begin.
func (c *Conn) refused(w *waiter) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case w == &c.rd && c.noRead:
		return io.EOF
	case w == &c.wr && c.noWrite:
		return syscall.EPIPE
	case w.passed():
		return errTimeout
	}
	return nil
}

// readEnd returns why there is and will be nothing to read, or nil.
func (c *Conn) readEnd() error {
	switch {
	case c.s.finRecvd, c.s.byeSent:
		return io.EOF
	case c.err != nil:
		return c.err
	}
	return nil
}

// Write writes p. It returns when all of p is at least in the send buffer: up to 4 MiB if the peer
// does not read, see the package comment. After 0.1 s in which nothing came from the peer, Write
// first asks whether it is still there, which takes a round trip: if its process has died and
// another has taken its place, nothing is written, and the error matches ECONNRESET. It does not
// ask without [Config.KeepAlive], or if a round trip takes more than 5 ms.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	c.wmu.Lock()
	n, err := c.write(p)
	c.wmu.Unlock()
	return n, opError("write", c.laddr, c.raddr, err)
}

func (c *Conn) write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.leave()
	if err := c.refused(&c.wr); err != nil {
		return 0, err
	}
	c.confirm()
	for ramp := c.s.snd.begins(); n < len(p); ramp = min(4*ramp, maxTransfer) {
		k, later, err := c.sendable(min(len(p)-n, ramp), len(p)-n)
		switch {
		case err != nil:
			return n, err
		case later:
			err = c.stage(p[n : n+k])
		default:
			c.s.data(k, &c.wmsg)
			err = c.postData(p[n:n+k], false)
		}
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// sendable waits until a message can be sent, or until the send buffer can take bytes to be sent
// later, and returns how many bytes, at most want; rest is how many there are in all. mu and wmu
// are held.
func (c *Conn) sendable(want, rest int) (n int, later bool, err error) {
	defer func() { c.stallEnds = 0 }()
	for looked := false; ; {
		if err := c.writeEnd(); err != nil {
			return 0, false, err
		}
		snd := &c.s.snd
		if snd.cramped(want) {
			c.streamGrown()
		}
		if !snd.stages() {
			if k := snd.data(want); k > 0 {
				return k, false, nil
			}
		} else if !looked {
			looked = true
			c.look() // the peer may have read
			continue
		} else {
			k := snd.stageable(min(rest, maxTransfer))
			if k == 0 && c.stageGrown(rest) {
				k = snd.stageable(min(rest, maxTransfer))
			}
			if k > 0 {
				return k, true, nil
			}
		}
		if err := c.wait(&c.wr); err != nil {
			return 0, false, err
		}
	}
}

// writeEnd returns why nothing can be written any more, or nil.
func (c *Conn) writeEnd() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.noWrite:
		return syscall.EPIPE
	case c.err != nil:
		return c.err
	case c.s.byeRecvd:
		return syscall.EPIPE
	}
	return nil
}

// postData posts wmsg with the bytes p; placed says that they are in the send buffer already. mu is
// released meanwhile: copying and sending take long, and wmu keeps the order.
func (c *Conn) postData(p []byte, placed bool) error {
	m, wr, buf := &c.wmsg, &c.wwr, &c.send[c.out]
	c.mu.Unlock()
	*wr = verbs.SendWR{
		ID: m.id, Opcode: verbs.WRWriteImm, Imm: m.imm, RemoteAddr: m.to.addr, RKey: ib.RKey(m.to.key),
	}
	if !m.quiet {
		wr.Flags = verbs.SendSignaled
	}
	if m.plain {
		wr.Opcode = verbs.WRWrite
	}
	if m.held == 0 {
		wr.Flags |= verbs.SendInline
		wr.Inline = p
	} else {
		if !placed {
			copy(buf.mem[m.at:], p[:m.first])
		}
		c.wsg[0] = buf.mr.SGE(m.at, m.first)
		wr.SGList = c.wsg[:1]
		if m.first < len(p) {
			copy(buf.mem, p[m.first:])
			c.wsg[1] = buf.mr.SGE(0, len(p)-m.first)
			wr.SGList = c.wsg[:2]
		}
	}
	err := c.qp.PostSend(wr)
	wr.Inline = nil
	c.mu.Lock()
	if err != nil {
		c.s.owed -= len(p) // Write reports them
		c.fail(err)
		return c.err
	}
	return nil
}

// postControl posts cmsg. mu is held.
func (c *Conn) postControl() {
	m, wr := &c.cmsg, &c.cwr
	*wr = verbs.SendWR{
		ID: m.id, Opcode: verbs.WRWriteImm, Flags: verbs.SendSignaled | verbs.SendInline,
		Imm: m.imm, RemoteAddr: m.to.addr, RKey: ib.RKey(m.to.key), Inline: m.body[:m.n],
	}
	if m.plain {
		wr.Opcode = verbs.WRWrite
	}
	if err := c.qp.PostSend(wr); err != nil {
		c.fail(err)
	}
}

// credit tells the peer of room, if it is due. mu is held.
func (c *Conn) credit() {
	if c.err == nil && c.s.rcv.due() {
		c.fitRecv()
	}
	for c.err == nil && c.s.update(&c.cmsg) {
		c.postControl()
	}
}

// fail records why the connection is over. mu is held.
func (c *Conn) fail(err error) {
	if c.err != nil {
		return
	}
	if errors.Is(err, roce.ErrClosed) {
		err = net.ErrClosed // the application closed the device
		if why := access.Shard(c.dev).ClosedErr(); why != roce.ErrClosed {
			err = why // the device closed for another reason
		}
	}
	c.err = err
}

// handle handles the first n completions in wcs. mu is held.
func (c *Conn) handle(n int) {
	heard, answered, fin := false, false, c.s.finRecvd
	for i := range c.wcs[:n] {
		wc := &c.wcs[i]
		k := kindOf(wc.ID)
		if wc.Status != verbs.WCSuccess {
			c.lost = c.lost || k == wrData || k == wrDirect
			c.s.fail()
			c.failed(wc)
			continue
		}
		if k != wrRecv {
			c.s.sent(wc.ID)
		}
		heard, answered = heard || k != wrProbe, true
		if k != wrRecv {
			continue
		}
		c.debt++
		if c.breached || c.s.byeRecvd {
			continue // no message is expected any more
		}
		if wc.Opcode != verbs.WCRecvWriteImm {
			c.breach(&ProtocolError{"a SEND"})
		} else if err := c.s.arrived(wc.Imm, wc.ByteLen, c.list.mr); errors.Is(err, roce.ErrClosed) {
			c.fail(err)
		} else if err != nil {
			c.breach(err)
		}
	}
	if c.moved && c.s.snd.buf.old == 0 {
		c.retireSends()
	}
	c.pour()
	if fin != c.s.finRecvd {
		c.push()
	}
	if answered && c.keepGap > 0 {
		if c.answered = c.alarm.Now(); heard {
			c.heard = c.answered
		}
	}
	for c.debt >= recvDebt && c.err == nil {
		k := min(c.debt, len(receives))
		c.debt -= k
		if _, err := c.qp.PostRecvBatch(receives[:k]); err != nil {
			c.fail(err)
		}
	}
	if c.discard {
		c.s.rcv.take(c.s.rcv.ready)
	}
	c.credit()
}

// push sends what waits to leave with something else. The program may exit now, and the peer needs
// to know that we have everything, or that nothing more comes. mu is held.
func (c *Conn) push() {
	_ = core.Open(c.qp).Shard().Command(func(int64) error { return nil }) // fails if the device is closed
}

// breach ends the connection because the peer broke the protocol.
func (c *Conn) breach(err error) {
	c.breached = true
	c.fail(&brokenError{syscall.EPROTO, err})
	// Block all later writes of the peer. This fails if the connection is over already.
	_ = c.id.Disconnect(nil)
}

// failed handles a failed completion.
func (c *Conn) failed(wc *verbs.WC) {
	if c.s.over() || c.s.byeSent && wc.Status == verbs.WCFlushErr {
		return // both sides knew
	}
	if wc.Status == verbs.WCFlushErr && access.Shard(c.dev).Closed() {
		c.fail(roce.ErrClosed) // the device has failed
		return
	}
	c.fail(broken(wc))
}

// LocalAddr returns the address of this end, an Addr.
func (c *Conn) LocalAddr() net.Addr {
	if !c.valid() {
		return nil
	}
	return c.laddr
}

// RemoteAddr returns the address of the peer, an Addr.
func (c *Conn) RemoteAddr() net.Addr {
	if !c.valid() {
		return nil
	}
	return c.raddr
}

// SetDeadline sets the deadlines of Read and Write.
func (c *Conn) SetDeadline(t time.Time) error {
	if !c.valid() {
		return errInvalid
	}
	return c.setDeadline(t, &c.rd, &c.wr)
}

// SetReadDeadline sets the time at which Read gives up with an error that matches
// os.ErrDeadlineExceeded; the zero time means never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if !c.valid() {
		return errInvalid
	}
	return c.setDeadline(t, &c.rd)
}

// SetWriteDeadline is SetReadDeadline for Write, WriteAt and Map. A Write that gives up may have
// written some of its data.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if !c.valid() {
		return errInvalid
	}
	return c.setDeadline(t, &c.wr)
}

func (c *Conn) setDeadline(t time.Time, ws ...*waiter) error {
	if err := c.usable("set"); err != nil {
		return err
	}
	for _, w := range ws {
		w.set(t)
	}
	return nil
}

// SetNoDelay exists for programs that call it on a *net.TCPConn. It changes nothing: every Write is
// sent at once, as by librdmacm.
func (c *Conn) SetNoDelay(bool) error {
	if !c.valid() {
		return errInvalid
	}
	return c.usable("set")
}
