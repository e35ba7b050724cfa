package slots

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without /proc an address is not shared, and that is said: a device then has it alone.
func TestReopenFails(t *testing.T) {
	_, err := reopen(-1)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "by /proc")
}
