// Package unix has the part of golang.org/x/sys/unix, and of what package syscall has on Linux
// alone, that this module uses. On Linux the names are those. On other systems each function
// returns [ErrLinux] or ENOSYS, so that code that needs Linux compiles anywhere, and says so when
// it runs: a package needs no build tags, and decides by [Linux], where there is another way.
//
// With the build tag "portable" Linux is such another system, too: tests run there as they would
// elsewhere.
//
// A new name comes in by "go generate ./internal/unix": it looks for those that the module uses.
package unix

import (
	"errors"
	"syscall"
)

//go:generate go run generate.go

// ErrLinux is what functions return that exist on Linux alone. It matches [errors.ErrUnsupported].
var ErrLinux error = needsLinux{}

type needsLinux struct{}

func (needsLinux) Error() string { return "this needs Linux" }

func (needsLinux) Is(target error) bool { return target == errors.ErrUnsupported || target == ENOSYS }

// Errno is an error number of the system.
type Errno = syscall.Errno

// Signal is a signal.
type Signal = syscall.Signal
