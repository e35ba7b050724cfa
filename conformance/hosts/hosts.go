package hosts

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/internal/unix"
)

// Guest has the original programs, in a guest.
type Guest struct{ P *RXE }

// Name is the peer's.
func (h Guest) Name() string { return h.P.Name() }

// Addr is the guest's address.
func (h Guest) Addr(f peer.Family) string { return h.P.Addr(f).String() }

// GIDIndex is the guest's.
func (h Guest) GIDIndex(f peer.Family) int { return h.P.GIDIndex(f) }

// Command is the program itself.
func (h Guest) Command(tool string, args []string) ([]string, bool) {
	for _, t := range h.P.Guest().Image.Tools {
		if t == tool {
			return append([]string{tool}, args...), true
		}
	}
	return nil, false
}

// Start runs the program in the guest.
func (h Guest) Start(ctx context.Context, argv []string) (matrix.Process, error) {
	p, err := h.P.Guest().Start(ctx, lab.Cmd{Argv: argv})
	if err != nil {
		return nil, err
	}
	return original{p}, nil
}

// original is a program in a guest.
type original struct{ *lab.Proc }

// Original tells it from a stand-in.
func (original) Original() {}

// Listening looks into the guest's socket tables.
func (h Guest) Listening(ctx context.Context, p matrix.Process, port int) error {
	return pollListen(ctx, p, port, func() (string, error) {
		return h.P.Guest().Run(ctx, "cat", "/proc/net/tcp", "/proc/net/tcp6")
	})
}

// ListeningCM asks the guest's kernel.
func (h Guest) ListeningCM(ctx context.Context, p matrix.Process, port int) error {
	return matrix.Poll(ctx, p, func() (bool, error) {
		text, err := h.P.Guest().Run(ctx, "rdma", "resource", "show", "cm_id")
		if err != nil {
			return false, err
		}
		for _, l := range strings.Split(text, "\n") {
			if strings.Contains(l, "state LISTEN") && strings.Contains(l+" ", fmt.Sprintf(":%d ", port)) {
				return true, nil
			}
		}
		return false, nil
	})
}

// Joined looks for the group among those that the guest's interface receives, where rxe puts it
// when a queue pair is attached. The original prints to a pipe, which shows nothing before its end.
func (h Guest) Joined(ctx context.Context, p matrix.Process, group netip.Addr) error {
	return matrix.Poll(ctx, p, func() (bool, error) {
		text, err := h.P.Guest().Run(ctx, "cat", "/proc/net/dev_mcast")
		return strings.Contains(text, rxeGroup(group)), err
	})
}

// rxeGroup is the Ethernet address, as in /proc/net/dev_mcast, at which rxe receives a group:
// that of IPv6, whatever the group is.
func rxeGroup(group netip.Addr) string {
	b := group.As16()
	return fmt.Sprintf("3333%x", b[12:])
}

// Local has this module's stand-ins, at a place of this machine.
type Local struct {
	Lab  *lab.Lab
	At   *lab.Host
	Bin  string // path of the roce program
	Link string // what the program is told with --link
}

// Name is "goroce".
func (h Local) Name() string { return "goroce" }

// Addr is that of the place.
func (h Local) Addr(f peer.Family) string {
	if f == peer.V6 {
		return h.At.Addr6.String()
	}
	return h.At.Addr4.String()
}

// GIDIndex is the place in the list that --addr makes.
func (h Local) GIDIndex(f peer.Family) int {
	if f == peer.V6 {
		return 1
	}
	return 0
}

// patience is the ACK timeout of the pingpongs here, the code of 1.07 s: the 67 ms of the
// originals, eight times, is less than a guest with one emulated CPU was seen to need for what
// other conversations had sent it.
const patience = "--qp-timeout=18"

// Command is the subcommand named like the tool without its prefix.
func (h Local) Command(tool string, args []string) ([]string, bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(tool, "ibv_"), "ib_")
	out, err := exec.Command(h.Bin, "help").CombinedOutput()
	if err != nil {
		return nil, false
	}
	for _, l := range strings.Split(string(out), "\n") {
		if f := strings.Fields(l); len(f) > 0 && f[0] == name {
			own := []string{h.Bin, name, fmt.Sprintf("--addr=%v,%v", h.At.Addr4, h.At.Addr6), "--link=" + h.Link}
			if name == "rc_pingpong" || name == "srq_pingpong" {
				own = append(own, patience)
			}
			return append(own, args...), true
		}
	}
	return nil, false
}

// Start runs the program at the place.
func (h Local) Start(ctx context.Context, argv []string) (matrix.Process, error) {
	p := &localProcess{cmd: h.Lab.Command(ctx, argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	unix.SetGroup(p.cmd)
	if err := h.At.Start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Listening looks into the place's socket tables.
func (h Local) Listening(ctx context.Context, p matrix.Process, port int) error {
	return pollListen(ctx, p, port, func() (string, error) {
		var all []byte
		err := h.At.Do(func() error {
			for _, f := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
				b, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				all = append(all, b...)
			}
			return nil
		})
		return string(all), err
	})
}

// Printed waits until p has printed text.
func Printed(ctx context.Context, p matrix.Process, text string) error {
	return matrix.Poll(ctx, p, func() (bool, error) { return strings.Contains(p.Output(), text), nil })
}

// ListeningCM waits for the remark that this module's tools make.
func (h Local) ListeningCM(ctx context.Context, p matrix.Process, _ int) error {
	return matrix.Poll(ctx, p, func() (bool, error) { return strings.Contains(p.Output(), "listening on "), nil })
}

// Joined waits for the same remark.
func (h Local) Joined(ctx context.Context, p matrix.Process, _ netip.Addr) error {
	return h.ListeningCM(ctx, p, 0)
}

type localProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *localProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *localProcess) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *localProcess) Wait() error           { <-p.done; return p.err }
func (p *localProcess) Done() <-chan struct{} { return p.done }

func (p *localProcess) Kill() {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// pollListen reads a /proc/net/tcp until it shows a listener on the port.
func pollListen(ctx context.Context, p matrix.Process, port int, read func() (string, error)) error {
	const listen = "0A"
	return matrix.Poll(ctx, p, func() (bool, error) {
		text, err := read()
		if err != nil {
			return false, err
		}
		for _, l := range strings.Split(text, "\n") {
			f := strings.Fields(l)
			if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true, nil
			}
		}
		return false, nil
	})
}
