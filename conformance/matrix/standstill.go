package matrix

import (
	"errors"
	"fmt"
	"time"
)

// What a guest did not do says nothing about this module: on a busy machine an emulated one may
// stand still for seconds, and then timers run out, programs reach their limits, and what is
// counted is counted wrong. [Env.StoodStill] knows of that from questions that a program in the
// guest answers. An attempt that failed while the guest stood still is made again, and the row says
// so; a row whose every attempt failed like that is [Inconclusive].

const (
	// standstill is the shortest time without an answer that may cost an attempt. Requesters wait
	// for 0.5 s and more until they give up.
	standstill = 300 * time.Millisecond
	// promptly is how long an attempt may take that a short standstill may have cost. Those that
	// fail later have waited for something that never came, and then the guest must have stood
	// still for half of the rest.
	promptly = 30 * time.Second
)

// wrongError is a failure that no standstill explains: bytes that are not those that were sent.
type wrongError struct{ error }

func (e wrongError) Unwrap() error { return e.error }

func wrong(format string, args ...any) error { return wrongError{fmt.Errorf(format, args...)} }

// isWrong reports whether an error says that.
func isWrong(err error) bool {
	var w wrongError
	return errors.As(err, &w)
}

// now is the time on the clock of StoodStill.
func (e *Env) now() time.Duration {
	if e.Wire == nil {
		return 0
	}
	return e.Wire.Now()
}

// stoodStill says for how long the guest stood still in an attempt that began at a time and has
// failed, if that explains it.
func (e *Env) stoodStill(from time.Duration) (what string, explains bool) {
	if e.StoodStill == nil {
		return "", false
	}
	to := e.now()
	return standstillOf(to-from, func() (longest, all time.Duration) { return e.StoodStill(from, to) })
}

func standstillOf(took time.Duration, stood func() (longest, all time.Duration)) (what string, explains bool) {
	longest, all := stood()
	switch need := max(0, took-promptly) / 2; {
	case longest < standstill, all < need:
		return "", false
	case need > 0:
		return fmt.Sprintf("the guest answered nobody for %.2f s of %.0f", all.Seconds(), took.Seconds()), true
	}
	return fmt.Sprintf("the guest answered nobody for %.2f s", longest.Seconds()), true
}

// excused is stoodStill for an outcome.
func (e *Env) excused(o outcome, from time.Duration) outcome {
	if o.result != Fail || o.starved || o.wrong {
		return o
	}
	if what, ok := e.stoodStill(from); ok {
		o.starved, o.detail = true, what+"\n"+o.detail
		e.starvation()
	}
	return o
}

// attempted is a line of Row.Retried.
func attempted(n, of int, what string) string {
	return fmt.Sprintf("attempt %d of %d: %s", n, of, what)
}
