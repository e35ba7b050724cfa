package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// FetchSource downloads the upstream archive of a source package, in the given version, from a
// Debian suite, and returns its path. apt checks it against the archive's signed lists. One that is
// in dir already is not fetched again.
func FetchSource(ctx context.Context, dir, suite, pkg, version string, logf func(string, ...any)) (string, error) {
	at := filepath.Join(dir, pkg+"_"+version)
	found := func() string {
		files, _ := filepath.Glob(filepath.Join(at, pkg+"_*.orig.tar.*"))
		for _, f := range files {
			if filepath.Ext(f) != ".asc" {
				return f
			}
		}
		return ""
	}
	if f := found(); f != "" {
		return f, nil
	}
	logf("lab: downloading the source of %s %s from %s", pkg, version, suite)
	state := filepath.Join(at, "apt")
	opts, err := aptState(state, "deb-src", suite, "amd64")
	if err != nil {
		return "", err
	}
	if err := runApt(ctx, append(opts, "update", "--error-on=any")...); err != nil {
		return "", err
	}
	// apt-get leaves what it downloads in the working folder.
	args := append(append(aptOptions[:len(aptOptions):len(aptOptions)], opts...),
		"source", "--tar-only", "--only-source", "--download-only", pkg+"="+version)
	err = retry(ctx, aptTries, aptPause, func() error {
		return runCommand(ctx, fetchTimeout, "env", append([]string{"-C", at, "apt-get"}, args...)...)
	})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(state); err != nil {
		return "", err
	}
	if f := found(); f != "" {
		return f, nil
	}
	return "", fmt.Errorf("lab: apt-get has left no archive of %s %s", pkg, version)
}
