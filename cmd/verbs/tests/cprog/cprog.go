// Package cprog has what tests of programs in C on the libraries have in common.
package cprog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The programs are run in a network namespace of their own where the kernel allows it.
const inNamespace = "GOROCE_TEST_NAMESPACE"

// Main is for TestMain.
func Main(m *testing.M) {
	if os.Getenv(inNamespace) == "" {
		if code, ok := again(); ok {
			os.Exit(code)
		}
	} else if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "the namespace has no loopback interface:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// again runs the tests in a namespace; ok is false if there cannot be one.
func again() (code int, ok bool) {
	self, err := os.Executable()
	if err != nil {
		return 0, false
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, false
	}
	if err := cmd.Wait(); err != nil {
		return 1, true
	}
	return 0, true
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// Libraries builds them, and returns where they are. The programs include a header of a package of
// Debian's. verbs is the folder of cmd/verbs.
func Libraries(t *testing.T, verbs, header, debian string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	check := exec.Command("gcc", "-E", "-x", "c", "-o", os.DevNull, "-")
	check.Stdin = strings.NewReader("#include <" + header + ">\n")
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("the headers of %s are not installed: %s", debian, out)
	}
	out, err := filepath.Abs(verbs + "/../../bin/verbs")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("make", "-C", verbs, "OUT="+out).CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, b)
	}
	return out
}

// Compile builds a program against the system's libraries, as any program is.
func Compile(t *testing.T, source string, libs ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wno-unused-function", "-pthread", "-o", exe, source},
		libs...)
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, b)
	}
	return exe
}

// Hangs is how long a program that hangs takes.
const Hangs = 2 * time.Minute

// Run runs a program on the libraries, and returns its output and how it ended.
func Run(t *testing.T, libs string, env []string, exe string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+libs, "GOROCE_ADDR=127.0.0.1,127.0.0.2"), env...)
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s hangs\n%s%s", filepath.Base(exe), &stdout, &stderr)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}
