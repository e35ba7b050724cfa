package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// wrongError is what no disturbance explains.
type wrongError struct{ what string }

func (e *wrongError) Error() string { return e.what }

// kindOf names the kind of an error that a disturbance can make; "" is one that none does. Those of
// a connection that was not made come from a peer that is not there, or is not reached.
func kindOf(err error) string {
	var wrong *wrongError
	var status *roce.StatusError
	var rejected *roce.RejectedError
	switch {
	case errors.As(err, &wrong):
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "" // the bounds are such that whatever waits has long given up
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused: nobody listens"
	case errors.As(err, &rejected):
		return "rejected: " + rejected.Reason.String()
	case errors.Is(err, syscall.EMSGSIZE):
		return "too long for the path"
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH):
		return "no answer"
	case errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.ENOTCONN):
		return "peer closed"
	case errors.As(err, &status) && status.WC.Status == verbs.WCFlushErr:
		return "connection over"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return "ended here"
	}
	return ""
}
