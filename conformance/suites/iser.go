package suites

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/programs"
)

// iser is block storage: the tests of libiscsi against the target of tgt, both of which speak iSER
// in user space. On "nothing" they speak iSCSI over TCP: a test that fails there, too, fails by the
// target or by the test.
func iser() Suite {
	return Suite{
		Name: "iser",
		About: "libiscsi's tests of a block device (`iscsi-test-cu --dataloss`) against tgt, by iSER: every command is a SEND, its data are READs and WRITEs of the target. " +
			"On \"nothing\" the same by iSCSI over TCP",
		Package: "tgt", Version: "1:1.0.85-1+deb12u1", Release: "bookworm", Share: 12,
		Packages: []string{"tgt", "libiscsi-bin", "librdmacm1", "ibverbs-providers", "coreutils"},
		Run:      runISER,
	}
}

const (
	iserTarget = "iqn.2026-11.goroce:disk"
	// Reservations need two initiators.
	iserInitiator, iserOther = "iqn.2026-11.goroce:tests", "iqn.2026-11.goroce:other"
	iserPort                 = "3260"
	// iserTime is the limit for one test. They wait for no longer than a few seconds for an answer.
	iserTime = time.Minute
)

// iserTest is the line of the list that names a test: all of them are in the family ALL, and some
// in others as well.
var iserTest = regexp.MustCompile(`(?m)^ALL\.(\w+)\.(\w+)\s*$`)

func runISER(ctx context.Context, t *Turn) error {
	n, err := programs.NewNet()
	if err != nil {
		return err
	}
	defer n.Close()
	list := t.place(n, 1)
	list.Plain = true
	p, err := list.Start(ctx, nil, "iscsi-test-cu", "--list")
	if err != nil {
		return err
	}
	_ = p.Wait() // it ends with 10
	var groups []string
	tests := map[string][]string{}
	count := 0
	for _, m := range iserTest.FindAllStringSubmatch(p.Output(), -1) {
		if !t.asked(m[1] + "." + m[2]) {
			continue
		}
		if tests[m[1]] == nil {
			groups = append(groups, m[1])
		}
		tests[m[1]] = append(tests[m[1]], m[2])
		count++
	}
	if count == 0 {
		return fmt.Errorf("iscsi-test-cu --list names no tests: %s", oneLine(p.Output()))
	}
	t.Logf("%d tests in %d groups", count, len(groups))
	for _, g := range groups {
		if err := t.iserGroup(ctx, n, g, tests[g]); err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
	}
	return context.Cause(ctx)
}

// iserGroup runs the tests of a group, each in a process of its own, on a target of theirs.
func (t *Turn) iserGroup(ctx context.Context, n *programs.Net, group string, names []string) error {
	driver := "iser"
	if t.Site.On == OnNothing {
		driver = "iscsi"
	}
	server := t.place(n, 0)
	target, err := t.startTarget(ctx, server, driver)
	if err != nil {
		return err
	}
	defer target.Kill()
	url := fmt.Sprintf("%s://%v:%s/%s/1", driver, server.Addr4, iserPort, iserTarget)
	for _, name := range names {
		c, err := t.place(n, 1).Start(ctx, nil, "iscsi-test-cu", "--dataloss",
			"--initiator-name="+iserInitiator, "--initiator-name-2="+iserOther,
			"--test=ALL."+group+"."+name, url)
		if err != nil {
			return err
		}
		select {
		case <-c.Done():
		case <-time.After(iserTime):
			c.Kill()
			<-c.Done()
		case <-ctx.Done():
			c.Kill()
			return context.Cause(ctx)
		}
		o, detail := iserVerdict(c.Output(), c.Wait())
		t.Report(Result{Test: group + "." + name, Outcome: o, Detail: detail})
	}
	return nil
}

// startTarget starts tgt with a disk of 64 MiB, and waits until it can be used.
func (t *Turn) startTarget(ctx context.Context, at *programs.Place, driver string) (*programs.Process, error) {
	env := []string{"TGT_IPC_SOCKET=/tmp/tgt", "GOROCE_VERBOSE=1"}
	plain := *at
	plain.Plain = true
	run := func(argv ...string) error {
		p, err := plain.Start(ctx, env, argv...)
		if err != nil {
			return err
		}
		if err := p.Wait(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, oneLine(p.Output()))
		}
		return nil
	}
	if err := run("truncate", "--size=64M", "/tmp/disk"); err != nil {
		return nil, err
	}
	argv := []string{"tgtd", "--foreground", "--iscsi", "portal=" + at.Addr4.String() + ":" + iserPort}
	if driver == "iser" {
		argv = []string{"tgtd", "--foreground", "--iscsi", "portal=127.0.0.1:3261", "--iser",
			"port=" + iserPort + ",pool_sz_mb=128"}
	}
	p, err := at.Start(ctx, env, argv...)
	if err != nil {
		return nil, err
	}
	if driver == "iser" {
		err = p.WaitOutput(ctx, "goroce: listening")
	} else {
		err = at.Listening(ctx, p, 3260)
	}
	adm := func(argv ...string) {
		if err == nil {
			err = run(append([]string{"tgtadm", "--lld", driver, "--mode"}, argv...)...)
		}
	}
	adm("target", "--op", "new", "--tid", "1", "--targetname", iserTarget)
	adm("logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", "/tmp/disk")
	adm("target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL")
	adm("target", "--op", "bind", "--tid", "1", "--initiator-name", iserInitiator)
	adm("target", "--op", "bind", "--tid", "1", "--initiator-name", iserOther)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w: tgtd: %s", err, oneLine(p.Output()))
	}
	return p, nil
}

// iserSaid are the lines in which a test says why.
var iserSaid = regexp.MustCompile(`(?m)(?:\[(?:FAILED|SKIPPED)\]|^ +\d+\. \w+\.c:\d+ +-) *(.*)$`)

// iserPassed is the end of the line of a test that has passed.
var iserPassed = regexp.MustCompile(`(?m)passed$`)

// iserVerdict says what a process that ran one test has come to.
func iserVerdict(said string, end error) (Outcome, string) {
	var why []string
	for _, m := range iserSaid.FindAllStringSubmatch(said, 4) {
		why = append(why, strings.TrimSpace(m[1]))
	}
	detail := strings.Join(why, "; ")
	var exit *exec.ExitError
	if errors.As(end, &exit) {
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			return Fail, oneLine(fmt.Sprintf("signal %v: %s", st.Signal(), detail))
		}
	}
	switch {
	case strings.Contains(said, "FAILED"):
		return Fail, oneLine(detail)
	case strings.Contains(said, "[SKIPPED]"):
		return Skip, oneLine(detail)
	case iserPassed.MatchString(said):
		return Pass, ""
	}
	return Fail, oneLine("it does not say what came of it: " + said)
}
