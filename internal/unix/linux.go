//go:build linux && !portable

package unix

import "os/exec"

// Linux reports whether this is Linux, and what it has may be used.
const Linux = true

// SetAttr sets what only Linux has of how a command starts.
func SetAttr(c *exec.Cmd, a *SysProcAttr) { c.SysProcAttr = a }
