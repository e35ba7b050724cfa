package roce

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// An introduction tells the peer about a Conn that connects. It takes the last bytes of the private
// data, if the application's data, which comes first, leaves room. A peer that does not know it
// sees bytes behind its own data; a peer that sends no introduction gets none. In network byte
// order:
//
//	0  4  magic, "gRC" and 0x1D
//	4  1  version, 2; a reader accepts every version from 1 on, and reads what it knows
//	5  3  0
//	8  4  the longest message that the sender takes, in bytes
//
// The private data of a CM message has a fixed length, padded with zeros, so the position is known.
const (
	introBytes          = 12
	introMagic   uint32 = 'g'<<24 | 'R'<<16 | 'C'<<8 | 0x1D
	introVersion        = 2 // from 2 on, Close acknowledges what was not asked for
)

// introduce adds an introduction to private data, if it fits a message that holds most bytes.
func introduce(private []byte, most, maxMessage int) []byte {
	if len(private) > most-introBytes {
		return private
	}
	b := append(slices.Clone(private), make([]byte, most-len(private))...)
	i := b[most-introBytes:]
	binary.BigEndian.PutUint32(i, introMagic)
	i[4] = introVersion
	binary.BigEndian.PutUint32(i[8:], uint32(maxMessage))
	return b
}

// introduction parses the introduction in the peer's private data, which has the full length of its
// CM message, and returns the private data with it zeroed. Without an introduction, version and
// maxMessage are 0.
func introduction(private []byte) (maxMessage int, rest []byte, version byte) {
	at := len(private) - introBytes
	if at < 0 || binary.BigEndian.Uint32(private[at:]) != introMagic || private[at+4] == 0 {
		return 0, private, 0
	}
	// No message can be longer than the longest send.
	n := binary.BigEndian.Uint32(private[at+8:])
	rest = slices.Clone(private)
	clear(rest[at:])
	return int(min(n, maxPeerMessage)), rest, private[at+4]
}

// maxPeerMessage is the longest message that RDMA allows (IBTA 9.7.7.2.3).
const maxPeerMessage = 1 << 30

// MaxMessage returns the longest message that the peer takes, in bytes, as it announced when it
// connected; 0 if it announced none, as peers on librdmacm do not. Send and StartSend refuse a
// longer message with a *[MessageTooLongError], and the connection goes on. If the limit is
// unknown, the message is sent; if it is too long, the connection ends.
func (c *Conn) MaxMessage() int { return c.peerMax }

// MessageTooLongError says that a message is longer than the peer takes. It matches
// [ErrMessageTooLong] and syscall.EMSGSIZE. Nothing was sent.
type MessageTooLongError struct {
	Bytes, Max int
}

func (e *MessageTooLongError) Error() string {
	return fmt.Sprintf("a message of %d bytes, and the peer takes at most %d (RecvBytes of its ConnConfig)",
		e.Bytes, e.Max)
}

// Is makes it match ErrMessageTooLong.
func (e *MessageTooLongError) Is(target error) bool { return target == verbs.ErrMessageTooLong }

// fits returns an error if a message is too long for the peer.
func (c *Conn) fits(op verbs.WROpcode, n int) error {
	if c.peerMax == 0 || n <= c.peerMax {
		return nil
	}
	switch op {
	case verbs.WRSend, verbs.WRSendImm, verbs.WRSendInv:
		return &MessageTooLongError{n, c.peerMax}
	}
	return nil
}

// introducing returns p with an introduction in its private data.
func (c *Conn) introducing(p *rdmacm.ConnParam, most int) *rdmacm.ConnParam {
	q := *p
	q.PrivateData = introduce(p.PrivateData, most, c.cfg.RecvBytes)
	return &q
}
