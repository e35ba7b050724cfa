//go:build !linux || portable

package unix

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
)

// Linux reports whether this is Linux, and what it has may be used.
const Linux = false

// SetAttr has the command fail to start: what is asked of it needs Linux.
func SetAttr(c *exec.Cmd, _ *SysProcAttr) { c.Err = ErrLinux }

// ByteSliceToString returns b up to its first zero.
func ByteSliceToString(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// Getpid returns the number of this process.
func Getpid() int { return os.Getpid() }

// SetGroup has the command fail to start, as SetAttr.
func SetGroup(c *exec.Cmd) { c.Err = ErrLinux }

// Owner returns that there is no telling whose a file is.
func Owner(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }
