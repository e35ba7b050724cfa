package getopt

import (
	"fmt"
	"strconv"
)

// Int returns a setter that stores an integer from lo to hi in dst. Numbers
// are written as in C: 0x for hexadecimal, a leading 0 for octal.
func Int[T ~int | ~int64 | ~uint8 | ~uint16 | ~uint32](dst *T, lo, hi int64) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		if n < lo || n > hi {
			return fmt.Errorf("%d is not within %d to %d", n, lo, hi)
		}
		*dst = T(n)
		return nil
	}
}

// Bool returns a setter that stores true in dst.
func Bool(dst *bool) func(string) error {
	return func(string) error { *dst = true; return nil }
}

// String returns a setter that stores the value in dst.
func String(dst *string) func(string) error {
	return func(s string) error { *dst = s; return nil }
}

// Float returns a setter that stores a number not below 0 in dst.
func Float(dst *float64) func(string) error {
	return func(s string) error {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= 0) {
			return fmt.Errorf("%q is not a number from 0 up", s)
		}
		*dst = f
		return nil
	}
}

// Choice returns a setter that stores one of the given words in dst.
func Choice(dst *string, words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				*dst = s
				return nil
			}
		}
		return fmt.Errorf("%q is not one of %q", s, words)
	}
}

// Unsupported returns a setter that refuses the option and says why.
func Unsupported(reason string) func(string) error {
	return func(string) error { return fmt.Errorf("not supported: %s", reason) }
}

// Ignore accepts any value of an option that has no meaning here.
func Ignore(string) error { return nil }
