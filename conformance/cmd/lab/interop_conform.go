package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/conformance/conform"
	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// conformPort is where the agent listens that "roce conform" is given. It is another one than that
// of the groups that this program runs by itself (18400), because an agent has one client at a
// time.
const conformPort = 18401

// conformLane runs what works with a device by "roce conform", as somebody with two machines would:
// the command at a place of this machine, the agent in the guest, a token between them. The rows go
// into this program's report.
func (r *runner) conformLane(ctx context.Context, x lane, link string) error {
	groups := r.conformGroups()
	if len(groups) == 0 {
		return nil
	}
	token := rand.Text()
	port := strconv.Itoa(conformPort)
	agent, err := x.p.Guest().Start(ctx, lab.Cmd{Argv: []string{"verbsd", "-t", token, port}})
	if err != nil {
		return err
	}
	defer agent.Kill()
	if err := agent.WaitOutput(ctx, "listening"); err != nil {
		return err
	}
	out, err := lab.OutDir()
	if err != nil {
		return err
	}
	name := filepath.Join(out, "conform-"+x.t.name()+"-"+link)
	args := []string{
		"conform", "--agent", net.JoinHostPort(x.p.Addr(peer.V4).String(), port), "--dev", x.p.Guest().Dev,
		"--link", link, "--timeout", r.timeout.String(), "--addr", fmt.Sprintf("%v,%v", x.at.Addr4,
			x.at.Addr6), "--peer-addr", fmt.Sprintf("%v,%v", x.p.Addr(peer.V4), x.p.Addr(peer.V6)),
		"--only", strings.Join(groups, ","), "--json", name + ".json", "--junit", name + ".xml", "--md",
		name + ".md", "--html", name + ".html", "--pcap-dir", name,
	}
	if !r.full(link, x.t.im.Suite) {
		args = append(args, "--quick")
	}
	if err := os.Remove(name + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := x.lab.Command(ctx, x.bin, args...)
	cmd.Env = append(os.Environ(), "GOROCE_AGENT_TOKEN="+token)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has a table to write
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := x.at.Start(cmd); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if r.wants("links") {
		x.report.Add(r.conformLink(x, link, ended))
	}
	err = <-ended
	if x := (*exec.ExitError)(nil); errors.As(err, &x) && x.ExitCode() == 1 {
		err = nil // rows have failed: they say so
	}
	rows, e := conformRows(name+".json", x.t.name())
	for _, row := range rows {
		x.report.Add(row)
	}
	if err = cmp.Or(err, e); err != nil {
		return fmt.Errorf("roce conform: %w\n%s", err, lastLines(said.String()))
	}
	return nil
}

// conformGroups are those of the groups of "roce conform" that were asked for.
func (r *runner) conformGroups() []string {
	return slices.DeleteFunc(conform.Groups(), func(g string) bool { return !r.wants(g) })
}

// conformLink asks the kernel, while the command runs, which link it has open: the row that this
// program has for its own device. What ended is put back.
func (r *runner) conformLink(x lane, link string, ended chan error) matrix.Row {
	env := r.env(x, link)
	env.Report = new(matrix.Report)
	env.LinkInUse = func() (got string, err error) {
		err = matrix.Poll(context.Background(), nil, func() (bool, error) {
			var e error
			if got, e = hosts.LinkAt(x.at); e != nil || got == link {
				return true, e
			}
			select {
			case err := <-ended:
				ended <- err
				return true, nil
			default:
				return false, nil
			}
		})
		return got, err
	}
	_ = env.DeviceLink(context.Background())
	return env.Report.Rows()[0]
}

// conformRows reads the rows of a run, which are of another name of the same kernel there.
func conformRows(path, kernel string) ([]matrix.Row, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var run struct{ Rows []matrix.Row }
	if err := json.Unmarshal(b, &run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range run.Rows {
		run.Rows[i].Kernel = kernel
	}
	return run.Rows, nil
}

// lastLines is the end of what a program has said.
func lastLines(s string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// compare fails if this run has other rows than another one, or other results.
func (r *runner) compare(path string) error {
	differ, err := r.against(path)
	if err == nil && len(differ) > 0 {
		err = fmt.Errorf("%d rows are not as in %s:\n%s", len(differ), path, strings.Join(differ, "\n"))
	}
	return err
}

// against holds the rows of this run against those of another one, which a file has (interop.json):
// each must be there, with the same result. Groups that were not asked for are left out, and so are
// links and kernels that this run does not have.
func (r *runner) against(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var then []matrix.Row
	if err := json.Unmarshal(b, &then); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	now := r.report.Rows()
	ran := map[[3]string]bool{}
	for _, row := range now {
		ran[[3]string{row.Kernel, row.Link, row.Group}] = true
	}
	then = slices.DeleteFunc(then,
		func(row matrix.Row) bool { return !ran[[3]string{row.Kernel, row.Link, row.Group}] })
	if len(then) == 0 {
		return nil, fmt.Errorf("%s has no row of this run's groups", path)
	}
	return matrix.Differences(then, now), nil
}
