package access

import (
	"io/fs"
	"net"
	"slices"

	"github.com/goroce/goroce/roce/internal/shard"
)

// Kind is a kind of failure that others have a name for, too. Packages verbs, rdmacm and roce
// declare theirs.
type Kind struct {
	text string
	also []error
}

// NewKind makes a kind, which matches the others.
func NewKind(text string, also ...error) *Kind { return &Kind{text, also} }

func (k *Kind) Error() string { return k.text }

// Is finds the other names.
func (k *Kind) Is(target error) bool { return slices.Contains(k.also, target) }

// ErrZero is what calls on a zero value return.
var ErrZero error = NewKind("roce: a zero value, not what the function that makes these has returned",
	shard.ErrClosed, net.ErrClosed, fs.ErrInvalid)
