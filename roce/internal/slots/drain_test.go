package slots

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// What is taken out of a socket ends when it is empty. Errors that it had pending do not end that;
// one that stays does. It was 131,072 calls, at each socket that a device opened.
func TestDrain(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error // the last one stays
		calls   int
	}{
		"empty":     {[]error{unix.EAGAIN}, 1},
		"two":       {[]error{nil, nil, unix.EAGAIN}, 3},
		"pending":   {[]error{unix.ECONNREFUSED, nil, unix.EHOSTUNREACH, nil, unix.EAGAIN}, 5},
		"forbidden": {[]error{unix.EPERM}, maxPending},
		"endless":   {[]error{nil}, maxDrain},
	} {
		calls := 0
		drainBy(func() error {
			calls++
			return c.answers[min(calls, len(c.answers))-1]
		})
		require.Equal(t, c.calls, calls, name)
	}
}
