package wire

import (
	"fmt"
	"syscall"

	"github.com/goroce/goroce/mem"
)

// Room is what a link can hold of what arrives until it is received, and what
// packets take of that. The unit is the link's: bytes of a socket buffer, say.
// It is the link that knows; without a Size nothing is bounded by it.
type Room struct {
	Size int
	// What a packet takes that arrives by itself: so much, and so much for each of
	// its bytes. A kernel counts the memory that holds a packet, not the packet.
	PerPacket, PerByte int
	// What one of a run takes that arrives as one datagram; 0 each if that is the same.
	RunPerPacket, RunPerByte int
}

// ArgError says which argument of a call, or which attribute or option, is
// wrong, and what its limits are. It is the one type for that of all packages, and matches
// [mem.ErrInvalid] and syscall.EINVAL.
type ArgError struct {
	Op  string // the call, such as "modify QP INIT->RTR"
	Arg string // the argument, attribute or option, such as "path_mtu"
	Why string // what is wrong with it, and its limits
}

func (e *ArgError) Error() string { return fmt.Sprintf("roce: %s: %s: %s", e.Op, e.Arg, e.Why) }

// Is adds the kinds that it is of.
func (e *ArgError) Is(target error) bool { return target == mem.ErrInvalid || target == syscall.EINVAL }
