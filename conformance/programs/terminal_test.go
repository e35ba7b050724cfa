package programs

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program reads from a terminal if it is to, and from nothing otherwise.
func TestTerminal(t *testing.T) {
	here := func(f func()) error { f(); return nil }
	tty, err := openTerminal()
	if err != nil {
		t.Skip(err) // a container without /dev/pts
	}
	with, err := start(exec.CommandContext(t.Context(), "test", "-t", "0"), tty, here)
	require.NoError(t, err)
	require.NoError(t, with.Wait())
	without, err := start(exec.CommandContext(t.Context(), "test", "-t", "0"), nil, here)
	require.NoError(t, err)
	require.Error(t, without.Wait())
}
