package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/roce/verbs"
)

// A goodbye tells the peer that a Conn did not end in order. It is the first bytes of the DREQ's
// private data, which is otherwise empty. A peer that does not know it (librdmacm, say) sees an
// ordinary disconnect. In network byte order:
//
//	0  4  magic, "gRC" and 0xBE
//	4  1  version, 1; a reader accepts every version from 1 on, and reads what it knows
//	5  1  how it ended: 1, before all was done
const (
	goodbyeBytes          = 6
	goodbyeMagic   uint32 = 'g'<<24 | 'R'<<16 | 'C'<<8 | 0xBE
	goodbyeVersion        = 1
	endedEarly            = 1
)

// goodbyeEarly returns the private data of a disconnect with operations under way.
func goodbyeEarly() []byte {
	return append(binary.BigEndian.AppendUint32(nil, goodbyeMagic), goodbyeVersion, endedEarly)
}

// endedBeforeAll reports whether the private data of a disconnect says that operations were under
// way.
func endedBeforeAll(private []byte) bool {
	return len(private) >= goodbyeBytes && binary.BigEndian.Uint32(private) == goodbyeMagic &&
		private[4] >= goodbyeVersion && private[5] == endedEarly
}

// errPeerEndedEarly is the error of calls after such a disconnect.
var errPeerEndedEarly error = peerEndedEarly{}

type peerEndedEarly struct{}

func (peerEndedEarly) Error() string {
	return "the peer's side of the connection has failed, or was closed with operations under way"
}
func (peerEndedEarly) Unwrap() error { return verbs.ErrPeerGone }

// LostError is the error of [Conn.Close] if operations begun with Start may not have reached the
// peer, and no caller learned so from [Pending.Wait] or [Pending.Done]. It matches [ErrMaybeDone]
// and whatever Err matches: os.ErrDeadlineExceeded if Close ran out of time.
type LostError struct {
	Operations int
	Err        error // why
}

func (e *LostError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%d operations may be lost: %v", e.Operations, e.Err)
}

func (e *LostError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is makes it match ErrMaybeDone.
func (e *LostError) Is(target error) bool { return target == ErrMaybeDone }
