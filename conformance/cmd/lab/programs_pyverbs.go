package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

// preparePyverbs makes the images of the guests, and roots with Python for them.
func preparePyverbs(ctx context.Context, suites []string, logf func(string, ...any)) error {
	if err := prepareGuests(ctx, suites, logf); err != nil {
		return err
	}
	for _, s := range suites {
		if _, err := guestRoot(ctx, s, logf); err != nil {
			return err
		}
	}
	return nil
}

func guestRoot(ctx context.Context, suite string, logf func(string, ...any)) (*lab.Root, error) {
	return lab.PrepareRoot(ctx, "pyverbs-"+suite, suite, programs.GuestRecipe, programs.GuestPackages, logf)
}

// compare runs the test suite of pyverbs of each Debian suite on the libraries, and on rxe in a
// guest with that suite's kernel, and writes a table of both.
func (o *programOptions) compare(ctx context.Context) (failed int, err error) {
	all, err := stages(ctx, o.bin, o.suites, o.logf)
	if err != nil {
		return 0, err
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, "# The test suite of pyverbs, here and on rxe")
	fmt.Fprintf(&b, "\nMade by `make pyverbs`; don't edit. The suite of rdma-core, as Debian ships it, test by test: on this project's libraries\n")
	fmt.Fprintf(&b, "([verbs.md](../docs/verbs.md)), on the link %s, and on the kernel's rxe in a guest of the same Debian suite.\n\n", o.link)
	fmt.Fprintf(&b, "The tests of RDMA-CM look for the network interface of the device in sysfs, where rxe has none: they are skipped there. Here\n")
	fmt.Fprintf(&b, "they find a stand-in, and run.\n\n")
	fmt.Fprintf(&b, "Run on %s as %s.\n", time.Now().UTC().Format(time.DateOnly),
		map[bool]string{true: "root", false: "a user"}[os.Getuid() == 0])
	for _, s := range all {
		n, err := compareSuite(ctx, &b, s, o.link, o.logf)
		failed += n
		if err != nil {
			return failed, err
		}
	}
	return failed, os.WriteFile(o.pyverbs, b.Bytes(), 0o644)
}

// compareSuite writes the table of one Debian suite, and returns how many tests failed here.
func compareSuite(ctx context.Context, b *bytes.Buffer, s *programs.Stage, link string,
	logf func(string, ...any)) (failed int, err error) {
	version := s.Version("pyverbs")
	ours, err := here(ctx, s, link)
	if err != nil {
		return 0, err
	}
	logf("%s: the suite on these libraries is done", s.Suite)
	kernel, theirs, err := onRXE(ctx, s.Suite, logf)
	if err != nil {
		return 0, err
	}
	logf("%s: the suite on rxe is done", s.Suite)
	for _, r := range ours {
		if r.Result == programs.Fail {
			failed++
		}
	}
	fmt.Fprintf(b, "\n## rdma-core %s (Debian %s), beside rxe of Linux %s\n\n", version, s.Suite, kernel)
	return failed,
		programs.WriteComparison(b, []programs.Column{{Name: "goroce", Results: ours}, {Name: "rxe", Results: theirs}})
}

func here(ctx context.Context, s *programs.Stage, link string) ([]programs.PyResult, error) {
	p, closePlace, err := programs.NewPyverbs(s, "--link="+link)
	if err != nil {
		return nil, err
	}
	defer closePlace()
	return programs.RunPyverbs(ctx, p)
}

// onRXE boots a guest and runs the suite in it.
func onRXE(ctx context.Context, suite string,
	logf func(string, ...any)) (kernel string, results []programs.PyResult, err error) {
	image, err := lab.OpenImage(suite)
	if err != nil {
		return "", nil, err
	}
	root, err := guestRoot(ctx, suite, logf)
	if err != nil {
		return "", nil, err
	}
	l, err := lab.New(lab.Config{Logf: logf})
	if err != nil {
		return "", nil, err
	}
	defer l.Close()
	g, err := l.Boot(ctx, lab.GuestConfig{Name: suite, Image: image})
	if err != nil {
		return "", nil, err
	}
	inside, err := programs.NewGuestRoot(ctx, g, root)
	if err != nil {
		return "", nil, err
	}
	// GID 1 is the IPv4 one.
	results, err = programs.RunPyverbs(ctx, programs.GuestPyverbs{GuestRoot: inside}, "--dev", g.Dev)
	return image.KernelMajorMinor(), results, err
}
