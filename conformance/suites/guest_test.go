package suites

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
	"github.com/stretchr/testify/require"
)

// In a guest programs are started as they are, at its one address, on its device.
func TestGuestSite(t *testing.T) {
	guest := &lab.Guest{Addr4: netip.MustParseAddr("10.77.0.10"), Dev: "rxe0"}
	s := &Site{On: "rxe 6.1", Bin: "bin", guest: &programs.GuestRoot{Guest: guest}}
	for end := range 2 {
		require.Equal(t, guest.Addr4, s.Addr(end))
		require.Equal(t, []string{"fi_msg"}, s.Argv(end, "fi_msg"))
		require.Equal(t, []string{"fi_msg"}, s.Enter(end, "fi_msg"))
	}
	require.Equal(t, "rxe0", s.Dev())
	for _, suite := range All() {
		require.False(t, suite.Packages != nil && suite.GuestPackages != nil, suite.Name)
		require.False(t, suite.GuestPackages != nil && suite.RunInGuest == nil, suite.Name)
	}
}

// A program that has ended by itself is told from one that a signal or a limit ended.
func TestHasExited(t *testing.T) {
	require.True(t, hasExited(exec.Command("sh", "-c", "exit 3").Run()))
	require.False(t, hasExited(exec.Command("sh", "-c", "kill -9 $$").Run()))
	require.True(t, hasExited(fmt.Errorf("a test: %w", guestExit(3))))
	require.False(t, hasExited(fmt.Errorf("%w: %w", errLong, &lab.ExitError{Code: -1, Signal: 9})))
	require.False(t, hasExited(nil))
}

// What a program prints is taken line by line, the last one without an end, too; and one that
// prints nothing is ended.
func TestLines(t *testing.T) {
	var got []string
	w, read := Command{OnLine: func(line string) { got = append(got, line) }}.lines(nil)
	for _, part := range []string{"a\nb", "c\n", "d"} {
		_, err := io.WriteString(w, part)
		require.NoError(t, err)
	}
	w.Close()
	<-read
	require.Equal(t, []string{"a\n", "bc\n", "d"}, got)

	ctx, cancel := context.WithCancelCause(context.Background())
	w, read = Command{Silence: time.Millisecond}.lines(cancel)
	<-ctx.Done()
	require.Equal(t, errSilent, context.Cause(ctx))
	w.Close()
	<-read
}
