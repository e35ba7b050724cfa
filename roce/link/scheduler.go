package link

import "io"

// Scheduler is a Driven link whose simulation lets goroutines take turns, so that the results of
// waiting calls depend only on the seed.
type Scheduler interface {
	Driven

	// Scheduled reports whether the simulation runs like that. If so, do not call Step or Changed:
	// the simulation steps by itself when every goroutine waits. A goroutine that waits for
	// something of the device blocks until it has come, and then calls Turn.
	Scheduled() bool

	// Turn blocks until all other goroutines wait and it is the caller's turn. Goroutines that ask
	// at the same time get turns in the order in which they were started. It returns at once when
	// quit, which may be nil, is closed. The caller must hold no mutex.
	Turn(quit <-chan struct{})

	// Rand returns a source of random bytes that depends on the seed and on how many bytes were
	// taken before.
	Rand() io.Reader
}
