package main

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// commit is the state of the checkout.
type commit struct {
	hash    string
	when    time.Time
	tag     string // the last release before it, or of it; "" if there is none
	tagged  bool   // it is that release
	changed bool
}

func commitOf(ctx context.Context) (c commit, err error) {
	text, err := output(ctx, ".", "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return c, err
	}
	hash, seconds, _ := strings.Cut(text, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return c, err
	}
	c.hash, c.when = hash, time.Unix(unix, 0)
	if c.tag, err = output(ctx, ".", "git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*"); err != nil {
		c.tag = "" // no tag yet
	} else if at, err := output(ctx, ".", "git", "rev-list", "-n1", c.tag); err == nil {
		c.tagged = at == hash
	}
	status, err := output(ctx, ".", "git", "status", "--porcelain", "--untracked-files=no")
	c.changed = status != ""
	return c, err
}

// version is the tag's, or what Go makes of a commit between two:
// v1.2.4-0.20260102150405-0123456789ab.
func (c commit) version() string {
	v := c.tag
	if !c.tagged {
		v = pseudoVersion(c.tag, c.when, c.hash)
	}
	if c.changed {
		v += "+dirty"
	}
	return v
}

func pseudoVersion(tag string, when time.Time, hash string) string {
	suffix := when.UTC().Format("20060102150405") + "-" + hash[:12]
	base, pre, isPre := strings.Cut(tag, "-")
	parts := strings.Split(base, ".")
	if isPre {
		return base + "-" + pre + ".0." + suffix
	}
	if len(parts) == 3 {
		if patch, err := strconv.Atoi(parts[2]); err == nil {
			return fmt.Sprintf("%s.%s.%d-0.%s", parts[0], parts[1], patch+1, suffix)
		}
	}
	return "v0.0.0-" + suffix
}

// copyTracked copies the files of the checkout that git knows, as they are now.
func copyTracked(ctx context.Context, to string) error {
	names, err := output(ctx, ".", "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(names, "\x00"), "\x00") {
		i, err := os.Lstat(name)
		if os.IsNotExist(err) {
			continue // removed and not committed
		} else if err != nil {
			return err
		}
		if i.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(at, b, i.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// goTool is the go command that runs this.
func goTool() string {
	if g := os.Getenv("GO"); g != "" {
		return g
	}
	return "go"
}

// moduleDir is the folder with a component's source.
func (b *builder) moduleDir(ctx context.Context, c component) (string, error) {
	if c.path == "std" {
		root, err := output(ctx, b.source, goTool(), "env", "GOROOT")
		if err == nil {
			if _, missing := os.Stat(filepath.Join(root, "LICENSE")); missing != nil && runtime.GOOS == "linux" {
				root = "/usr/share/doc/golang-go" // Debian puts it there
			}
		}
		return root, err
	}
	return output(ctx, filepath.Join(b.source, "cmd", "verbs"), goTool(), "list", "-mod=readonly", "-m", "-f",
		"{{.Dir}}", c.path)
}

// command runs a program of the build.
func (b *builder) command(ctx context.Context, dir string, environ []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(b.environ[:len(b.environ):len(b.environ)], environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// output runs a program and returns what it says.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func md5sum(b []byte) string { s := md5.Sum(b); return hex.EncodeToString(s[:]) }

func sha1sum(b []byte) string { s := sha1.Sum(b); return hex.EncodeToString(s[:]) }

func sha256sum(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
