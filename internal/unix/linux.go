//go:build linux && !portable

package unix

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// Linux reports whether this is Linux, and what it has may be used.
const Linux = true

// SetAttr sets what only Linux has of how a command starts.
func SetAttr(c *exec.Cmd, a *SysProcAttr) { c.SysProcAttr = a }

// SetGroup has a command begin a process group.
func SetGroup(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &SysProcAttr{}
	}
	c.SysProcAttr.Setpgid = true
}

// Owner returns whose a file is; ok is false if there is no telling.
func Owner(i fs.FileInfo) (uid, gid int, ok bool) {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid), true
	}
	return 0, 0, false
}
