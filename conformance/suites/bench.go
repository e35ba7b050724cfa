package suites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

// process is a program that runs, here or in a guest.
type process interface {
	Output() string
	Done() <-chan struct{}
	Wait() error
	WaitOutput(ctx context.Context, text string) error
	Kill()
}

// killedBy is the signal that ended a process, by what its Wait has returned; 0 if none did.
func killedBy(err error) syscall.Signal {
	var here *exec.ExitError
	if errors.As(err, &here) {
		if st, ok := here.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			return st.Signal()
		}
	}
	var there *lab.ExitError
	if errors.As(err, &there) {
		return syscall.Signal(there.Signal)
	}
	return 0
}

// bench is two ends for a server, 0, and a client of it, 1.
type bench interface {
	addr(end int) netip.Addr
	start(ctx context.Context, end int, argv ...string) (process, error)
	// listening waits until the server does, on a TCP port or, byCM, for connections by RDMA-CM. It
	// is an error if the server ends before.
	listening(ctx context.Context, server process, port int) error
	Close() error
}

// byCM is in the place of a TCP port.
const byCM = 0

// libraryBench is two network namespaces, with programs on this project's libraries or on nothing.
type libraryBench struct {
	*programs.Net
	turn *Turn
}

func (t *Turn) newLibraryBench() (bench, error) {
	n, err := programs.NewNet()
	return libraryBench{n, t}, err
}

// place is an end of a network for a program of the suite's packages.
func (t *Turn) place(n *programs.Net, end int) *programs.Place {
	p := n.Place(t.Stage, end)
	p.Plain = t.Site.On == OnNothing
	return p
}

func (b libraryBench) place(end int) *programs.Place { return b.turn.place(b.Net, end) }

func (b libraryBench) addr(end int) netip.Addr { return b.place(end).Addr4 }

func (b libraryBench) start(ctx context.Context, end int, argv ...string) (process, error) {
	p := b.place(end)
	p.V6 = slices.Contains(argv, perftestV6)
	return p.Start(ctx, nil, argv...)
}

func (b libraryBench) listening(ctx context.Context, server process, port int) error {
	if port == byCM {
		return server.WaitOutput(ctx, "goroce: listening")
	}
	return b.place(0).Listening(ctx, server.(*programs.Process), port)
}

// guestBench is one guest, whose rxe loops back: both ends are at its address.
type guestBench struct{ *programs.GuestRoot }

// inGuest runs a suite in a guest, and brings its packages there.
func inGuest(run func(context.Context, *Turn, func() (bench, error)) error) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		root, err := programs.NewGuestRoot(ctx, t.Guest, t.Root)
		if err != nil {
			return err
		}
		return run(ctx, t, func() (bench, error) { return guestBench{root}, nil })
	}
}

func (b guestBench) addr(int) netip.Addr { return b.Guest.Addr4 }

func (b guestBench) start(ctx context.Context, _ int, argv ...string) (process, error) {
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "goroce0", b.Guest.Dev)
	}
	return b.Start(ctx, argv...)
}

// lookEvery is the time between two looks at what listens in a guest.
const lookEvery = 100 * time.Millisecond

func (b guestBench) listening(ctx context.Context, server process, port int) error {
	look, sign := []string{"ss", "-Hltn"}, fmt.Sprintf(":%d ", port)
	if port == byCM {
		look, sign = []string{"rdma", "resource", "show", "cm_id"}, "state LISTEN"
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		said, err := b.Guest.Run(ctx, look...)
		if err != nil || strings.Contains(said, sign) {
			return err
		}
		select {
		case <-server.Done():
			return fmt.Errorf("it has ended (%v)", server.Wait())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Close leaves the guest as it is.
func (guestBench) Close() error { return nil }
