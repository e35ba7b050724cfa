package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// lookPath finds a program also in the sbin folders, which a user's PATH may lack.
func lookPath(prog string) (string, error) {
	if p, err := exec.LookPath(prog); err == nil {
		return p, nil
	}
	for _, d := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		p := filepath.Join(d, prog)
		if st, err := os.Stat(p); err == nil && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("lab: %s: not found", prog)
}

// aptOptions are for a machine that others install packages on at the same time, and for
// mirrors that do not always answer.
var aptOptions = []string{"-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=5"}

// runApt runs apt-get. What fails is tried again: a mirror that is being changed, the lock of
// the package lists, which apt does not wait for.
func runApt(ctx context.Context, args ...string) error {
	return retry(ctx, aptTries, aptPause, func() error {
		return runCommand(ctx, fetchTimeout, "apt-get",
			append(aptOptions[:len(aptOptions):len(aptOptions)], args...)...)
	})
}

// retry calls f until it succeeds, tries times at most, with pauses that double.
func retry(ctx context.Context, tries int, pause time.Duration, f func() error) error {
	for {
		err := f()
		if tries--; err == nil || tries == 0 || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

// runCommand runs a program with a limit, which ends what the program has started, too.
func runCommand(ctx context.Context, limit time.Duration, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	unix.SetGroup(cmd)
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = killGrace
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("lab: %s %s: %w\n%s", name, redact(strings.Join(args, " ")), err, redact(tail(out, 2000)))
	}
	return nil
}

var (
	urlHost = regexp.MustCompile(`([a-z+]+://)[^/\s]+`)
	address = regexp.MustCompile(` \[IP: [^\]]*\]`)
)

// redact hides the archive's host: which mirror a machine uses is nobody's business
// in a log that gets published.
func redact(s string) string {
	return address.ReplaceAllString(urlHost.ReplaceAllString(s, "${1}archive"), "")
}

func tail(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(bytes.TrimSpace(b))
}

// archive is what the machine's own apt sources say about Debian.
type archive struct {
	uri      string
	signedBy string // path of a keyring, or empty for apt's default
}

// errNoArchive says that apt has no Debian main archive configured.
var errNoArchive = errors.New(
	"lab: no Debian archive (component main, type deb) in /etc/apt/sources.list or sources.list.d")

// debianArchive reads the archive's URI from the apt sources below etc ("/etc/apt").
func debianArchive(etc string) (archive, error) {
	files := []string{filepath.Join(etc, "sources.list")}
	more, _ := filepath.Glob(filepath.Join(etc, "sources.list.d", "*"))
	slices.Sort(more)
	for _, f := range append(files, more...) {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		var a archive
		var ok bool
		switch filepath.Ext(f) {
		case ".list":
			a, ok = parseOneLine(string(b))
		case ".sources":
			a, ok = parseDeb822(string(b))
		}
		if ok {
			return a, nil
		}
	}
	return archive{}, errNoArchive
}

// isDebianMain accepts a suite of the main archive and refuses security, third-party
// and other archives, which lack most packages.
func isDebianMain(uri string, suites, comps []string) bool {
	if !slices.Contains(comps, "main") || strings.Contains(uri, "security") {
		return false
	}
	path := strings.TrimRight(uri, "/")
	if i := strings.Index(path, "://"); i >= 0 {
		path = path[i+3:]
	}
	if !strings.HasSuffix(path, "/debian") && !strings.Contains(path, "/debian/") {
		return false
	}
	for _, s := range suites {
		if slices.Contains(debianSuites, s) {
			return true
		}
	}
	return false
}

// debianSuites are the names under which a machine may follow Debian.
var debianSuites = []string{"bookworm", "trixie", "forky", "sid", "stable", "oldstable", "testing", "unstable"}

func parseOneLine(text string) (archive, bool) {
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var a archive
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			opts, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			for _, o := range strings.Fields(opts) {
				if v, ok := strings.CutPrefix(o, "signed-by="); ok {
					a.signedBy = v
				}
			}
			rest = after
		}
		f := strings.Fields(rest)
		if len(f) >= 3 && isDebianMain(f[0], f[1:2], f[2:]) {
			a.uri = f[0]
			return a, true
		}
	}
	return archive{}, false
}

func parseDeb822(text string) (archive, bool) {
	for _, stanza := range strings.Split(text, "\n\n") {
		fields := map[string]string{}
		key := ""
		for _, line := range strings.Split(stanza, "\n") {
			if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
				continue
			}
			if line[0] == ' ' || line[0] == '\t' {
				fields[key] += " " + strings.TrimSpace(line)
				continue
			}
			k, v, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			key = strings.ToLower(k)
			fields[key] = strings.TrimSpace(v)
		}
		if strings.EqualFold(fields["enabled"], "no") || !slices.Contains(strings.Fields(fields["types"]), "deb") {
			continue
		}
		signed := fields["signed-by"]
		if !strings.HasPrefix(signed, "/") { // an embedded key: leave it to apt's default
			signed = ""
		}
		for _, uri := range strings.Fields(fields["uris"]) {
			if isDebianMain(uri, strings.Fields(fields["suites"]), strings.Fields(fields["components"])) {
				return archive{uri: uri, signedBy: signed}, true
			}
		}
	}
	return archive{}, false
}

// sources is the list of archives for a suite. Where a kernel is chosen, they are those that may
// have it: backports have a lower priority, so that nothing else comes from there.
func sources(a archive, kind, arch, signed, name string) string {
	suite, kernel, _ := parseSuite(name)
	line := func(uri, suite string) string {
		return fmt.Sprintf("%s [arch=%s%s] %s %s main\n", kind, arch, signed, uri, suite)
	}
	list := line(a.uri, suite)
	if kernel == "" {
		return list
	}
	list += line(a.uri, suite+"-backports")
	if security, is := strings.CutSuffix(strings.TrimRight(a.uri, "/"), "/debian"); is {
		list += line(security+"/debian-security", suite+"-security")
	}
	return list
}

// aptState makes an apt state of its own in a folder, with one line of the machine's archive, of
// kind deb or deb-src, and returns the options for it.
func aptState(dir, kind, suite, arch string) (opts []string, err error) {
	a, err := debianArchive("/etc/apt")
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	signed := ""
	if a.signedBy != "" {
		signed = " signed-by=" + a.signedBy
	}
	src := sources(a, kind, arch, signed, suite)
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(src), 0o644); err != nil {
		return nil, err
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	return []string{
		"-o", "Dir::State=" + dir,
		"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::Etc::sourcelist=" + list,
		"-o", "Dir::Etc::sourceparts=-",
		"-o", "APT::Architecture=" + arch,
		"-o", "APT::Sandbox::User=root", // the _apt user cannot write below a checkout
		"-o", "Debug::NoLocking=1",
	}, nil
}

// fetchSuite downloads pkgs and all that they depend on from a suite of the machine's archive, with
// an apt state of its own (nothing is taken as installed), and returns the package files.
func fetchSuite(ctx context.Context, dir, suite string, pkgs []string) ([]string, error) {
	_, _, m := parseSuite(suite)
	opts, err := aptState(dir, "deb", suite, m.debian)
	if err != nil {
		return nil, err
	}
	with := func(args ...string) []string { return append(opts[:len(opts):len(opts)], args...) }
	// Both again, since a mirror that changes in between no longer has what its lists said.
	err = retry(ctx, 2, aptPause, func() error {
		if err := runApt(ctx, with("update", "--error-on=any")...); err != nil {
			return err
		}
		install := with("install", "-y", "--no-install-recommends", "--download-only")
		return runApt(ctx, append(install, pkgs...)...)
	})
	if err != nil {
		return nil, err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "cache", "archives", "*.deb"))
	if err != nil || len(debs) == 0 {
		return nil, fmt.Errorf("lab: apt-get downloaded nothing for suite %s", suite)
	}
	return debs, nil
}
