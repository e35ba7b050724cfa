package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/goroce/goroce/roce/verbs"
)

// The errno values of answers are Linux', whatever this runs on.
const (
	enoent     = syscall.Errno(0x2)
	eio        = syscall.Errno(0x5)
	eagain     = syscall.Errno(0xb)
	enomem     = syscall.Errno(0xc)
	eacces     = syscall.Errno(0xd)
	ebusy      = syscall.Errno(0x10)
	enodev     = syscall.Errno(0x13)
	einval     = syscall.Errno(0x16)
	erange     = syscall.Errno(0x22)
	enosys     = syscall.Errno(0x26)
	eproto     = syscall.Errno(0x47)
	emsgsize   = syscall.Errno(0x5a)
	eopnotsupp = syscall.Errno(0x5f)
	etimedout  = syscall.Errno(0x6e)
)

// refusal is an answer "err".
type refusal struct {
	errno syscall.Errno
	text  string
}

func (r *refusal) Error() string { return r.text }

func refuse(errno syscall.Errno, format string, args ...any) error {
	return &refusal{errno, fmt.Sprintf(format, args...)}
}

// errnoOf is what libibverbs would have returned for an error of package verbs.
func errnoOf(err error) syscall.Errno {
	var r *refusal
	var errno syscall.Errno
	switch {
	case errors.As(err, &r):
		return r.errno
	case errors.Is(err, verbs.ErrQueueFull), errors.Is(err, verbs.ErrLimit):
		return enomem
	case errors.Is(err, verbs.ErrBusy):
		return ebusy
	case errors.Is(err, verbs.ErrMessageTooLong):
		return emsgsize
	case errors.Is(err, verbs.ErrInvalidOpcode):
		return eopnotsupp
	case errors.Is(err, verbs.ErrInvalidAttr), errors.Is(err, verbs.ErrInvalidState),
		errors.Is(err, verbs.ErrTooManySGE), errors.Is(err, verbs.ErrInlineTooLarge):
		return einval
	case errors.Is(err, context.DeadlineExceeded):
		return etimedout
	case errors.As(err, &errno):
		return errno
	}
	return eio
}

// answerOf is the line that reports an error.
func answerOf(err error) string {
	return fmt.Sprintf("err %d %s", int(errnoOf(err)), strings.Join(strings.Fields(err.Error()), " "))
}
