package link

import "io"

// Scheduler is a Driven link on whose simulation goroutines take turns, so that
// what the calls that wait do depends on nothing but the seed.
type Scheduler interface {
	Driven

	// Scheduled reports whether the simulation runs that way. If so nobody calls
	// Step or Changed: the simulation steps by itself when every goroutine waits. A
	// goroutine that waits for something of the device blocks until it has come,
	// and then calls Turn.
	Scheduled() bool

	// Turn blocks until all other goroutines wait and it is the caller's turn. Of
	// goroutines that ask at the same time, those that were started first are first. It
	// returns at once when quit, which may be nil, is closed. The caller must hold no
	// mutex.
	Turn(quit <-chan struct{})

	// Rand returns a source of random bytes that depends on the seed and on how
	// many were taken before.
	Rand() io.Reader
}
