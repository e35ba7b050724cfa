package access

import (
	"net/netip"
	"strings"
)

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

// Within is the text of the cause of an error that names an operation and addresses: what the cause
// says of these again is left out.
func Within(err error, op string, addrs ...netip.AddrPort) string {
	s := strings.TrimPrefix(Plain(err), op+": ")
	for _, a := range addrs {
		if !a.IsValid() {
			continue
		}
		// "connect 192.0.2.1:7: why", "open 192.0.2.1: why"
		if head, why, ok := strings.Cut(s, ": "); ok {
			if _, of, _ := strings.Cut(head, " "); of == a.String() || of == a.Addr().String() {
				s = why
			}
		}
		s = strings.Replace(s, " at "+a.String()+" ", " there ", 1)
		s = strings.Replace(s, "no route to "+a.Addr().String()+": ", "no route: ", 1)
	}
	return s
}

// Cause is an error with the text of Within.
func Cause(err error, op string, addrs ...netip.AddrPort) error {
	if text := Within(err, op, addrs...); text != err.Error() {
		return &cause{err, text}
	}
	return err
}

type cause struct {
	err  error
	text string
}

func (e *cause) Error() string { return e.text }
func (e *cause) Unwrap() error { return e.err }
