//go:build linux

package suite

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user without privileges has the network that root has, if the kernel lets users make user
// namespaces, and loopback otherwise. The exit code is that of the program inside.
func TestEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become somebody else")
	}
	dir := t.TempDir() // the test binary is in a folder of root's
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	b, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	exe := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(exe, b, 0o755))
	const nobody = 65534
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd := exec.Command(exe)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", append(os.Environ(), "SUITE_ENTER=1"), as
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Skipf("nobody cannot run a program of %s: %v", dir, err)
	}
	require.Equal(t, 3, cmd.ProcessState.ExitCode(), out.String())
	may := exec.Command("unshare", "--user", "--map-root-user", "--net", "true")
	may.SysProcAttr = as
	may.Dir = "/"
	if may.Run() == nil {
		require.Equal(t, "two network namespaces, veth pair, MTU 9000", out.String())
	} else {
		require.Contains(t, out.String(), "loopback addresses")
	}
}
