package roce

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// An introduction is what a Conn tells its peer about itself when it connects: the last bytes of
// the private data, where those of the application, which come first, leave room. A peer that does
// not know of it sees bytes behind its own; one that sends none gets none. In network byte order:
//
//	0  4  magic, "gRC" and 0x1D
//	4  1  version, 1: who reads takes what it knows of any version from 1 on
//	5  3  0
//	8  4  the longest message that it takes, in bytes
//
// The private data of CM messages has a fixed length, filled up with zeros, so that the place is
// known.
const (
	introBytes          = 12
	introMagic   uint32 = 'g'<<24 | 'R'<<16 | 'C'<<8 | 0x1D
	introVersion        = 1
)

// introduce adds an introduction to private data, if there is room in a message that holds most.
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

// introduction returns what the peer has told of itself in private data that has the length of its
// message, and the private data without. ok is false if it has told nothing; maxMessage is then 0.
func introduction(private []byte) (maxMessage int, rest []byte, ok bool) {
	at := len(private) - introBytes
	if at < 0 || binary.BigEndian.Uint32(private[at:]) != introMagic || private[at+4] < introVersion {
		return 0, private, false
	}
	// It cannot be more than what registered memory can be sent from.
	n := binary.BigEndian.Uint32(private[at+8:])
	rest = slices.Clone(private)
	clear(rest[at:])
	return int(min(n, maxPeerMessage)), rest, true
}

// maxPeerMessage is the longest message that there is (IBTA 9.7.7.2.3).
const maxPeerMessage = 1 << 30

// MaxMessage returns the longest message that the peer takes, in bytes, as it has said when the
// connection was made; 0 if it has not, as peers on librdmacm do not. Send and StartSend refuse a
// longer one with a *[MessageTooLongError], and the connection goes on. Without knowing, the
// message is sent, and if it is too long the connection ends.
func (c *Conn) MaxMessage() int { return c.peerMax }

// MessageTooLongError says that a message is longer than the peer takes. It matches
// [ErrMessageTooLong] and syscall.EMSGSIZE. Nothing was sent.
type MessageTooLongError struct {
	Bytes, Max int
}

func (e *MessageTooLongError) Error() string {
	return fmt.Sprintf("a message of %d bytes, and the peer takes at most %d (RecvBytes of its ConnConfig)", e.Bytes, e.Max)
}

// Is makes it match the kind.
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

// introducing returns the parameters of a request with an introduction.
func (c *Conn) introducing(p *rdmacm.ConnParam, most int) *rdmacm.ConnParam {
	q := *p
	q.PrivateData = introduce(p.PrivateData, most, c.cfg.RecvBytes)
	return &q
}
