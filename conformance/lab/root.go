package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packageSet is what a suite's folder holds once unpacked; it is the stamp that tells
// a finished fetch from an interrupted one.
type packageSet struct {
	Recipe   int      `json:"recipe"`
	Packages []string `json:"packages"` // file names
}

// versions returns the version of each package, by its name.
func (s packageSet) versions() map[string]string {
	versions := map[string]string{}
	for _, file := range s.Packages { // perftest_4.5+0.17-1_amd64.deb; a colon is written as %3a
		if f := strings.Split(file, "_"); len(f) == 3 {
			versions[f[0]] = strings.ReplaceAll(f[1], "%3a", ":")
		}
	}
	return versions
}

// Root is a folder with packages of a Debian suite, unpacked and not installed, with all that they
// depend on: the programs in it run with their own loader and libraries, wherever the folder is the
// root.
type Root struct {
	Suite    string
	Dir      string
	Versions map[string]string // by the package's name
}

// PrepareRoot makes a root below the cache, in a folder of the given name, or returns the one that
// is there. recipe changes whenever packages does. It needs the network the first time only, so
// that it must run before Enter.
func PrepareRoot(ctx context.Context, name, suite string, recipe int, packages []string,
	logf func(string, ...any)) (*Root, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	unlock, err := lockDir(ctx, filepath.Join(cache, "lock-"+name))
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(cache, name)
	root := filepath.Join(dir, "root")
	set, err := ensureRoot(ctx, dir, root, suite, recipe, packages, logf)
	if err != nil {
		return nil, err
	}
	return &Root{Suite: suite, Dir: root, Versions: set.versions()}, nil
}

// ensureRoot downloads and unpacks packages of a suite, and all that they depend on, unless that
// has been done by the same recipe.
func ensureRoot(ctx context.Context, dir, root, suite string, recipe int, packages []string,
	logf func(string, ...any)) (packageSet, error) {
	return unpackOnce(ctx, dir, root, recipe, logf, func() ([]string, error) {
		logf("lab: downloading packages of %s", suite)
		return fetchSuite(ctx, filepath.Join(dir, "apt"), suite, packages)
	})
}

// unpackOnce unpacks the packages that fetch brings, unless that has been done by the same recipe.
// What fetch leaves in the folder apt goes when they are unpacked.
func unpackOnce(ctx context.Context, dir, root string, recipe int, logf func(string, ...any),
	fetch func() ([]string, error)) (packageSet, error) {
	stamp := filepath.Join(dir, "packages.json")
	var set packageSet
	if b, err := os.ReadFile(stamp); err == nil && json.Unmarshal(b, &set) == nil && set.Recipe == recipe {
		return set, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return set, err
	}
	debs, err := fetch()
	if err != nil {
		return set, err
	}
	logf("lab: unpacking %d packages into %s", len(debs), filepath.Base(dir))
	if err := os.MkdirAll(root, 0o755); err != nil {
		return set, err
	}
	// A merged /usr, as installed systems have: linker scripts name libraries by their
	// path below /lib, newer packages ship them below /usr/lib.
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", d), 0o755); err != nil {
			return set, err
		}
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
			return set, err
		}
	}
	set = packageSet{Recipe: recipe}
	for _, d := range debs {
		out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", d, root).CombinedOutput()
		if err != nil {
			return set, fmt.Errorf("lab: dpkg-deb -x %s: %w: %s", filepath.Base(d), err, tail(out, 500))
		}
		set.Packages = append(set.Packages, filepath.Base(d))
	}
	// Everything is unpacked: the archives are not needed again.
	if err := os.RemoveAll(filepath.Join(dir, "apt")); err != nil {
		return set, err
	}
	b, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return set, err
	}
	return set, writeFile(stamp, b, 0o644)
}
