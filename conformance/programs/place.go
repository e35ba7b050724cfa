package programs

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// ownProgram is this project's.
const ownProgram = "roce"

// Place is where a program runs: an address, in a network namespace.
type Place struct {
	Stage        *Stage // nil: that of this process
	Addr4, Addr6 netip.Addr
	// V6: the device is at Addr6, and not at Addr4.
	V6 bool
	// Terminal: programs read from a terminal.
	Terminal bool
	// Plain: programs run as they are, and find what the machine has.
	Plain bool
	// Options are added to those of "roce run", and of this project's tools: --link and the like.
	Options []string

	own string             // path of this project's program
	do  func(func()) error // runs something in the namespace
}

// Argv is what starts a program here: through "roce run", or, for a tool of this project's or at a
// plain place, as it is.
func (p *Place) Argv(argv []string) []string {
	if p.Plain {
		return append([]string{"/usr/bin/env"}, argv...) // it looks for the program inside of the stage
	}
	addrs := "--addr=" + p.addr().String()
	if argv[0] == ownProgram {
		out := append([]string{p.own, argv[1], addrs}, p.Options...)
		return append(out, argv[2:]...)
	}
	out := append([]string{p.own, "run", addrs}, p.Options...)
	return append(append(out, "--"), argv...)
}

// addr is where the device is.
func (p *Place) addr() netip.Addr {
	if p.V6 {
		return p.Addr6
	}
	return p.Addr4
}

// Start starts a program. It is killed when ctx ends, with all that it has started.
func (p *Place) Start(ctx context.Context, env []string, argv ...string) (*Process, error) {
	full := p.Argv(argv)
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	cmd.Env = append(
		[]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "LC_ALL=C.UTF-8", sayVar + "=1"}, env...)
	cmd.Dir = "/tmp"
	if p.Stage != nil {
		unix.SetAttr(cmd, &unix.SysProcAttr{Chroot: p.Stage.Dir})
	}
	var tty *terminal
	if p.Terminal {
		var err error
		if tty, err = openTerminal(); err != nil {
			return nil, err
		}
	}
	return start(cmd, tty, p.do)
}

// sayVar makes the libraries say on standard error what a test waits for, such as that a program
// listens.
const sayVar = "GOROCE_VERBOSE"

// Listening waits until something listens on a TCP port in the namespace, or proc has ended, which
// is an error.
func (p *Place) Listening(ctx context.Context, proc *Process, port int) error {
	return proc.poll(ctx, func() (bool, error) {
		var text []byte
		var err error
		e := p.do(func() {
			for _, f := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
				b, e := os.ReadFile(f)
				if e != nil && !os.IsNotExist(e) { // without IPv6 there is no such file
					err = e
				}
				text = append(text, b...)
			}
		})
		if e != nil {
			return false, e
		}
		return listens(string(text), port), err
	})
}

// listens looks into the text of /proc/net/tcp.
func listens(text string, port int) bool {
	const listen = "0A"
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}

// pollEvery is the time between two looks at something that takes its time.
const pollEvery = 20 * time.Millisecond
