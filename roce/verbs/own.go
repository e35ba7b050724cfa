package verbs

import (
	"errors"
	"strings"

	"github.com/goroce/goroce/roce/internal/access"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// own turns an error of the packages below into one of this package, so that callers need not know
// which of them failed. It returns other errors, and nil, unchanged. It is cheap for nil, so the
// data path can call it.
func own(err error) error {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *ArgError:
		return e
	case *transport.EngineError:
		return &OpError{Op: e.Op, Err: detailed(e.Err, e.Detail)}
	case *mem.TableError:
		return ownMem(e)
	case mem.Fault:
		return &OpError{Op: "memory", Err: e}
	}
	return ofKind(err, link.ErrClosed, ErrClosed)
}

// ofKind makes an error that matches below also match here.
func ofKind(err, below, here error) error {
	if errors.Is(err, below) && !errors.Is(err, here) {
		return &OpError{Op: "device", Err: access.Mark(err, here)}
	}
	return err
}

// ownMem is own for errors of the region table.
func ownMem(e *mem.TableError) error {
	var f mem.Fault
	switch {
	case e.Arg == "" || e.Arg == "key":
		return &OpError{Op: e.Op, Err: detailed(e.Err, e.Detail)}
	case e.Err == mem.ErrInvalid:
		why := e.Detail
		if why == "" {
			why = e.Err.Error()
		}
		return argError(e.Op, e.Arg, why)
	case e.Err == mem.ErrLimit || errors.As(e.Err, &f):
		return access.Mark(argError(e.Op, e.Arg, detailed(e.Err, e.Detail).Error()), e.Err)
	}
	return &OpError{Op: e.Op, Err: detailed(e.Err, strings.TrimSpace(e.Arg+" "+e.Detail))}
}

// detailed adds a description to a kind.
func detailed(err error, detail string) error {
	if detail == "" {
		return err
	}
	return &detailError{err, detail}
}

type detailError struct {
	kind   error
	detail string
}

func (e *detailError) Error() string { return e.kind.Error() + " (" + e.detail + ")" }
func (e *detailError) Unwrap() error { return e.kind }
