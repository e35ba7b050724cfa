package cm

import (
	"errors"
	"fmt"
)

var (
	// ErrState is wrapped when a command does not fit the state of its connection: usually because
	// the peer was faster.
	ErrState = errors.New("cm: wrong state")
	// ErrLimit is wrapped when one of [Limits] is reached.
	ErrLimit = errors.New("cm: limit reached")
	// ErrInUse is returned by Listen when the service already has a listener.
	ErrInUse = errors.New("cm: service is in use")
)

// stateError says which message was attempted in which state.
type stateError struct {
	op    string
	state State
}

func (e *stateError) Error() string { return fmt.Sprintf("cm: %s in state %v", e.op, e.state) }
func (e *stateError) Unwrap() error { return ErrState }
