package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/goroce/goroce/conformance/lab/ether"
)

// Lab is a set of guests and the two segments that join them with this machine.
type Lab struct {
	// Wire is the segment under test. Its port for this machine is called HostDev, a
	// guest's is called like the guest.
	Wire *ether.Switch

	out  string
	logf func(string, ...any)
	mgmt *ether.Switch

	mu     sync.Mutex
	guests []*Guest
	hosts  []*Host
	next   int
}

// Config configures New.
type Config struct {
	Out  string               // folder for console logs and captures; empty means OutDir
	Logf func(string, ...any) // progress; nil means silence
}

// ErrOutside is what New returns in a program that has not called Enter.
var ErrOutside = errors.New("lab: not inside the lab's namespaces: call Enter first")

// New makes the segments, with this machine's tap on each.
func New(cfg Config) (*Lab, error) {
	if os.Getenv(insideEnv) == "" {
		return nil, ErrOutside
	}
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	if cfg.Out == "" {
		d, err := OutDir()
		if err != nil {
			return nil, err
		}
		cfg.Out = d
	}
	if err := os.MkdirAll(cfg.Out, 0o755); err != nil {
		return nil, err
	}
	l := &Lab{Wire: ether.New(), mgmt: ether.New(), out: cfg.Out, logf: cfg.Logf}
	for _, t := range []struct {
		sw    *ether.Switch
		name  string
		mtu   int
		addrs []string
	}{
		{l.Wire, HostDev, mtu, []string{Host4 + "/24", host6 + "/64"}},
		{l.mgmt, mgmtDev, 1500, []string{mgmt4 + "/24"}},
	} {
		f, err := openTap(t.name, t.mtu, t.addrs...)
		if err != nil {
			l.Close()
			return nil, err
		}
		if _, err := t.sw.Attach(t.name, f); err != nil {
			f.Close()
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Command returns a command that runs on this machine, inside the namespace (or at a Host,
// by its Start), and ends with ctx.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = killGrace
	return cmd
}

// OutFile returns a path in the output folder.
func (l *Lab) OutFile(name string) string { return filepath.Join(l.out, name) }

// Guests returns the guests that run.
func (l *Lab) Guests() []*Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Guest(nil), l.guests...)
}

// Close ends all guests and takes the segments down.
func (l *Lab) Close() {
	for _, g := range l.Guests() {
		g.Close()
	}
	l.Wire.Close()
	l.mgmt.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		h.ns.Close()
	}
	l.hosts = nil
}

// reserve numbers a guest.
func (l *Lab) reserve() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next >= MaxGuests {
		return 0, fmt.Errorf("lab: more than %d guests", MaxGuests)
	}
	l.next++
	return l.next - 1, nil
}
