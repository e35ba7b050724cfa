package roce

import (
	"context"
	"fmt"
	"math"

	"github.com/goroce/goroce/roce/verbs"
)

// Share registers buf for the peer and sends it a message with the address, length and key, which
// the peer receives with [Conn.Shared]. access is what the peer may do: RemoteWrite, RemoteRead,
// RemoteAtomic, or several of them. The peer may use the memory until the region or the connection
// is closed.
//
// buf may have up to 4 GiB - 1 bytes, the most that the message can name.
//
// The message is the 16 bytes of [verbs.RemoteMemory.MarshalBinary], a form that rping also uses.
func (c *Conn) Share(ctx context.Context, buf []byte, access verbs.Access) (*verbs.MR, error) {
	if access&(verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic) == 0 {
		return nil, c.opError("share", argError("share", "access", "none of it is the peer's"))
	}
	if err := c.begin(ctx, forOperation); err != nil {
		return nil, c.opError("share", err)
	}
	if n := uint64(len(buf)); n > math.MaxUint32 {
		return nil, c.opError("share", argError("share", "buf",
			fmt.Sprintf("%d bytes, and a RemoteMemory names at most %d: share it in parts", n, uint32(math.MaxUint32))))
	}
	mr, err := c.Register(buf, access|verbs.LocalWrite)
	if err != nil {
		return nil, err
	}
	b, err := mr.Remote().MarshalBinary()
	if err == nil {
		err = c.copyOut(ctx, b, verbs.SendWR{Opcode: verbs.WRSend})
	}
	if err != nil {
		// The peer may have learned the key by now.
		_ = mr.Close()
		return nil, c.opError("share", err)
	}
	return mr, nil
}

// Shared waits for the next message and parses it as one that [Conn.Share] sends. The error is
// io.EOF if the peer closes the connection instead, and wraps an *ArgError if the message is
// anything else.
func (c *Conn) Shared(ctx context.Context) (RemoteMemory, error) {
	var r RemoteMemory
	m, err := c.RecvMsg(ctx)
	if err != nil {
		return r, err
	}
	defer m.Release()
	if m.Len() != RemoteMemoryBytes || m.Written {
		return r, c.opError("shared",
			argError("shared", "message", fmt.Sprintf("%d bytes; a RemoteMemory has %d", m.Len(), RemoteMemoryBytes)))
	}
	return r, r.UnmarshalBinary(m.Bytes())
}
