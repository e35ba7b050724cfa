// Command lab runs this module against other implementations, and its own tests against planted
// bugs.
//
//	go run ./conformance/cmd/lab                        # lists the commands
//	go run ./conformance/cmd/lab interop -h             # the options of one
//
// What boots a guest enters namespaces of its own first; conformance/README.md says what it needs.
// The exit status is 1 if anything failed, and 2 if the command line is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/soak"
)

// command is one of the things that the program does.
type command struct {
	name, about string
	// run parses the command line and does it. The error is a usageError, errFailed, or anything
	// else.
	run func(t *tool, args []string) error
}

func commands() []command {
	return []command{
		{"interop", "the matrix of checks against the kernel's rdma_rxe in guests", interop},
		{"interop-verbs", "Debian's RDMA programs on this project's libibverbs and librdmacm", interopVerbs},
		{"suites", "test suites of others on this project's libibverbs and librdmacm", runSuites},
		{"drill", "packet drills, on the engine, the udp link and rdma_rxe", drills},
		{"grammar", "has the engine, the udp link or rdma_rxe hear what a peer may say, and near-misses of it", speak},
		{"captures", "records captures with faults, and makes the table of what the analyser says of them", record},
		{"boot", "boots guests with rdma_rxe and runs commands in them", boot},
		{"soak", "a service with faults, for as long as is asked", soakService},
		{"seeds", "every test that draws from a seed, over new seeds, for as long as is asked", runSeeds},
		{"mutants", "plants bugs, and says which the tests do not find", mutants},
	}
}

// errFailed ends a command whose output has said what failed.
var errFailed = errors.New("failed")

// usageError is a command line that cannot be.
type usageError struct{ error }

func main() {
	if soak.Child() {
		return
	}
	list := commands()
	i := -1
	if len(os.Args) > 1 {
		i = slices.IndexFunc(list, func(c command) bool { return c.name == os.Args[1] })
	}
	if i < 0 {
		fmt.Fprintln(os.Stderr, "usage: lab COMMAND [options]; lab COMMAND -h lists the options")
		for _, c := range list {
			fmt.Fprintf(os.Stderr, "  %-14s %s\n", c.name, c.about)
		}
		os.Exit(2)
	}
	name := list[i].name
	err := list[i].run(newTool(name), os.Args[2:])
	if err != nil && err != errFailed {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	switch {
	case errors.As(err, new(usageError)):
		os.Exit(2)
	case err != nil:
		os.Exit(1)
	}
}

// tool is what the commands have in common.
type tool struct {
	*flag.FlagSet
	start time.Time
}

func newTool(name string) *tool {
	return &tool{flag.NewFlagSet(name, flag.ExitOnError), time.Now()}
}

// logf says on the standard error how long the command has run, and what it does.
func (t *tool) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// parseAlone parses options that nothing may follow.
func (t *tool) parseAlone(args []string) error {
	_ = t.Parse(args) // it exits
	if t.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", t.Arg(0))}
	}
	return nil
}

// suites is the option -suite, with those of all as its default.
func (t *tool) suites(all []string, usage string) *list {
	l := list(all)
	t.Var(&l, "suite", "comma-separated "+usage)
	return &l
}

// list is the value of an option: words with commas between them.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
	return nil
}

// context ends on ^C and SIGTERM, and after limit if that is not 0.
func (t *tool) context(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if limit == 0 {
		return ctx, stop
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done in %v", limit))
	return ctx, func() { cancel(); stop() }
}

// buildRoce compiles the command-line tools. They are not in the cache, which another run may have
// in use.
func buildRoce(ctx context.Context) (string, error) {
	dir, err := lab.OutDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "roce")
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin,
		"github.com/goroce/goroce/cmd/roce").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building cmd/roce: %w: %s", err, out)
	}
	return bin, nil
}
