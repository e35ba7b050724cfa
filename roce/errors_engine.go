package roce

import (
	"errors"
	"strings"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/cm"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// own turns an error of the packages below into one of this package, so that a
// caller need not know which of them has failed. Others, and nil, stay what they
// are. It is cheap for nil, and so has a place on the data path.
func own(err error) error {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *transport.AttrError:
		return &ArgError{e.Op, e.Attr, e.Why}
	case *transport.OpError:
		return &OpError{Op: e.Op, Err: detailed(e.Err, e.Detail)}
	case *mem.OpError:
		return ownMem(e)
	case mem.Fault:
		return &OpError{Op: "memory", Err: e}
	}
	for _, k := range [...]struct{ below, kind error }{
		{cm.ErrState, ErrInvalidState}, {cm.ErrLimit, ErrLimit}, {cm.ErrInUse, ErrAddrInUse},
		{link.ErrClosed, ErrClosed},
	} {
		if errors.Is(err, k.below) && !errors.Is(err, k.kind) {
			return &OpError{Op: "device", Err: &kindError{k.kind, err}}
		}
	}
	return err
}

// ownMem is own for the table of memory.
func ownMem(e *mem.OpError) error {
	var f mem.Fault
	switch {
	case e.Arg == "" || e.Arg == "key":
		return &OpError{Op: e.Op, Err: detailed(e.Err, e.Detail)}
	case e.Err == mem.ErrInvalid:
		why := e.Detail
		if why == "" {
			why = e.Err.Error()
		}
		return &ArgError{e.Op, e.Arg, why}
	case e.Err == mem.ErrLimit || errors.As(e.Err, &f):
		return &kindError{e.Err, &ArgError{e.Op, e.Arg, detailed(e.Err, e.Detail).Error()}}
	}
	return &OpError{Op: e.Op, Err: detailed(e.Err, strings.TrimSpace(e.Arg+" "+e.Detail))}
}

// detailed adds a detail in words to a kind.
func detailed(kind error, detail string) error {
	if detail == "" {
		return kind
	}
	return &detailError{kind, detail}
}

type detailError struct {
	kind   error
	detail string
}

func (e *detailError) Error() string { return e.kind.Error() + " (" + e.detail + ")" }
func (e *detailError) Unwrap() error { return e.kind }

// kindError is an error that is also of a kind that it does not say.
type kindError struct {
	kind error
	err  error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// plain is the text of an error that goes behind that of another one: the name
// of the package is there already.
func plain(err error) string {
	if err == nil {
		return "no reason given"
	}
	return strings.TrimPrefix(err.Error(), "roce: ")
}
