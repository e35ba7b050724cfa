package lab

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// PrepareSysroot makes a folder below the cache with what a compiler needs to build for machines of
// an architecture (Debian's name of it) and an older C library: packages of several suites, by
// suite, without what they depend on. recipe changes whenever they do. It needs the network the
// first time only.
func PrepareSysroot(ctx context.Context, name, arch string, recipe int, packages map[string][]string,
	logf func(string, ...any)) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lockDir(ctx, filepath.Join(cache, "lock-"+name))
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(cache, name)
	root := filepath.Join(dir, "root")
	_, err = unpackOnce(ctx, dir, root, recipe, logf, func() ([]string, error) {
		var all []string
		for _, suite := range slices.Sorted(maps.Keys(packages)) {
			logf("lab: downloading packages of %s for %s", suite, arch)
			debs, err := fetchAlone(ctx, filepath.Join(dir, "apt", suite), suite, arch, packages[suite])
			if err != nil {
				return nil, err
			}
			all = append(all, debs...)
		}
		return all, nil
	})
	if err != nil {
		return "", err
	}
	return root, stayBelow(root)
}

// stayBelow makes absolute links relative, so that the linker finds what they mean in the folder
// and not in this system.
func stayBelow(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(path), filepath.Join(root, target))
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(rel, path)
	})
}

// fetchAlone downloads packages of a suite without what they depend on.
func fetchAlone(ctx context.Context, dir, suite, arch string, packages []string) ([]string, error) {
	opts, err := aptState(dir, "deb", suite, arch)
	if err != nil {
		return nil, err
	}
	// apt-get download writes into the current folder, and has no option for another.
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	err = retry(ctx, 2, aptPause, func() error {
		if err := runApt(ctx, append(opts[:len(opts):len(opts)], "update", "--error-on=any")...); err != nil {
			return err
		}
		args := append([]string{"-C", dir, "apt-get"}, aptOptions...)
		args = append(append(append(args, opts...), "download"), packages...)
		return runCommand(ctx, fetchTimeout, "env", args...)
	})
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}
