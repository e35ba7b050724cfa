package edge

import (
	"fmt"
	"syscall"

	"github.com/goroce/goroce/mem"
)

// Room says how much arriving data a link can hold, and what packets take of that. The link chooses
// the unit, such as bytes of a socket buffer, since only the link knows. A Size of 0 means no
// bound.
type Room struct {
	Size int
	// Cost of a packet that arrives by itself, per packet and per byte. A kernel counts the memory
	// that holds a packet, not its length.
	PerPacket, PerByte int
	// Cost of a packet in a run that arrives as one datagram; both 0 if it is the same.
	RunPerPacket, RunPerByte int
}

// ArgError reports which argument, attribute or option of a call is wrong, and what its limits are.
// All packages use this one type. It matches [mem.ErrInvalid] and syscall.EINVAL.
type ArgError struct {
	Op  string // the call, such as "modify QP INIT->RTR"
	Arg string // the argument, attribute or option, such as "path_mtu"
	Why string // what is wrong with it, and its limits
}

func (e *ArgError) Error() string { return fmt.Sprintf("roce: %s: %s: %s", e.Op, e.Arg, e.Why) }

// Is makes the error match mem.ErrInvalid and syscall.EINVAL.
func (e *ArgError) Is(target error) bool { return target == mem.ErrInvalid || target == syscall.EINVAL }
