package programs

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// runnerScript runs the tests of pyverbs and prints a JSON object for each that begins, and each
// that ends.
//
//go:embed pyverbs_runner.py
var runnerScript string

// pyverbsTests is where Debian's package has the test suite, and pyverbsDir where it is run.
const (
	pyverbsTests = "/usr/share/doc/rdma-core/tests"
	pyverbsDir   = "/opt/pyverbs"
	scriptName   = "goroce_runner.py"
)

// preparePyverbs copies the suite, which is compressed in part, to where Python finds it.
func (s *Stage) preparePyverbs() error {
	if err := s.mountSysfs(); err != nil {
		return err
	}
	if err := s.write(pyverbsDir+"/bin/rdma", rdmaStandIn); err != nil {
		return err
	}
	if err := os.Chmod(s.Path(pyverbsDir+"/bin/rdma"), 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(s.Path(pyverbsTests), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(s.Path(pyverbsTests), path)
		if err != nil {
			return err
		}
		text, err := readPlain(path)
		if err != nil {
			return err
		}
		return s.write(filepath.Join(pyverbsDir, "tests", strings.TrimSuffix(rel, ".gz")), text)
	})
}

// The suite does not ask verbs alone: it looks up the network interface of a device in sysfs, or
// asks rdma, a program of iproute2, and compares a partition key with sysfs. Those are the
// kernel's, which knows nothing of our devices. So the suite, and no other case, gets a sysfs with
// what it reads there, and a stand-in for that one command.
const rdmaStandIn = `#!/bin/sh
[ "$*" = "link show -j" ] || { echo "rdma: no stand-in for: $*" >&2; exit 1; }
echo '[{"ifindex":0,"ifname":"goroce0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"` + Interface + `"}]'
`

// mountSysfs puts a file system over the stage's /sys that has all of it, and class/infiniband.
func (s *Stage) mountSysfs() error {
	bind := func(path string) error {
		if i, err := os.Lstat(path); err != nil || !i.IsDir() {
			return err
		}
		if err := os.MkdirAll(s.Path(path), 0o755); err != nil {
			return err
		}
		return unix.Mount(path, s.Path(path), "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err := unix.Mount("tmpfs", s.Path("/sys"), "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/sys", "/sys/class"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			if path := filepath.Join(dir, e.Name()); path != "/sys/class" {
				if err := bind(path); err != nil {
					return fmt.Errorf("programs: %s: %w", path, err)
				}
			}
		}
	}
	const ours = "/sys/class/infiniband/goroce0"
	if err := os.MkdirAll(s.Path(ours+"/Interface/net/"+Interface), 0o755); err != nil {
		return err
	}
	return s.write(ours+"/ports/1/pkeys/0", "0xffff\n")
}

// PyResult is what became of one test.
type PyResult struct {
	Test   string `json:"test"`
	Result Result `json:"result"`
	Detail string `json:"detail,omitempty"`
}

// Machine is where the test suite of pyverbs can be run.
type Machine interface {
	// RunPyverbs runs the script with arguments, in pyverbsDir, and returns what it has printed,
	// and how it ended.
	RunPyverbs(ctx context.Context, script string, args ...string) (out string, err error)
}

// pyverbsTime is the limit for one run of the suite, which takes seconds, and in a guest on a busy
// machine three for each test. maxCrashes is how often it goes on behind a test that has ended the
// process.
const (
	pyverbsTime = time.Hour
	maxCrashes  = 20
)

// RunPyverbs runs the whole suite, test by test in one process. If a test ends the process, it has
// failed, and another process goes on behind it. Args are the suite's own: --dev, --port, --gid.
func RunPyverbs(ctx context.Context, m Machine, args ...string) ([]PyResult, error) {
	var all []PyResult
	after := ""
	for range maxCrashes {
		ctx, cancel := context.WithTimeout(ctx, pyverbsTime)
		out, err := m.RunPyverbs(ctx, runnerScript, append([]string{"--after=" + after}, args...)...)
		cancel()
		results, running, done, e := parsePyverbs(out)
		all = append(all, results...)
		if done && err != nil {
			all = append(all, PyResult{"the end of the process", Fail, err.Error()})
		}
		if done {
			return all, nil
		}
		if e != nil || running == "" {
			return all, fmt.Errorf("pyverbs: the test suite does not run: %w\n%s", firstError(err, e), tail(out))
		}
		all = append(all,
			PyResult{running, Fail, fmt.Sprintf("the process has ended: %v: %s", err, firstLine(tail(out)))})
		after = running
	}
	return all, fmt.Errorf("pyverbs: %d tests have ended the process", maxCrashes)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("it has ended with status 0")
}

func tail(s string) string {
	if len(s) > outputLimit {
		s = s[len(s)-outputLimit:]
	}
	return strings.TrimSpace(s)
}

// linePrefix is in front of what the script says, since tests and libraries print, too.
const linePrefix = "@goroce "

// parsePyverbs returns the results in the script's output, the test that was running at its end,
// and whether it came to its own end.
func parsePyverbs(out string) (results []PyResult, running string, done bool, err error) {
	sc := bufio.NewScanner(strings.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		_, text, ok := strings.Cut(sc.Text(), linePrefix)
		if !ok {
			continue
		}
		var x struct {
			Begin, End, Result, Detail string
			Done                       bool
		}
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			return results, running, false, fmt.Errorf("%q: %w", text, err)
		}
		switch {
		case x.Begin != "":
			running = x.Begin
		case x.End != "":
			running = ""
			results = append(results, PyResult{x.End, Result(x.Result), x.Detail})
		}
		done = done || x.Done
	}
	return results, running, done, sc.Err()
}

// Pyverbs is the suite on a stage, at a place of its own.
type Pyverbs struct{ *Place }

// NewPyverbs makes a place for the suite; close ends it.
func NewPyverbs(s *Stage, opts ...string) (p *Pyverbs, closePlace func() error, err error) {
	if err := s.preparePyverbs(); err != nil {
		return nil, nil, err
	}
	n, err := NewNet()
	if err != nil {
		return nil, nil, err
	}
	return &Pyverbs{n.Place(s, 0, opts...)}, n.Close, nil
}

// RunPyverbs runs the script there.
func (p *Pyverbs) RunPyverbs(ctx context.Context, script string, args ...string) (string, error) {
	if err := p.Stage.write(filepath.Join(pyverbsDir, scriptName), script); err != nil {
		return "", err
	}
	argv := append([]string{"python3", "-u", filepath.Join(pyverbsDir, scriptName)}, args...)
	proc, err := p.Start(ctx, []string{"PATH=" + pyverbsDir + "/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, argv...)
	if err != nil {
		return "", err
	}
	err = proc.Wait()
	return proc.Output(), err
}

// readPlain reads a file that may be compressed with gzip.
func readPlain(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return string(b), err
	}
	return gunzip(b)
}
