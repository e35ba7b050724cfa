package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const modulePath = "github.com/goroce/goroce"

// moduleRoot finds the checkout: the lab builds labd from source.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if f, err := os.Open(filepath.Join(d, "go.mod")); err == nil {
			sc := bufio.NewScanner(f)
			for sc.Scan() {
				if strings.TrimSpace(sc.Text()) == "module "+modulePath {
					f.Close()
					return d, nil
				}
			}
			f.Close()
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("lab: %s is not inside a checkout of %s; run from there", dir, modulePath)
		}
	}
}

// CacheDir is where images are kept: $GOROCE_LAB_CACHE or conformance/.cache.
func CacheDir() (string, error) {
	if d := os.Getenv("GOROCE_LAB_CACHE"); d != "" {
		return d, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "conformance", ".cache"), nil
}

// OutDir is where logs, captures and results go: conformance/out.
func OutDir() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	d := filepath.Join(root, "conformance", "out")
	return d, os.MkdirAll(d, 0o755)
}

// lockDir takes an exclusive lock on dir, so that two runs don't fill one cache.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lab: lock %s: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lab: another run holds %s: %w", dir, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
