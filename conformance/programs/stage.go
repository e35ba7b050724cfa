package programs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/internal/unix"
)

// Packages are what the programs and the test suite of pyverbs are in, the same in each suite.
var Packages = []string{
	"ibverbs-utils", "rdmacm-utils", "librdmacm1", "ibverbs-providers", "perftest", "ucx-utils", "libfabric-bin",
	"python3-minimal", "python3", "python3-pyverbs", "dash", "coreutils", "iproute2",
}

// Needs is what the libraries are built with, and what this machine has to have for the programs,
// which come with all of theirs.
var Needs = []lab.Need{
	{What: "gcc", Package: "gcc"}, {What: "/usr/include/stdio.h", Package: "libc6-dev"},
	{What: "/usr/include/infiniband/verbs.h", Package: "libibverbs-dev"},
	{What: "/usr/include/rdma/rsocket.h", Package: "librdmacm-dev"}, {What: "ip", Package: "iproute2"},
	{What: "dpkg-deb", Package: "dpkg"}, {What: "xz", Package: "xz-utils"},
}

// Recipe changes with Packages.
const Recipe = 1

// Suites are the Debian suites with rdma-core 44 and 56.
var Suites = lab.Suites

// ownDir is where this project's programs and libraries are for programs on a stage.
const ownDir = "/opt/goroce"

// Stage is a root for programs, with this project's own mounted into it.
type Stage struct {
	*lab.Root
}

// NewStage mounts what programs need into a root: this project's bin folder, /proc, /sys, /dev and
// an empty /tmp. It must be called inside of the lab's namespaces, with which the mounts end.
func NewStage(root *lab.Root, bin string) (*Stage, error) {
	for _, f := range []string{"roce", "verbs/libibverbs.so.1", "verbs/librdmacm.so.1"} {
		if _, err := os.Stat(filepath.Join(bin, f)); err != nil {
			return nil, fmt.Errorf("programs: %w: \"make build verbs\" makes it", err)
		}
	}
	s := &Stage{root}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{bin, ownDir, "", unix.MS_BIND},
		{"/proc", "/proc", "", unix.MS_BIND | unix.MS_REC},
		{"/sys", "/sys", "", unix.MS_BIND | unix.MS_REC},
		{"/dev", "/dev", "", unix.MS_BIND | unix.MS_REC},
		{"tmpfs", "/tmp", "tmpfs", 0},
		{"tmpfs", "/run", "tmpfs", 0},
	} {
		at := s.Path(m.target)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
		if err := unix.Mount(m.source, at, m.kind, m.flags, ""); err != nil {
			return nil, fmt.Errorf("programs: mount %s: %w", at, err)
		}
	}
	for name, text := range map[string]string{
		"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\n",
		"/etc/group":         "root:x:0:\n",
		"/etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"/etc/nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\nservices: files\n",
	} {
		if err := s.write(name, text); err != nil {
			return nil, err
		}
	}
	return s, s.alternatives()
}

// alternatives makes the links that packages make when they are installed, and not when they are
// unpacked. libfabric needs this one.
func (s *Stage) alternatives() error {
	found, err := filepath.Glob(s.Path("/usr/lib/libpsm1/libpsm_infinipath.so.1.*"))
	for _, file := range found {
		link := s.Path("/usr/lib/x86_64-linux-gnu/libpsm_infinipath.so.1")
		if e := os.Symlink(strings.TrimPrefix(file, s.Dir), link); e != nil && !errors.Is(e, fs.ErrExist) {
			return e
		}
	}
	return err
}

// Path is the path, outside, of one inside.
func (s *Stage) Path(inside string) string { return filepath.Join(s.Dir, inside) }

// write writes a file of the root, which other runs may be writing, too.
func (s *Stage) write(inside, text string) error {
	at := s.Path(inside)
	if b, err := os.ReadFile(at); err == nil && string(b) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d", at, os.Getpid())
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, at)
}

// Has reports whether the suite has a program.
func (s *Stage) Has(program string) bool {
	if program == ownProgram {
		return true
	}
	for _, dir := range []string{"usr/bin", "bin", "usr/sbin", "sbin"} {
		if i, err := os.Stat(filepath.Join(s.Dir, dir, program)); err == nil && i.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// packageOf are the packages whose version counts for a group of cases.
var packageOf = map[string]string{
	groupPerftest: "perftest", groupVerbs: "ibverbs-utils", groupCM: "rdmacm-utils",
	groupFabric: "libfabric-bin", groupUCX: "ucx-utils", groupPyverbs: "python3-pyverbs", groupMixed: "perftest",
}

// Version returns the version of the package that a group's programs are in.
func (s *Stage) Version(group string) string {
	v, _, _ := strings.Cut(s.Versions[packageOf[group]], "-")
	return v
}
