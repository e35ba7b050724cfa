package rdmacm

import (
	"errors"
	"syscall"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// errNoHost says that no way leads to the host: a router or the kernel reports it, also when nobody
// answers ARP.
var errNoHost error = access.NewKind("no route to host", verbs.ErrUnreachable, syscall.EHOSTUNREACH)

// errNoAnswer says what a request without an answer may mean.
var errNoAnswer error = access.NewKind("the peer does not answer: "+
	"no RoCE process is there, or the way drops its packets or changes addresses, as NAT does (roce doctor HOST looks)",
	verbs.ErrUnreachable, syscall.EHOSTUNREACH, syscall.ETIMEDOUT)

// errNoProcess is the refusal of a host on which nothing has the UDP port.
var errNoProcess error = access.NewKind("connection refused: no RoCE process there, the host's UDP port is closed",
	verbs.ErrConnRefused, syscall.ECONNREFUSED)

// own turns an error of the packages below into one of package verbs, so that callers need not know
// which of them failed.
func own(d *verbs.Device, err error) error {
	if err == nil {
		return nil
	}
	for _, k := range [...]struct{ below, here error }{
		{cm.ErrState, verbs.ErrInvalidState}, {cm.ErrLimit, verbs.ErrLimit}, {cm.ErrInUse, verbs.ErrAddrInUse},
	} {
		if errors.Is(err, k.below) && !errors.Is(err, k.here) {
			return &verbs.OpError{Op: "device", Err: access.Mark(err, k.here)}
		}
	}
	return access.Own(d, err)
}

// argError says which argument, or which field of one, is invalid, and why.
func argError(op, arg, why string) error { return &verbs.ArgError{Op: op, Arg: arg, Why: why} }
