package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/goroce/goroce/cmd/internal/conform"
	"github.com/goroce/goroce/cmd/internal/demo"
	"github.com/goroce/goroce/cmd/internal/doctor"
	"github.com/goroce/goroce/cmd/internal/dump"
	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/ibverbs"
	"github.com/goroce/goroce/cmd/internal/lesson"
	"github.com/goroce/goroce/cmd/internal/perftest"
	"github.com/goroce/goroce/cmd/internal/rdmacm"
	"github.com/goroce/goroce/cmd/internal/run"
	"github.com/goroce/goroce/cmd/internal/statcmd"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/wire"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells report it
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// Commands returns all subcommands in the order of the help text.
func Commands() []tool.Command {
	all := []tool.Command{conform.Command(), demo.Command(), ibverbs.Devinfo(), doctor.Command(),
		dump.Command(), explain.Command(), lesson.Command(), run.Command(), statcmd.Command(), wire.Command()}
	all = append(all, ibverbs.Pingpongs()...)
	for _, t := range perftest.Tests() {
		all = append(all, perftest.Command(t))
	}
	all = append(all, rdmacm.Commands()...)
	return append(all, versionCommand(), completionCommand())
}

// Main runs the program with the arguments after its name and returns its exit status.
func Main(args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		cancel(errInterrupted)
		signal.Stop(signals) // the second one ends the process at once
	}()
	return profiled(os.Getenv(profileEnv), os.Stderr, func() int {
		return Run(ctx, &tool.Env{
			Stdout: os.Stdout, Stderr: os.Stderr, Terminal: isTerminal(os.Stderr),
			Screen: tool.ScreenOf(os.Stdout, os.Getenv),
		}, args)
	})
}

// isTerminal reports whether f is a character device other than /dev/null.
func isTerminal(f *os.File) bool {
	i, err := f.Stat()
	if err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(i, null)
}

// Run is Main in a given environment.
func Run(ctx context.Context, env *tool.Env, args []string) int {
	if len(args) == 0 {
		help(env.Stderr)
		return exitUsage
	}
	name := args[0]
	if name == "help" || name == "-h" || name == "--help" {
		if len(args) == 1 {
			help(env.Stdout)
			return exitOK
		}
		name, args = args[1], []string{args[1], "-h"}
	}
	if name == "-V" || name == "--version" {
		name = "version"
	}
	for _, c := range Commands() {
		if c.Name != name && "ib_"+c.Name != name && "ibv_"+c.Name != name {
			continue
		}
		return status(env, c.Name, c.Run(ctx, env, args[1:]))
	}
	fmt.Fprintf(env.Stderr, "roce: there is no tool %q; \"roce help\" lists them\n", name)
	return exitUsage
}

// status reports how a subcommand ended.
func status(env *tool.Env, name string, err error) int {
	var text *tool.Text
	var usage *getopt.Error
	var exit *tool.Exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &text):
		fmt.Fprint(env.Stdout, text.Text)
		return exitOK
	case errors.As(err, &exit):
		return exit.Status
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(env.Stderr, "roce %s: interrupted\n", name)
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(env.Stderr, "roce %s: %v\n\"roce %s -h\" lists the options\n", name, err, name)
		return exitUsage
	}
	fmt.Fprintf(env.Stderr, "roce %s: %v\n", name, err)
	return exitFailure
}

func help(w io.Writer) {
	fmt.Fprint(w, "roce: RDMA over Converged Ethernet v2 in user space\n\n"+
		"Usage:\n  roce <tool> [options] [host]\n\n"+
		"A tool without a host is a server; with one it connects to the server there,\n"+
		"which may be this program or the original of the tool.\n\nTools:\n")
	for _, c := range Commands() {
		fmt.Fprintf(w, "  %-14s %s\n", c.Name, c.Summary)
	}
	fmt.Fprint(w, "\n\"roce <tool> -h\" lists the tool's options.\n")
}
