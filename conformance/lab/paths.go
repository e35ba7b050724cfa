package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/internal/unix"
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

// OutDir is where logs, captures and results of this program go: conformance/out, or where
// other programs that run at the same time have that, conformance/out/2 and so on.
func OutDir() (string, error) { return outDir() }

var outDir = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		d := filepath.Join(root, "conformance", "out")
		if n > 1 {
			d = filepath.Join(d, strconv.Itoa(n))
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
		f, err := os.OpenFile(filepath.Join(d, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return "", err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			outLock = f
			return d, nil
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return "", fmt.Errorf("lab: lock %s: %w", d, err)
		}
	}
})

// outLock holds the lock on OutDir until this program ends.
//
//lint:ignore U1000 nobody reads it: it keeps the file from being closed by the garbage collector
var outLock *os.File

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
