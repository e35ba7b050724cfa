package suites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

// GuestMemoryMB is the memory of a guest that a suite runs in: it holds the suite, and tests fill
// 1 GiB at both ends.
const GuestMemoryMB = 8192

// builtInGuest runs what was built here in a guest, which has the packages for it.
func builtInGuest(run func(context.Context, *Turn) error) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		out, err := lab.OutDir()
		if err != nil {
			return err
		}
		root, err := programs.NewGuestRoot(ctx, t.Guest, t.Root)
		if err != nil {
			return err
		}
		t.Site = &Site{On: "rxe " + t.Guest.Image.KernelMajorMinor(), Scratch: out, guest: root}
		return run(ctx, t)
	}
}

// Bring has files and folders of this machine at the same path where programs run.
func (s *Site) Bring(ctx context.Context, paths ...string) error {
	if s.guest == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "tar", "-c", "-C", "/", "--owner=0", "--group=0")
	for _, p := range paths {
		cmd.Args = append(cmd.Args, strings.TrimPrefix(p, "/"))
	}
	archive, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = s.guest.Unpack(ctx, archive)
	return errors.Join(err, cmd.Wait())
}

// guestExit is the exit status of a program in a guest.
type guestExit int

func (e guestExit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// hasExited reports whether a program ended by itself, with an exit status other than 0.
func hasExited(err error) bool {
	var here *exec.ExitError
	var there guestExit
	return errors.As(err, &here) && here.ExitCode() >= 0 || errors.As(err, &there)
}

func (s *Site) runInGuest(ctx context.Context, c Command, output io.Writer) error {
	// By its path: busybox, which has changed the root, would take its own.
	argv := append(append([]string{"/usr/bin/env", "--chdir=" + c.Dir}, c.Env...), c.Argv...)
	p, err := s.guest.StartTo(ctx, output, argv...)
	if err != nil {
		return err
	}
	err = p.Wait()
	if signal := killedBy(err); signal != 0 {
		return fmt.Errorf("signal: %v", signal)
	}
	if exit := (*lab.ExitError)(nil); errors.As(err, &exit) && exit.Err == nil {
		return guestExit(exit.Code) // without all that it has printed
	}
	return err
}
