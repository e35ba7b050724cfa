package roce

import (
	"context"
	"fmt"
	"io"

	"github.com/goroce/goroce/roce/verbs"
)

// Send sends one message and waits until the peer has received it. The message must fit the peer's
// receive buffers. If the peer has announced their length ([Conn.MaxMessage]), Send refuses a
// longer message; otherwise a longer message ends the connection.
//
// If the context is over already, nothing is sent. If it ends later, the message stays on its way,
// and the error matches [ErrMaybeDone]; b can be used again. The same goes for the other operations
// of a Conn.
func (c *Conn) Send(ctx context.Context, b []byte) error {
	return c.opError("send", c.copyOut(ctx, b, verbs.SendWR{Opcode: verbs.WRSend}))
}

// SendImm is Send with an immediate value for the receiver.
func (c *Conn) SendImm(ctx context.Context, b []byte, imm uint32) error {
	return c.opError("send", c.copyOut(ctx, b, verbs.SendWR{Opcode: verbs.WRSendImm, Imm: imm}))
}

// copyOut carries out a work request whose payload is a copy of b.
func (c *Conn) copyOut(ctx context.Context, b []byte, wr verbs.SendWR) error {
	c.s.Turn(nil)
	if err := c.begin(ctx, forOperation); err != nil {
		return err
	}
	if err := c.fits(wr.Opcode, len(b)); err != nil {
		return err
	}
	if len(b) > verbs.MaxPoolBuf {
		return argError("send", "b",
			fmt.Sprintf("%d bytes; without registered memory at most %d", len(b), verbs.MaxPoolBuf))
	}
	p, err := c.startCopy(ctx, b, wr)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

// Message is a received message, in a buffer of the connection. Copies of it are the same message:
// releasing one releases all.
type Message struct {
	c     *Conn
	index int
	n     int
	turn  uint64 // the buffer's turn

	Imm     uint32 // the immediate value, if HasImm
	HasImm  bool
	Written bool // a WRITE with immediate: the data is in the memory that it was written to, and Len is its length
}

// Bytes returns the message, and nil after Release. The slice must not be used after Release.
func (m *Message) Bytes() []byte {
	if m.Written || m.c == nil || !m.c.recvs.holds(m.index, m.turn) {
		return nil
	}
	return m.c.recvs.message(m.index, m.n)
}

// Len returns the length of the message in bytes.
func (m *Message) Len() int { return m.n }

// Release gives the buffer back for the next message. Releasing a message again, or a copy of it,
// does nothing.
func (m *Message) Release() error {
	if m.c == nil || !m.c.recvs.giveBack(m.index, m.turn) {
		return nil
	}
	return m.c.opError("release", m.c.postRecv(m.index))
}

// RecvMsg waits for the next message and returns it in its buffer, without copying. Release it
// soon: when all RecvDepth buffers are in use the peer has to wait. Once the peer has closed and
// all messages are read, the error is io.EOF.
//
// If the context is over already, no message is taken.
func (c *Conn) RecvMsg(ctx context.Context) (Message, error) {
	var m Message
	if err := c.begin(ctx, forMessage); err != nil {
		return m, c.opError("receive", err)
	}
	err := c.wait(ctx, forMessage, func() bool { return c.pop(&m, -1) == nil })
	if err = endOfMessages(err); err == io.EOF {
		return m, err
	}
	return m, c.opError("receive", err)
}

// pop takes the first message of the inbox if it has at most limit bytes; a negative limit is none.
func (c *Conn) pop(m *Message, limit int) error {
	switch {
	case len(c.inbox) == 0:
		return io.ErrNoProgress
	case limit >= 0 && c.inbox[0].n > limit && !c.inbox[0].Written:
		return io.ErrShortBuffer
	}
	*m = c.inbox[0]
	c.inbox = append(c.inbox[:0], c.inbox[1:]...)
	return nil
}

// Recv waits for the next message and copies it to b. If b is too short the error matches
// io.ErrShortBuffer, n is the length of the message, and the next call can still receive it. Once
// the peer has closed and all messages are read, the error is io.EOF. If the context is over
// already, no message is taken.
func (c *Conn) Recv(ctx context.Context, b []byte) (n int, err error) {
	var m Message
	if err := c.begin(ctx, forMessage); err != nil {
		return 0, c.opError("receive", err)
	}
	short := false
	err = c.wait(ctx, forMessage, func() bool {
		switch c.pop(&m, len(b)) {
		case nil:
			return true
		case io.ErrShortBuffer:
			short, n = true, c.inbox[0].n
			return true
		}
		return false
	})
	if err = endOfMessages(err); err == io.EOF {
		return 0, err
	}
	if err == nil && short {
		err = fmt.Errorf("%w: the message has %d bytes, b has %d; the next call can receive it",
			io.ErrShortBuffer, n, len(b))
	}
	if err != nil {
		return n, c.opError("receive", err)
	}
	n = copy(b, m.Bytes())
	// Release fails only when the connection is over, which the next call reports.
	_ = m.Release()
	return n, nil
}
