package roce

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/roce/verbs"
)

// StartWrite writes from registered memory to memory of the peer, without notifying it. As with
// Write, writing more than remote holds is an error, and nothing is sent.
func (c *Conn) StartWrite(ctx context.Context, remote RemoteMemory, local ...verbs.SGE) (*Pending, error) {
	return c.startMem(ctx, "start write", verbs.SendWR{Opcode: verbs.WRWrite, SGList: local}, remote)
}

// StartWriteImm is StartWrite followed by an empty message with an immediate value, which notifies
// the peer.
func (c *Conn) StartWriteImm(ctx context.Context, remote RemoteMemory, imm uint32,
	local ...verbs.SGE) (*Pending, error) {
	return c.startMem(ctx, "start write", verbs.SendWR{Opcode: verbs.WRWriteImm, SGList: local, Imm: imm}, remote)
}

// StartRead reads memory of the peer into registered memory. It fills all of local, which must not
// be longer than remote.
func (c *Conn) StartRead(ctx context.Context, remote RemoteMemory, local ...verbs.SGE) (*Pending, error) {
	return c.startMem(ctx, "start read", verbs.SendWR{Opcode: verbs.WRRead, SGList: local}, remote)
}

// startMem is Start for memory of the peer, with a check that the request fits it.
func (c *Conn) startMem(ctx context.Context, op string, wr verbs.SendWR, remote RemoteMemory) (*Pending, error) {
	if err := checkLen(op, "local", payload(&wr), remote); err != nil {
		return nil, c.opError(op, err)
	}
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	return c.Start(ctx, wr)
}

// checkLen returns an error if n bytes do not fit remote.
func checkLen(op, arg string, n uint64, remote RemoteMemory) error {
	if n > uint64(remote.Len) {
		return argError(op, arg, fmt.Sprintf("%d bytes, and the peer's memory has %d", n, remote.Len))
	}
	return nil
}

// checkAligned returns an error if the peer would refuse an atomic operation for its alignment,
// which would end the connection (IBTA 9.4.5).
func checkAligned(op, arg string, wr *verbs.SendWR) error {
	switch wr.Opcode {
	case verbs.WRFetchAdd, verbs.WRCompareSwap, verbs.WRAtomicWrite:
		if wr.RemoteAddr%8 != 0 {
			return argError(op, arg,
				fmt.Sprintf("%#x is not a multiple of 8, as atomic operations want it", wr.RemoteAddr))
		}
	}
	return nil
}

// connChunk is how many bytes Write and Read carry with one work request.
const connChunk = 256 << 10

// Write writes b to memory of the peer and waits until it is there, without notifying the peer.
// After an error that matches [ErrMaybeDone] part of b may be there, and more may follow; b itself
// can be used again.
func (c *Conn) Write(ctx context.Context, b []byte, remote RemoteMemory) error {
	if err := checkLen("write", "b", uint64(len(b)), remote); err != nil {
		return c.opError("write", err)
	}
	var window [2]*Pending // copy one chunk while the one before is on its way
	for i := 0; len(b) > 0 || i == 0; i++ {
		n := min(len(b), connChunk)
		p, err := c.writeChunk(ctx, b[:n], remote)
		if err != nil {
			if i > 0 {
				err = maybeDone(err)
			}
			return c.opError("write", err)
		}
		if old := window[i%2]; old != nil {
			if err := old.wait(ctx); err != nil {
				return c.opError("write", err)
			}
		}
		window[i%2] = p
		b, remote = b[n:], after(remote, n)
	}
	for _, p := range window {
		if p == nil {
			continue
		}
		if err := p.wait(ctx); err != nil {
			return c.opError("write", err)
		}
	}
	return nil
}

func (c *Conn) writeChunk(ctx context.Context, b []byte, remote RemoteMemory) (*Pending, error) {
	if err := c.begin(ctx, forOperation); err != nil {
		return nil, err
	}
	return c.startCopy(ctx, b, verbs.SendWR{Opcode: verbs.WRWrite, RemoteAddr: remote.Addr, RKey: remote.RKey})
}

// Read reads len(b) bytes from memory of the peer. On an error, the rest of b from some point on is
// unchanged. Nothing of b changes after Read has returned.
func (c *Conn) Read(ctx context.Context, b []byte, remote RemoteMemory) error {
	if err := checkLen("read", "b", uint64(len(b)), remote); err != nil {
		return c.opError("read", err)
	}
	if err := c.begin(ctx, forOperation); err != nil {
		return c.opError("read", err) // also for an empty b
	}
	for len(b) > 0 {
		n := min(len(b), connChunk)
		err := c.copyIn(ctx, b[:n], verbs.SendWR{Opcode: verbs.WRRead, RemoteAddr: remote.Addr, RKey: remote.RKey})
		if err != nil {
			return c.opError("read", err)
		}
		b, remote = b[n:], after(remote, n)
	}
	return nil
}

// copyIn carries out a work request and copies its result to b.
func (c *Conn) copyIn(ctx context.Context, b []byte, wr verbs.SendWR) error {
	if err := c.begin(ctx, forOperation); err != nil {
		return err
	}
	buf, err := c.pool.Get(len(b))
	if err != nil {
		return err
	}
	wr.SGList = []verbs.SGE{buf.SGE(len(b))}
	p := &Pending{c: c, buf: buf, kept: true}
	if err := c.startPending(ctx, []verbs.SendWR{wr}, p); err != nil {
		return err
	}
	err = p.wait(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.done {
		p.kept = false // finish, or Close, releases the buffer
		return err
	}
	if err == nil {
		copy(b, buf.Bytes())
	}
	buf.Release()
	return err
}

// FetchAdd adds delta to the 8 bytes at the start of remote and returns what they held. Their
// address must be aligned; otherwise the error is an *ArgError, and nothing is sent. The number has
// the byte order of the peer's processor, which must be that of ours. After an error that matches
// [ErrMaybeDone] the peer may have added delta, or may still do so.
func (c *Conn) FetchAdd(ctx context.Context, remote RemoteMemory, delta uint64) (uint64, error) {
	return c.atomic(ctx, "fetch and add", remote, verbs.SendWR{Opcode: verbs.WRFetchAdd, CompareAdd: delta})
}

// CompareSwap replaces the 8 bytes at the start of remote by swap if they hold
// compare, and returns what they held. See FetchAdd.
func (c *Conn) CompareSwap(ctx context.Context, remote RemoteMemory, compare, swap uint64) (uint64, error) {
	return c.atomic(ctx, "compare and swap", remote,
		verbs.SendWR{Opcode: verbs.WRCompareSwap, CompareAdd: compare, Swap: swap})
}

func (c *Conn) atomic(ctx context.Context, op string, remote RemoteMemory, wr verbs.SendWR) (uint64, error) {
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	err := checkLen(op, "remote", 8, remote)
	if err == nil {
		err = checkAligned(op, "remote.Addr", &wr)
	}
	if err != nil {
		return 0, c.opError(op, err)
	}
	var b [8]byte
	if err := c.copyIn(ctx, b[:], wr); err != nil {
		return 0, c.opError(op, err)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// after returns r without its first n bytes; r.Len is at least n. The rest may exceed an int of a
// 32-bit processor.
func after(r RemoteMemory, n int) RemoteMemory {
	return RemoteMemory{Addr: r.Addr + uint64(n), RKey: r.RKey, Len: r.Len - uint32(n)}
}
