package suites

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/goroce/goroce/conformance/programs"
	"github.com/goroce/goroce/internal/unix"
)

// Where tests run.
const (
	OnGoroce  = "goroce"
	OnNothing = "nothing"
)

// Sites are the names of all sites that need no guest.
var Sites = []string{OnGoroce, OnNothing}

// Guests are the sites in a guest, on the kernel's rxe, with the Debian suite of the guest.
var Guests = map[string]string{"rxe 6.1": "bookworm", "rxe 6.12": "trixie"}

// AllSites are the names of all sites, in the order of the table's columns.
var AllSites = []string{OnGoroce, "rxe 6.1", "rxe 6.12", OnNothing}

// Site is two network namespaces with a link between them, or a guest, and what programs find
// there.
type Site struct {
	On  string
	Bin string // folder of roce, with the libraries in verbs below it
	// Scratch is a folder for what tests write.
	Scratch string
	net     *programs.Net
	guest   *programs.GuestRoot // in the place of net: both ends are at its address
}

// NewSite makes the namespaces. It must be called inside of the lab's.
func NewSite(on, bin, scratch string) (*Site, error) {
	n, err := programs.NewNet()
	if err != nil {
		return nil, err
	}
	return &Site{On: on, Bin: bin, Scratch: scratch, net: n}, nil
}

// Close lets go of the namespaces.
func (s *Site) Close() error { return s.net.Close() }

// Addr is the address of an end.
func (s *Site) Addr(end int) netip.Addr {
	if s.guest != nil {
		return s.guest.Guest.Addr4
	}
	return s.net.Place(nil, end).Addr4
}

// Dev is the RDMA device.
func (s *Site) Dev() string {
	if s.guest != nil {
		return s.guest.Guest.Dev
	}
	return "goroce0"
}

// Argv is what starts a program at an end, in this process's namespace.
func (s *Site) Argv(end int, argv ...string) []string {
	if s.On != OnGoroce {
		return argv
	}
	return append([]string{filepath.Join(s.Bin, "roce"), "run", "--addr=" + s.Addr(end).String(), "--"}, argv...)
}

// Enter is what starts a program at an end from the other one.
func (s *Site) Enter(end int, argv ...string) []string {
	if s.guest != nil {
		return argv
	}
	return append([]string{"nsenter", "--net=" + s.net.Pair[end].Path()}, s.Argv(end, argv...)...)
}

// Command is a program to run, and what is to become of what it prints.
type Command struct {
	Dir    string
	Env    []string
	Argv   []string
	OnLine func(string)
	// Silence is how long it may print nothing, and Limit how long it may run; then it is killed,
	// with all that it has started.
	Silence, Limit time.Duration
}

// Errors of Run.
var (
	errSilent = errors.New("it has printed nothing for too long")
	errLong   = errors.New("it has not ended in time")
)

// drainTime is how long output may come from what a program has left running, after its end.
const drainTime = 2 * time.Second

// Run runs a program at an end, on the site's libraries, and waits for its end.
func (s *Site) Run(ctx context.Context, end int, c Command) error {
	return s.run(ctx, end, s.Argv(end, c.Argv...), c)
}

// RunPlain runs a program at an end without the site's libraries: a script that starts others with
// them.
func (s *Site) RunPlain(ctx context.Context, end int, c Command) error {
	return s.run(ctx, end, c.Argv, c)
}

func (s *Site) run(ctx context.Context, end int, argv []string, c Command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.Limit > 0 {
		defer time.AfterFunc(c.Limit, func() { cancel(errLong) }).Stop()
	}
	w, read := c.lines(cancel)
	var err error
	if s.guest != nil {
		err = s.runInGuest(ctx, c, w)
	} else {
		err = s.runHere(ctx, end, argv, c, w)
	}
	w.Close()
	<-read
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (s *Site) runHere(ctx context.Context, end int, argv []string, c Command, output io.Writer) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C.UTF-8"), c.Env...)
	unix.SetGroup(cmd)
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = drainTime
	cmd.Stdout, cmd.Stderr = output, output
	var err error
	if e := s.net.Pair[end].Do(func() { err = cmd.Start() }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	err = cmd.Wait()
	// What the program has left running goes with it.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	return err
}

// lines takes what a program prints, until it is closed; read is closed when all lines have been
// told of. Where none comes for too long, cancel is called.
func (c Command) lines(cancel context.CancelCauseFunc) (w *io.PipeWriter, read <-chan struct{}) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var quiet *time.Timer
		if c.Silence > 0 {
			quiet = time.AfterFunc(c.Silence, func() { cancel(errSilent) })
			defer quiet.Stop()
		}
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if quiet != nil {
				quiet.Reset(c.Silence)
			}
			if line != "" && c.OnLine != nil {
				c.OnLine(line)
			}
			if err != nil {
				return
			}
		}
	}()
	return w, done
}
