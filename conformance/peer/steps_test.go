package peer

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A script ends at its first error, and what it has deferred is done; other panics are not its
// business.
func TestSteps(t *testing.T) {
	var did []int
	step := func(n int, err error) {
		did = append(did, n)
		Must(err)
	}
	err := Steps(func() {
		defer step(9, nil)
		step(Got(1, nil), nil)
		step(2, io.EOF)
		step(3, nil)
	})
	require.Equal(t, io.EOF, err)
	require.Equal(t, []int{1, 2, 9}, did)
	require.NoError(t, Steps(func() { step(4, nil) }))
	require.ErrorIs(t, Steps(func() { Got(0, io.EOF) }), io.EOF)
	require.PanicsWithError(t, "other", func() { _ = Steps(func() { panic(errors.New("other")) }) })
	// One script inside of another: an error ends the inner one alone.
	require.NoError(t, Steps(func() { did = append(did, 5); require.Error(t, Steps(func() { Must(io.EOF) })) }))
}
