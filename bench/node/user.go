package node

import (
	"os"
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// EnvUnprivileged is set in the environment of nodes that are to have no privileges, as
// most users have none: socket buffers are what net.core.rmem_max grants.
const EnvUnprivileged = "GOROCE_BENCH_UNPRIVILEGED"

// drop starts this program again without any capability, if EnvUnprivileged says so: root has those
// that the bounding set leaves, and the set belongs to a thread until then.
func drop() error {
	if os.Getenv(EnvUnprivileged) == "" {
		return nil
	}
	if err := os.Unsetenv(EnvUnprivileged); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// Without the privilege there is none to drop; one that this kernel does not
		// know is no error either.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return os.NewSyscallError("execve", unix.Exec(exe, os.Args, os.Environ()))
}
