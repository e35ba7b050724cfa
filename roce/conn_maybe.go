package roce

import (
	"context"
	"errors"

	"github.com/goroce/goroce/roce/internal/access"
)

// maybeDoneError is the error of an operation that had been handed to the device. It matches
// [ErrMaybeDone].
type maybeDoneError struct{ err error }

// maybeDone marks an error of an operation that was posted; nil stays nil.
func maybeDone(err error) error {
	if err == nil || errors.Is(err, ErrMaybeDone) {
		return err
	}
	return &maybeDoneError{err}
}

func (e *maybeDoneError) Error() string {
	s := access.Plain(e.err)
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		s += " (the operation is under way, and may be carried out)"
	}
	return s
}

func (e *maybeDoneError) Unwrap() error        { return e.err }
func (e *maybeDoneError) Is(target error) bool { return target == ErrMaybeDone }
