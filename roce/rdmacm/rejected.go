package rdmacm

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/verbs"
)

// RejectedError says that the peer refused a connection. If nothing listens there it matches
// [verbs.ErrConnRefused], and thereby syscall.ECONNREFUSED. Other refusals come from a program that
// listens, and match neither.
type RejectedError struct {
	Reason      mad.RejectReason // port space TCP
	SIDRStatus  mad.SIDRStatus   // port space UDP
	Info        []byte           // additional information for the reason
	PrivateData []byte           // padded with zeros
	Remote      netip.AddrPort   // the address that refused; the zero AddrPort in an error that a Handshake makes
	datagram    bool
}

// Error says what the refusal means, and in brackets the content of the message.
func (e *RejectedError) Error() string {
	at := "there"
	if e.Remote.IsValid() {
		at = "at " + e.Remote.String()
	}
	if e.datagram {
		if e.nobodyListens() {
			return fmt.Sprintf("roce: connection refused: nobody listens %s (CM SIDR: %v)", at, e.SIDRStatus)
		}
		return fmt.Sprintf("roce: lookup refused %s (CM SIDR: %v)", at, e.SIDRStatus)
	}
	what := "connection refused " + at
	switch e.Reason {
	case mad.RejectInvalidServiceID:
		what = "connection refused: nobody listens " + at
	case mad.RejectConsumer:
		what = "connection refused by the program that listens " + at
	case mad.RejectNoResources, mad.RejectNoQP, mad.RejectNoEEC:
		what = "connection refused: the peer has no room for another one " + at
	}
	return fmt.Sprintf("roce: %s (CM reject: %v, %d)", what, e.Reason, uint16(e.Reason))
}

// nobodyListens reports whether the peer has no listener for the request.
func (e *RejectedError) nobodyListens() bool {
	if e.datagram {
		return e.SIDRStatus == mad.SIDRUnsupportedService
	}
	return e.Reason == mad.RejectInvalidServiceID
}

// PathMTU returns the largest path MTU that the peer allows, if it refused a connection because of
// a larger one (IBTA 12.6.7.2, reason 26); 0 for other refusals. A new request with that MTU can
// succeed.
func (e *RejectedError) PathMTU() ib.MTU {
	if e.Reason == mad.RejectInvalidMTU && !e.datagram && len(e.Info) > 0 {
		if m := ib.MTU(e.Info[0]); m.Valid() {
			return m
		}
	}
	return 0
}

// Is makes it match net's error for the reason, if there is one.
func (e *RejectedError) Is(target error) bool {
	return e.nobodyListens() && (target == verbs.ErrConnRefused || target == syscall.ECONNREFUSED)
}
