package access

import (
	"context"
	"os"
)

// DeadlineError reports that a call's deadline has passed, or that of its context. Like the error
// of package net, it matches both context.DeadlineExceeded and os.ErrDeadlineExceeded.
type DeadlineError struct{}

func (DeadlineError) Error() string   { return os.ErrDeadlineExceeded.Error() }
func (DeadlineError) Timeout() bool   { return true }
func (DeadlineError) Temporary() bool { return true }

// Is finds the other names.
func (DeadlineError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}
