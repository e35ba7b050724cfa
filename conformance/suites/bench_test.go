package suites

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab"
)

// Here and in a guest a program that a signal has ended is told from one that has refused.
func TestKilledBy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want syscall.Signal
	}{
		{nil, 0},
		{errors.New("x"), 0},
		{exec.Command("sh", "-c", "exit 3").Run(), 0},
		{exec.Command("sh", "-c", "kill -SEGV $$").Run(), syscall.SIGSEGV},
		{&lab.ExitError{Code: 3}, 0},
		{fmt.Errorf("%w", &lab.ExitError{Code: -1, Signal: int(syscall.SIGSEGV)}), syscall.SIGSEGV},
	} {
		require.Equal(t, c.want, killedBy(c.err), "%v", c.err)
	}
}
