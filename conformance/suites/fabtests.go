package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

// fabProviders are the configurations of libfabric in which its tests are run, each with its own
// list of what it leaves out.
var fabProviders = []string{"verbs", "verbs;ofi_rxm", "verbs;ofi_rxd"}

// fabtests are libfabric's, with libfabric of the same source.
func fabtests() Suite {
	return Suite{
		Name:    "fabtests",
		About:   "libfabric's fabtests, by its `runfabtests.sh` with its own lists of exclusions",
		Package: "libfabric", Version: "2.1.0-1.1", Release: "trixie", Share: 20,
		Needs: []lab.Need{{What: "python3", Package: "python3-minimal"}, {What: "ps", Package: "procps"},
			{What: "setpriv", Package: "util-linux"}},
		Build: `./autogen.sh
./configure --prefix="$PWD/installed" --enable-verbs=yes --disable-psm2 --disable-psm3 --disable-efa --disable-usnic --disable-opx --disable-static
make -j2
make install
cd fabtests
./autogen.sh
./configure --prefix="$PWD/../installed" --with-libfabric="$PWD/../installed"
make -j2 install
`,
		GuestPackages: []string{"bash", "busybox-static", "coreutils", "dash", "findutils", "grep", "ibverbs-providers",
			"libibverbs1", "librdmacm1t64", "liburing2", "procps", "python3-minimal", "sed", "util-linux"},
		Run: runFabtests, RunInGuest: builtInGuest(runFabtests),
	}
}

// fabSeconds is the script's limit for a test. Its own two minutes are too few for those that fill
// buffers of 1 GiB on both ends where memory is slow to get. A guest is emulated.
const fabSeconds, fabGuestSeconds = "400", "900"

// fabSets are the script's sets of tests: all but the long forms of those that are in "short".
const fabSets = "unit,regression,functional,short,complex,multinode"

// fabSilence is how long the script may print nothing: it has four ends of a test to wait for.
const fabSilence = 30 * time.Minute

func runFabtests(ctx context.Context, t *Turn) error {
	dir, err := os.MkdirTemp(t.Site.Scratch, "fabtests-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := t.writeSSH(filepath.Join(dir, "bin")); err != nil {
		return err
	}
	if err := t.Site.Bring(ctx, dir, filepath.Join(t.Dir, "installed", "bin"), filepath.Join(t.Dir, "installed", "lib"),
		filepath.Join(t.Dir, "fabtests", "test_configs")); err != nil {
		return err
	}
	var errs []error
	for _, p := range fabProviders {
		if err := t.fabProvider(ctx, dir, p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// writeSSH makes a program ssh which enters one of the site's two ends, that it takes by its
// address for a host. What it starts is in a PID namespace, and ends with it: the script kills a
// server that waits for nobody, which would else keep its port from that of the next test.
func (t *Turn) writeSSH(dir string) error {
	var b bytes.Buffer
	fmt.Fprint(&b, "#!/bin/sh\nwhile case \"$1\" in -n) ;; -o) shift ;; *) false ;; esac; do shift; done\nhost=$1\nshift\ncase $host in\n")
	for end := range 2 {
		fmt.Fprintf(&b, "%v) exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child=KILL %s sh -c \"$*\" ;;\n",
			t.Site.Addr(end), strings.Join(t.Site.Enter(end), " "))
	}
	fmt.Fprint(&b, "esac\necho \"no host $host\" >&2\nexit 255\n")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if t.Site.guest != nil {
		// Debian has links of these names, which installing makes and unpacking does not.
		for _, name := range []string{"awk", "which"} {
			script := "#!/bin/sh\nexec busybox " + name + " \"$@\"\n"
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "ssh"), b.Bytes(), 0o755)
}

// fabProvider runs the tests with one provider.
func (t *Turn) fabProvider(ctx context.Context, dir, provider string) error {
	bin := filepath.Join(t.Dir, "installed", "bin")
	limit := fabSeconds
	if t.Site.guest != nil {
		limit = fabGuestSeconds
	}
	argv := []string{"bash", filepath.Join(bin, "runfabtests.sh"), "-vv", "-T", limit, "-p", bin, "-t", fabSets}
	addrs := strings.NewReplacer(t.Site.Addr(0).String(), "SERVER")
	run := func(p *fabParser, args ...string) error {
		all := append(append(argv[:len(argv):len(argv)], args...), provider, t.Site.Addr(0).String(),
			t.Site.Addr(1).String())
		last := ""
		err := t.Site.RunPlain(ctx, 0, Command{
			// The script finds its lists of exclusions from here.
			Dir:  filepath.Join(t.Dir, "fabtests"),
			Env:  []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")},
			Argv: all, OnLine: func(line string) { last = line; p.line(line) }, Silence: fabSilence,
		})
		p.end()
		if hasExited(err) {
			if p.n > 0 {
				return nil // the number of failures
			}
			err = fmt.Errorf("%w: %s", err, oneLine(last))
		}
		return err
	}
	if t.Share == 0 && strings.Contains(provider+": ", t.Only) { // all of its tests
		return run(&fabParser{provider: provider, addrs: addrs, report: t.Report})
	}
	if p, _, named := strings.Cut(t.Only, ": "); named && !strings.HasSuffix(provider, p) {
		return nil
	}
	asked, except, err := t.fabExcept(dir, provider, func(report func(Result)) error {
		return run(&fabParser{provider: provider, addrs: addrs, report: report}, "-e", ".")
	})
	if err != nil || len(asked) == 0 {
		return err
	}
	if err := t.Site.Bring(ctx, except); err != nil {
		return err
	}
	return run(&fabParser{provider: provider, addrs: addrs, report: func(r Result) {
		if asked[r.Test] { // the script reports the others, too, as excluded
			t.Report(r)
		}
	}}, "-f", except)
}

// fabExcept makes a list of exclusions that leaves out, beside those of the provider's own list,
// all tests that are not asked for. list reports all tests.
func (t *Turn) fabExcept(dir, provider string, list func(func(Result)) error) (asked map[string]bool, file string,
	err error) {
	names := strings.Split(provider, ";")
	own, err := os.ReadFile(filepath.Join(t.Dir, "fabtests", "test_configs", names[len(names)-1],
		names[len(names)-1]+".exclude"))
	if err != nil && !os.IsNotExist(err) {
		return nil, "", err
	}
	var b bytes.Buffer
	b.Write(own)
	asked = map[string]bool{}
	err = list(func(r Result) {
		if t.asked(r.Test) {
			asked[r.Test] = true
			return
		}
		fmt.Fprintf(&b, "^%s$\n", regexp.QuoteMeta(strings.TrimPrefix(r.Test, provider+": ")))
	})
	if err != nil {
		return nil, "", err
	}
	file = filepath.Join(dir, "except")
	return asked, file, os.WriteFile(file, b.Bytes(), 0o644)
}

// fabParser reads what runfabtests.sh prints with -vv.
type fabParser struct {
	provider string
	addrs    *strings.Replacer // in names
	report   func(Result)
	n        int

	name, result string
	output       []string
}

const (
	fabName   = "- name:"
	fabResult = "  result:"
)

func (p *fabParser) line(line string) {
	line = strings.TrimRight(line, "\n")
	switch {
	case strings.HasPrefix(line, fabName):
		p.end()
		p.name = strings.TrimSpace(strings.TrimPrefix(line, fabName))
	case strings.HasPrefix(line, fabResult) && p.result == "":
		p.result = strings.TrimSpace(strings.TrimPrefix(line, fabResult))
	case strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != "":
		p.output = append(p.output, strings.TrimSpace(line))
	}
}

// end reports the test that was being read.
func (p *fabParser) end() {
	if p.name == "" || p.result == "" {
		return
	}
	name, _, _ := strings.Cut(p.name, " -p \""+p.provider+"\"")
	if p.addrs != nil {
		name = p.addrs.Replace(name)
	}
	r := Result{Test: p.provider + ": " + name, Outcome: Fail, Detail: oneLine(strings.Join(p.output, "; "))}
	switch word, _, _ := strings.Cut(p.result, " "); word {
	case "Pass":
		r.Outcome, r.Detail = Pass, ""
	case "Notrun":
		r.Outcome = Skip
	case "Excluded":
		r.Outcome, r.Detail = Skip, "libfabric's own list for this provider excludes it"
	}
	p.n++
	p.report(r)
	p.name, p.result, p.output = "", "", nil
}
