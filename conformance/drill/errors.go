package drill

import (
	"fmt"
	"strings"
)

// place is where something stands in a script. Lines and columns count from 1.
type place struct {
	file      string
	line, col int
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.col) }

// ParseError is what is wrong with a script, and where.
type ParseError struct {
	File      string
	Line, Col int
	Text      string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Text)
}

func errAt(p place, format string, args ...any) error {
	return &ParseError{p.file, p.line, p.col, fmt.Sprintf(format, args...)}
}

// oneOf joins names for an error message.
func oneOf(names []string) string { return strings.Join(names, ", ") }
