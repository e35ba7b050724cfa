package lab

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// cpioWriter writes an archive in the "newc" format that the kernel unpacks as its
// initramfs. Parent directories are made as needed; a name is written once.
type cpioWriter struct {
	w    io.Writer
	off  int64
	ino  uint32
	seen map[string]bool
	err  error
}

// The file types of cpio's mode field.
const (
	cpioDir     = 0o040000
	cpioFile    = 0o100000
	cpioSymlink = 0o120000
	cpioCharDev = 0o020000
)

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: w, seen: map[string]bool{}} }

func (c *cpioWriter) write(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(b)
		c.off += int64(n)
	}
}

func (c *cpioWriter) pad() {
	if n := -c.off & 3; n != 0 {
		c.write(make([]byte, n))
	}
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte, major, minor int) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" || c.seen[name] {
		return
	}
	if d := path.Dir(name); d != "." {
		c.dir(d)
	}
	c.seen[name] = true
	c.raw(name, mode, data, major, minor)
}

func (c *cpioWriter) raw(name string, mode uint32, data []byte, major, minor int) {
	c.ino++
	h := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.write([]byte(h + name + "\x00"))
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpioWriter) dir(name string)                         { c.entry(name, cpioDir|0o755, nil, 0, 0) }
func (c *cpioWriter) file(name string, perm uint32, b []byte) { c.entry(name, cpioFile|perm, b, 0, 0) }
func (c *cpioWriter) symlink(name, target string) {
	c.entry(name, cpioSymlink|0o777, []byte(target), 0, 0)
}
func (c *cpioWriter) charDev(name string, major, minor int) {
	c.entry(name, cpioCharDev|0o600, nil, major, minor)
}
func (c *cpioWriter) has(name string) bool {
	return c.seen[strings.TrimPrefix(path.Clean("/"+name), "/")]
}

func (c *cpioWriter) close() error {
	c.raw("TRAILER!!!", 0, nil, 0, 0)
	return c.err
}
