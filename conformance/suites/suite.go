package suites

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

// Suite is a test suite of somebody else's.
type Suite struct {
	Name  string
	About string
	// Package, Version and Release are the source: a source package of Debian, and the release that
	// has this version.
	Package, Version, Release string
	// Share: of this many tests, a quick run has one; 0: it has all.
	Share int
	// Archive is where the source is if Debian has none, which is then fetched from there. Package
	// is the name of the project.
	Archive string
	// Needs is what building and running it needs of this machine.
	Needs []lab.Need
	// Build is a script for sh -e that builds it, in the folder of the source.
	Build string
	// Packages, in the place of Build: those of the release that the programs are in, which are
	// unpacked and not installed.
	Packages []string
	// GuestPackages, beside Build, are what the programs need of the release in a guest.
	GuestPackages []string
	// Run runs its tests on a site, and reports each.
	Run func(ctx context.Context, t *Turn) error
	// RunInGuest does so in a guest, on rxe; nil if the suite is not run there.
	RunInGuest func(ctx context.Context, t *Turn) error
}

// Turn is one run of a suite on a site.
type Turn struct {
	Site  *Site
	Dir   string          // of the built source
	Stage *programs.Stage // the packages
	// Guest and Root are for RunInGuest, in the place of Site and Stage: the packages are not in
	// the guest yet.
	Guest *lab.Guest
	Root  *lab.Root
	Share int    // of this many tests, one is run; 0: all are
	Only  string // tests whose name contains this
	// Report takes a result. Suite and On are filled in.
	Report func(Result)
	Logf   func(string, ...any)

	named int // tests that asked has been asked for, and Only has left
}

// asked reports whether a test is to run. It is called once for each test of the suite, in the
// order of the suite's, so that each run with the same Share has the same tests.
func (t *Turn) asked(test string) bool {
	if !strings.Contains(test, t.Only) {
		return false
	}
	t.named++
	return t.Share == 0 || t.named%t.Share == 1%t.Share
}

// All are the suites.
func All() []Suite {
	return []Suite{ucx(), fabtests(), perftest(), pyverbs(), iser(), fio(), mpi(), imb(), valkey()}
}

// Names are those of all suites.
func Names() (names []string) {
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Needs is what all suites of these names need of this machine.
func Needs(names []string) (needs []lab.Need) {
	needs = append(needs, baseNeeds...)
	for _, s := range All() {
		if slices.Contains(names, s.Name) {
			needs = append(needs, s.Needs...)
		}
	}
	return needs
}

// baseNeeds is what every suite needs.
var baseNeeds = []lab.Need{
	{What: "gcc", Package: "gcc"}, {What: "make", Package: "make"}, {What: "/usr/include/stdio.h",
		Package: "libc6-dev"},
	{What: "/usr/include/infiniband/verbs.h", Package: "libibverbs-dev"},
	{What: "/usr/include/rdma/rsocket.h", Package: "librdmacm-dev"}, {What: "ip", Package: "iproute2"},
	{What: "xz", Package: "xz-utils"}, {What: "nsenter", Package: "util-linux"},
	{What: "autoreconf", Package: "autoconf"}, {What: "aclocal", Package: "automake"}, {What: "libtoolize",
		Package: "libtool"},
	{What: "pkg-config", Package: "pkg-config"},
}

// Root makes the root that the packages are in, or finds it.
func (s Suite) Root(ctx context.Context, logf func(string, ...any)) (*lab.Root, error) {
	packages := append(slices.Clone(s.Packages), s.GuestPackages...)
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	recipe := int(binary.BigEndian.Uint16(sum[:]))
	root, err := lab.PrepareRoot(ctx, "suites-"+s.Name+"-"+s.Release, s.Release, recipe, packages, logf)
	if err == nil && s.Packages != nil && root.Versions[s.Package] != s.Version {
		err = fmt.Errorf("suites: %s of Debian %s is %s now, and not %s", s.Package, s.Release,
			root.Versions[s.Package], s.Version)
	}
	return root, err
}

// fetch fetches the source, unless it is there, and returns its archive.
func (s Suite) fetch(ctx context.Context, top string, logf func(string, ...any)) (string, error) {
	if s.Archive == "" {
		return lab.FetchSource(ctx, top, s.Release, s.Package, s.Version, logf)
	}
	file := filepath.Join(top, s.Name+"-"+path.Base(s.Archive))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(top, 0o755); err != nil {
		return "", err
	}
	logf("downloading %s", s.Archive)
	if out, err := exec.CommandContext(ctx, "curl", "-fsSL", "-o", file+".part",
		s.Archive).CombinedOutput(); err != nil {
		return "", fmt.Errorf("suites: curl %s: %w: %s (-sources names a folder that has %s.tar.gz)",
			s.Archive, err, out, s.Name)
	}
	return file, os.Rename(file+".part", file)
}

// builtStamp is the file that says by which script a folder was built.
const builtStamp = ".goroce-built"

// Prepare fetches and builds the suite below the cache, unless that has been done, and returns the
// folder. With archive it is unpacked from there, and not fetched.
func (s Suite) Prepare(ctx context.Context, archive string, logf func(string, ...any)) (dir string, err error) {
	cache, err := lab.CacheDir()
	if err != nil {
		return "", err
	}
	top := filepath.Join(cache, "suites")
	dir = filepath.Join(top, s.Name+"-"+s.Version)
	if archive == "" {
		if archive, err = s.fetch(ctx, top, logf); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256([]byte(s.Build + archive))
	stamp, want := filepath.Join(dir, builtStamp), hex.EncodeToString(sum[:])
	if b, err := os.ReadFile(stamp); err == nil && string(b) == want {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", archive, "-C", dir,
		"--strip-components=1").CombinedOutput(); err != nil {
		return "", fmt.Errorf("suites: tar %s: %w: %s", filepath.Base(archive), err, out)
	}
	logf("building %s %s, which takes some minutes", s.Name, s.Version)
	log := dir + ".log"
	f, err := os.Create(log)
	if err != nil {
		return "", err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, "sh", "-ex", "-c", s.Build)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, f, f
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("suites: building %s: %w: %s has what it said", s.Name, err, log)
	}
	return dir, os.WriteFile(stamp, []byte(want), 0o644)
}
