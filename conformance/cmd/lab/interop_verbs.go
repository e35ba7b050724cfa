package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/programs"
)

// verbsHost has the original programs at a place of this machine, on this project's libibverbs and
// librdmacm: the same programs as in the guest, of the same suite.
type verbsHost struct {
	hosts.Local
	stage *programs.Stage
}

// Command is the program, through "roce run". The devices are goroce0, with the IPv4 address, and
// goroce1, with the IPv6 one: GID 1 of the tools is GID 0 of the second.
func (h verbsHost) Command(tool string, args []string) ([]string, bool) {
	if !h.stage.Has(tool) {
		return nil, false
	}
	argv := []string{
		"chroot", h.stage.Dir, "/usr/bin/env", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp",
		"GOROCE_VERBOSE=1", "/opt/goroce/roce", "run", fmt.Sprintf("--addr=%v,%v", h.At.Addr4, h.At.Addr6),
		"--link=" + h.Link, "--", tool,
	}
	return append(argv, onDevice(args)...), true
}

// onDevice turns a GID index into a device and its GID.
func onDevice(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if (args[i] == "-g" || args[i] == "-x") && i+1 < len(args) {
			out = append(out, "-d", "goroce"+args[i+1], args[i], "0")
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// ListeningCM waits for the remark that GOROCE_VERBOSE asks the libraries for.
func (h verbsHost) ListeningCM(ctx context.Context, p matrix.Process, _ int) error {
	return hosts.Printed(ctx, p, "goroce: listening on ")
}

// Joined waits for the remark.
func (h verbsHost) Joined(ctx context.Context, p matrix.Process, _ netip.Addr) error {
	return hosts.Printed(ctx, p, "goroce: joined ")
}

// verbsGroups are those that say something about the libraries: programs, in both roles.
func verbsGroups(env *matrix.Env, subject, ref matrix.Host) []group {
	return []group{
		{"tools", func(ctx context.Context) error { return env.Tools(ctx, subject, ref) }},
		{"rdmacm", func(ctx context.Context) error { return env.CMTools(ctx, subject, ref) }},
	}
}

// verbsAgainst runs the programs on the libraries against each guest, one after the other on each
// link.
func (r *runner) verbsAgainst(ctx context.Context, l *lab.Lab, targets []*target) error {
	all, err := stages(ctx, "bin", r.suites, r.logf)
	if err != nil {
		return err
	}
	bySuite := map[string]*programs.Stage{}
	for _, s := range all {
		bySuite[s.Suite] = s
	}
	for i, t := range targets {
		at, err := l.AddHost()
		if err != nil {
			return err
		}
		for _, link := range r.linksTo(t.im.Suite) {
			err := t.untilItLives(ctx, r.report, func(v *life, rows *matrix.Report) error {
				env := &matrix.Env{
					Wire: l.Wire, Report: rows, Kernel: t.name(), Link: link, Full: r.full(link, t.im.Suite),
					OnlyTool: r.onlyTool, FirstPort: matrix.DefaultPort + i*matrix.PortRange, RefPort: v.p.PortName(),
				}
				local := verbsHost{hosts.Local{Lab: l, At: at, Link: link}, bySuite[t.im.Suite]}
				return r.groups(v.ctx, env, verbsGroups(env, local, hosts.Guest{P: v.p}))
			})
			if err != nil {
				return fmt.Errorf("%s, %s link: %w", t.name(), link, err)
			}
		}
	}
	return nil
}

// title is the heading of the page of results.
func (r *runner) title() string {
	return strings.TrimSpace("goroce against the kernel's rdma_rxe" +
		map[bool]string{true: ": Debian's programs on goroce's verbs libraries"}[r.verbs])
}
