package programs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
)

// guestRoot is where the packages are in the guest.
const guestRoot = "/debian"

// GuestRoot is a root in a guest, whose programs find the kernel's rxe.
type GuestRoot struct {
	Guest *lab.Guest
}

// NewGuestRoot brings a root into a guest, which keeps it in memory.
func NewGuestRoot(ctx context.Context, g *lab.Guest, root *lab.Root) (*GuestRoot, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, root.Dir)) }()
	guest := &GuestRoot{g}
	if err := guest.Unpack(ctx, r); err != nil {
		return nil, err
	}
	script := `set -e
mkdir -p ` + guestRoot + `/etc
echo 127.0.0.1 localhost $(busybox hostname) > ` + guestRoot + `/etc/hosts
echo hosts: files > ` + guestRoot + `/etc/nsswitch.conf
for d in proc sys dev tmp; do mkdir -p ` + guestRoot + `/$d; done
for d in proc sys dev; do busybox mount -o bind /$d ` + guestRoot + `/$d; done
`
	if _, err := g.Run(ctx, "sh", "-c", script); err != nil {
		return nil, err
	}
	return guest, nil
}

// Unpack unpacks an archive of tar there.
func (r *GuestRoot) Unpack(ctx context.Context, archive io.Reader) error {
	if err := r.Guest.Put(ctx, "/archive.tar", 0o644, archive); err != nil {
		return err
	}
	_, err := r.Guest.Run(ctx, "sh", "-c",
		"mkdir -p "+guestRoot+" && busybox tar xf /archive.tar -C "+guestRoot+" && rm /archive.tar")
	return err
}

// Start starts a program there.
func (r *GuestRoot) Start(ctx context.Context, argv ...string) (*lab.Proc, error) {
	return r.StartTo(ctx, nil, argv...)
}

// StartTo starts a program there, and writes what it prints to output as it comes.
func (r *GuestRoot) StartTo(ctx context.Context, output io.Writer, argv ...string) (*lab.Proc, error) {
	return r.Guest.Start(ctx, lab.Cmd{
		Argv:   append([]string{"busybox", "chroot", guestRoot}, argv...),
		Env:    map[string]string{"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"},
		Output: output,
	})
}

// GuestPyverbs is the test suite of pyverbs in a root that has its packages, and few more: the
// guest holds it in memory.
type GuestPyverbs struct{ *GuestRoot }

// RunPyverbs runs the script in the guest.
func (p GuestPyverbs) RunPyverbs(ctx context.Context, script string, args ...string) (string, error) {
	if err := p.Guest.Put(ctx, guestRoot+pyverbsDir+"/"+scriptName, 0o644, strings.NewReader(script)); err != nil {
		return "", err
	}
	proc, err := p.Start(ctx, append([]string{"/usr/bin/python3", "-u", pyverbsDir + "/" + scriptName}, args...)...)
	if err != nil {
		return "", err
	}
	err = proc.Wait()
	var exit *lab.ExitError
	if errors.As(err, &exit) { // without all that it has printed
		err = fmt.Errorf("exit status %d, signal %d", exit.Code, exit.Signal)
	}
	return proc.Output(), err
}

// left out of the archive: what no test reads.
var needless = []string{"/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/", "/var/"}

// writeTar writes an archive of a root, with the suite where it is run.
func writeTar(w io.Writer, root string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(path, root)
		info, err := d.Info()
		if err != nil || inside == "" {
			return err
		}
		if rel, ok := strings.CutPrefix(inside, pyverbsTests+"/"); ok && info.Mode().IsRegular() {
			return addTest(t, path, rel)
		}
		for _, n := range needless {
			if strings.HasPrefix(inside, n) {
				return nil
			}
		}
		return addToTar(t, path, inside, info)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func addTest(t *tar.Writer, path, rel string) error {
	text, err := readPlain(path)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(pyverbsDir, "/") + "/tests/" + strings.TrimSuffix(rel, ".gz")
	if err := t.WriteHeader(&tar.Header{
		Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg,
	}); err != nil {
		return err
	}
	_, err = io.WriteString(t, text)
	return err
}

func addToTar(t *tar.Writer, path, inside string, info fs.FileInfo) error {
	if !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = strings.TrimPrefix(inside, "/")
	h.Uname, h.Gname = "", ""
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(t, bytes.NewReader(b))
	return err
}
