package suite

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// insideEnv says that the program runs in a user namespace that Enter has made.
const insideEnv = "GOROCE_BENCH_IN_USER_NAMESPACE"

// Enter lets a user without privileges make networks: it runs the program again in a user
// namespace, in which it may, and does not return outside. It returns where it is not needed, and
// where users may not make such namespaces. What needs privileges over the machine, larger socket
// buffers than net.core.rmem_max and programs in the kernel, needs root still.
func Enter() {
	if os.Geteuid() == 0 || os.Getenv(insideEnv) != "" {
		return
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	unix.SetAttr(cmd, &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL,
		UidMappings: []unix.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []unix.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	if cmd.Start() != nil {
		return
	}
	signal.Ignore(os.Interrupt) // the program inside gets it, too, and ends
	err := cmd.Wait()
	if cmd.ProcessState == nil || err != nil && !cmd.ProcessState.Exited() {
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}
