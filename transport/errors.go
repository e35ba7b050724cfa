package transport

import (
	"errors"
	"fmt"
)

// Errors of the API. Those that concern an attribute are wrapped in an
// [AttrError] that names it.
var (
	ErrInvalidState   = errors.New("transport: not allowed in this state")
	ErrQueueFull      = errors.New("transport: work queue is full")
	ErrInvalidOpcode  = errors.New("transport: opcode not supported by this QP type")
	ErrTooManySGE     = errors.New("transport: too many scatter/gather elements")
	ErrInlineTooLarge = errors.New("transport: inline data too large")
	ErrMessageTooLong = errors.New("transport: message too long")
	ErrBusy           = errors.New("transport: object is in use")
	ErrDestroyed      = errors.New("transport: object was destroyed")
	ErrLimit          = errors.New("transport: limit reached")
	ErrInvalidAttr    = errors.New("transport: invalid attribute")
)

// AttrError says which attribute of which operation was refused, and why.
type AttrError struct {
	Op   string // such as "modify QP INIT->RTR"
	Attr string // such as "path_mtu"
	Why  string
}

func (e *AttrError) Error() string {
	return fmt.Sprintf("transport: %s: %s: %s", e.Op, e.Attr, e.Why)
}

// Is makes every AttrError match ErrInvalidAttr.
func (e *AttrError) Is(target error) bool { return target == ErrInvalidAttr }

// errNilRequest says that there is no work request to post.
func errNilRequest(op string) error { return &AttrError{op, "wr", "is nil"} }
