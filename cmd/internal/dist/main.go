package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

const modulePath = "github.com/goroce/goroce"

// options are those of the command line.
type options struct {
	out     string
	version string
	epoch   int64
	arches  string
	check   bool
	modules bool
	compile bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.out, "o", "bin/dist", "`folder` for the release")
	flag.StringVar(&o.version, "version", "",
		"version; by default that of the tag, or as Go numbers a commit between two")
	flag.Int64Var(&o.epoch, "epoch", 0,
		"`seconds` since 1970 for all times in it; by default SOURCE_DATE_EPOCH, then the commit's")
	flag.StringVar(&o.arches, "arch", "amd64,arm64", "for which machines")
	flag.BoolVar(&o.check, "check", false, "build a second time elsewhere, from nothing, and compare")
	flag.BoolVar(&o.modules, "modules", false, "only use the checkout as those will who take its modules from a proxy")
	flag.BoolVar(&o.compile, "c", false, "only compile the libraries in C, against the headers that a release has")
	flag.Parse()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintf(os.Stderr, "dist: %v\n", err)
		os.Exit(1)
	}
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func run(ctx context.Context, o *options) error {
	if _, err := os.Stat("cmd/verbs/Makefile"); err != nil {
		return fmt.Errorf("start it in the root of the checkout: %w", err)
	}
	if o.modules {
		return checkModules(ctx)
	}
	r, err := identify(ctx, o)
	if err != nil {
		return err
	}
	for arch := range strings.SplitSeq(o.arches, ",") {
		m, ok := machines[arch]
		if !ok {
			return fmt.Errorf("there are packages for amd64 and arm64, not for %q", arch)
		}
		r.machines = append(r.machines, m)
	}
	if o.compile {
		return r.compile(ctx)
	}
	if err := notesOf(r.version); err != nil {
		return err
	}
	began := time.Now()
	files, err := r.build(ctx, ".", os.Environ())
	if err != nil {
		return err
	}
	logf("built in %.0f s", time.Since(began).Seconds())
	if err := write(o.out, files); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Printf("%s  %9d  %s\n", sha256sum(f.data), len(f.data), filepath.Join(o.out, f.name))
	}
	if !o.check {
		return nil
	}
	return r.again(ctx, files)
}

// release is what is built, and from what.
type release struct {
	version  string
	when     time.Time
	machines []machine
}

// identify finds out the version and the time.
func identify(ctx context.Context, o *options) (*release, error) {
	commit, err := commitOf(ctx)
	if err != nil {
		return nil, err
	}
	r := &release{version: o.version, when: commit.when}
	if r.version == "" {
		r.version = commit.version()
	}
	if !strings.HasPrefix(r.version, "v") {
		return nil, fmt.Errorf("a version begins with v, unlike %q", r.version)
	}
	if text := os.Getenv("SOURCE_DATE_EPOCH"); o.epoch == 0 && text != "" {
		if _, err := fmt.Sscan(text, &o.epoch); err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q: %w", text, err)
		}
	}
	if o.epoch != 0 {
		r.when = time.Unix(o.epoch, 0)
	}
	return r, nil
}

// notesOf makes sure that a release has a section in the changelog, so that no tag goes out without
// one.
func notesOf(version string) error {
	if strings.ContainsAny(version, "-+") { // between two releases
		return nil
	}
	b, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "##" && f[1] == version {
			return nil
		}
	}
	return fmt.Errorf("CHANGELOG.md has no section %s: give \"Unreleased\" that name first", version)
}

// write replaces the folder by one with these files.
func write(dir string, files []file) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, os.FileMode(f.mode())); err != nil {
			return err
		}
	}
	return nil
}

// again builds from a copy of the checkout in another folder, with another umask and time zone and
// nothing of what Go keeps from earlier builds, and compares.
func (r *release) again(ctx context.Context, first []file) error {
	dir, err := os.MkdirTemp("", "goroce-dist-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "another", "checkout")
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := copyTracked(ctx, source); err != nil {
		return err
	}
	logf("once more, elsewhere")
	second, err := r.build(ctx, source, append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"),
		"TZ=Pacific/Chatham", "LC_ALL=C", "HOME="+os.Getenv("HOME")))
	if err != nil {
		return err
	}
	var differ []string
	for i, f := range first {
		if i >= len(second) || second[i].name != f.name || string(second[i].data) != string(f.data) {
			differ = append(differ, f.name)
		}
	}
	if len(differ) > 0 || len(second) != len(first) {
		kept := "bin/dist-again"
		if err := write(kept, second); err != nil {
			return err
		}
		return fmt.Errorf("the second build differs in %s; it is in %s",
			strings.Join(slices.Compact(differ), ", "), kept)
	}
	logf("the same bytes: %d files", len(first))
	return nil
}
