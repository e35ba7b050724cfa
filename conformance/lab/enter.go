package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// insideEnv marks the process that runs inside of the namespaces.
const insideEnv = "GOROCE_LAB_INSIDE"

// Enter moves the program into namespaces of its own (network, process, mount) by
// running it again inside of them, and does not return in the process outside. Call
// it first thing in main or TestMain.
//
// prepare runs once, outside, where the network still is; an error from it ends the
// program. The namespaces end with the process inside, and that one with its parent,
// so that nothing is left over whatever happens.
func Enter(prepare func(ctx context.Context) error) {
	if os.Getenv(insideEnv) != "" {
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	if prepare != nil {
		if err := prepare(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	stop()
	os.Exit(reexec())
}

// EnterWithGuests is Enter with the guests of suites prepared: without one of them the program
// ends.
func EnterWithGuests(suites []string, logf func(string, ...any)) {
	Enter(func(ctx context.Context) error {
		_, errs := Prepare(ctx, suites, logf)
		for _, s := range suites {
			if err := errs[s]; err != nil {
				return fmt.Errorf("no guest of suite %s: %w", s, err)
			}
		}
		return nil
	})
}

func reexec() int {
	// Pdeathsig follows the thread that started the child.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []unix.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []unix.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	unix.SetAttr(cmd, attr)
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, os.Interrupt, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr,
			"lab: namespaces: %v (needs root, or a kernel that lets users make user namespaces)\n", err)
		return 1
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-sigs:
				_ = cmd.Process.Signal(s)
				// A process inside that does not end on request is ended.
				time.AfterFunc(killGrace, func() { _ = cmd.Process.Kill() })
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	var ee *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ee) && ee.ExitCode() >= 0:
		return ee.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "lab: %v\n", err)
	return 1
}

// settle finishes the namespaces from inside.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("lab: private mounts: %w", err)
	}
	// Without these /proc shows the outside's processes and /sys its devices; where a
	// container forbids the mounts the lab works all the same.
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	_ = unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	return ip("link", "set", "lo", "up")
}

// ip runs iproute2's ip in this namespace.
func ip(args ...string) error {
	_, err := ipOutput(args...)
	return err
}

// ipOutput is ip, and returns what it prints.
func ipOutput(args ...string) (string, error) {
	path, err := lookPath("ip")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("lab: ip %v: %w: %s", args, err, tail(out, 500))
	}
	return string(out), nil
}
