package mem

import "errors"

// The kinds of failure of a control call. Every error returned is a *TableError that
// wraps one of them, or a Fault, or the error of the random source.
var (
	ErrBusy      = errors.New("in use")
	ErrDestroyed = errors.New("already destroyed")
	ErrInvalid   = errors.New("invalid argument")
	ErrLimit     = errors.New("limit reached")
)

// TableError says which call failed, because of which argument, and why.
type TableError struct {
	Op     string // the call, such as "register"
	Arg    string // the argument or attribute at fault; empty if none
	Detail string // in words; may be empty
	Err    error  // the kind
}

func (e *TableError) Error() string {
	s := "mem: " + e.Op
	if e.Arg != "" {
		s += ": " + e.Arg
	}
	s += ": " + e.Err.Error()
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap returns the kind, for errors.Is.
func (e *TableError) Unwrap() error { return e.Err }

func opErr(op, arg, detail string, kind error) error {
	return &TableError{Op: op, Arg: arg, Detail: detail, Err: kind}
}
