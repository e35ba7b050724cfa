package access

import "strings"

// Mark makes err match a kind that it does not say.
func Mark(err, kind error) error { return &marked{kind, err} }

type marked struct {
	kind error
	err  error
}

func (e *marked) Error() string   { return e.err.Error() }
func (e *marked) Unwrap() []error { return []error{e.kind, e.err} }

// Plain is the text of an error that goes behind that of another one: the name
// of the package is there already.
func Plain(err error) string {
	if err == nil {
		return "no reason given"
	}
	return strings.TrimPrefix(err.Error(), "roce: ")
}
