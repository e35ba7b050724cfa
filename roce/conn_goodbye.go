package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/roce/verbs"
)

// A goodbye is what a Conn tells its peer when it ends otherwise than in order: the first bytes of
// the private data of the DREQ, which is empty else. A peer that does not know of it (librdmacm,
// say) sees a disconnect as any other. In network byte order:
//
//	0  4  magic, "gRC" and 0xBE
//	4  1  version, 1: who reads takes what it knows of any version from 1 on
//	5  1  how it ended: 1, before all was done
const (
	goodbyeBytes          = 6
	goodbyeMagic   uint32 = 'g'<<24 | 'R'<<16 | 'C'<<8 | 0xBE
	goodbyeVersion        = 1
	endedEarly            = 1
)

// goodbyeEarly returns the private data of a disconnect before all was done.
func goodbyeEarly() []byte {
	return append(binary.BigEndian.AppendUint32(nil, goodbyeMagic), goodbyeVersion, endedEarly)
}

// endedBeforeAll reports whether the private data of a disconnect says that not all was done.
func endedBeforeAll(private []byte) bool {
	return len(private) >= goodbyeBytes && binary.BigEndian.Uint32(private) == goodbyeMagic &&
		private[4] >= goodbyeVersion && private[5] == endedEarly
}

// errPeerEndedEarly is what calls get then.
var errPeerEndedEarly error = peerEndedEarly{}

type peerEndedEarly struct{}

func (peerEndedEarly) Error() string {
	return "the peer's side of the connection has failed, or was closed with operations under way"
}
func (peerEndedEarly) Unwrap() error { return verbs.ErrPeerGone }

// LostError is what [Conn.Close] returns for operations that were begun with Start, of which the
// peer may not have what they carry, and whose end nobody has been told of by [Pending.Wait] or
// [Pending.Done]. It matches [ErrMaybeDone], and what Err does: os.ErrDeadlineExceeded if it was
// the time of Close.
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
