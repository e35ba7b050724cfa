package transport

import (
	"errors"
	"fmt"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/edge"
)

// The kinds of failure of the API. An error about an attribute is an [ArgError]. Any other is an
// [EngineError] that wraps one of these kinds, or an error of package mem. The two packages share
// common kinds, so callers need not know which of them failed.
var (
	ErrInvalidState   = errors.New("not allowed in this state")
	ErrQueueFull      = errors.New("work queue is full")
	ErrInvalidOpcode  = errors.New("opcode not supported by this QP type")
	ErrTooManySGE     = errors.New("too many scatter/gather elements")
	ErrInlineTooLarge = errors.New("inline data too large")
	ErrMessageTooLong = errors.New("message too long")
	ErrBusy           = mem.ErrBusy
	ErrDestroyed      = mem.ErrDestroyed
	ErrLimit          = mem.ErrLimit
	ErrInvalidAttr    = mem.ErrInvalid
)

// EngineError reports which operation failed, and why.
type EngineError struct {
	Op     string // such as "post send"
	Detail string // in words; may be empty
	Err    error  // the kind
}

func (e *EngineError) Error() string {
	s := "transport: " + e.Op + ": " + e.Err.Error()
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap returns the kind, for errors.Is.
func (e *EngineError) Unwrap() error { return e.Err }

// opErr makes an EngineError. Call it only after a failure, since it formats.
func opErr(op string, kind error, detail string, args ...any) error {
	return &EngineError{Op: op, Detail: fmt.Sprintf(detail, args...), Err: kind}
}

// ArgError reports which argument of a call is wrong; see [edge.ArgError].
type ArgError = edge.ArgError

func argError(op, arg, why string) error { return &ArgError{Op: op, Arg: arg, Why: why} }

// errNilRequest reports a nil work request.
func errNilRequest(op string) error { return argError(op, "wr", "is nil") }
