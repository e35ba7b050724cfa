package tests

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The programs are run in a network namespace of their own where the kernel allows it.
const inNamespace = "GOROCE_TEST_NAMESPACE"

func TestMain(m *testing.M) {
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

// libraries builds them once, and returns where they are.
func libraries(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	check := exec.Command("gcc", "-E", "-x", "c", "-o", os.DevNull, "-")
	check.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n")
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("the headers of libibverbs-dev are not installed: %s", out)
	}
	out, err := filepath.Abs("../../../bin/verbs")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("make", "-C", "..", "OUT="+out).CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, b)
	}
	return out
}

// compile builds one of the programs against the system's libibverbs, as any program is.
func compile(t *testing.T, name string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), name)
	if b, err := exec.Command("gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wno-unused-function", "-pthread", "-o", exe, filepath.Join("programs", name+".c"), "-libverbs", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, b)
	}
	return exe
}

// A program that takes as long hangs.
const hangs = 2 * time.Minute

// run runs a program on these libraries, and returns its output and how it ended.
func run(t *testing.T, libs string, env []string, exe string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
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

// Each program checks by itself, and says what is wrong.
func TestPrograms(t *testing.T) {
	libs := libraries(t)
	sources, err := filepath.Glob("programs/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	type result struct {
		code         int
		out, stderrs string
	}
	want := map[string]result{
		"wild":   {code: -1}, // by a signal
		"atexit": {code: 9, out: "atexit\ndestructor\n"},
	}
	hook := "LD_PRELOAD=" + filepath.Join(libs, "libgoroce_hook.so")
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".c")
		exe := compile(t, name)
		for mode, env := range map[string][]string{"plain": nil, "polling": {"GOROCE_POLLING=1"}, "hook": {hook}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				out, errs, code := run(t, libs, env, exe)
				if w := want[name]; code != w.code || out != w.out || errs != w.stderrs {
					t.Errorf("ended with %d, and said:\n%s%swant %d, and:\n%s%s", code, out, errs, w.code, w.out, w.stderrs)
				}
			})
		}
	}
}

// symbolsOf returns the symbols that a library defines, each with its version.
func symbolsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && s.Section != elf.SHN_ABS {
			all[s.Name+" "+s.Version] = true
		}
	}
	return all
}

// Every symbol of rdma-core's libibverbs is there, in its version: symbols.txt is the list of
// rdma-core 44. What is there besides is in extra.txt, so that nothing gets out by mistake.
func TestSymbols(t *testing.T) {
	have := symbolsOf(t, filepath.Join(libraries(t), "libibverbs.so.1"))
	listed := map[string]bool{}
	for _, file := range []string{"symbols.txt", "extra.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			listed[line] = true
			if !have[line] {
				t.Errorf("%s, of %s, is missing", line, file)
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(have)) {
		if !listed[s] && !strings.Contains(s, "GLIBC_") {
			t.Errorf("%s is not listed", s)
		}
	}
	for _, s := range []string{"sigaction", "signal", "__sysv_signal"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(h string) bool { return strings.HasPrefix(h, s+" GLIBC_") }) {
			t.Errorf("%s is not there in the version of libc", s)
		}
	}
}

// A core that is missing, or an address that is not this machine's, is said in one line.
func TestOneLine(t *testing.T) {
	libs := libraries(t)
	exe := compile(t, "dlvsym")
	alone := t.TempDir()
	lib, err := os.ReadFile(filepath.Join(libs, "libibverbs.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(alone, "libibverbs.so.1"), lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		libs, addr, want string
	}{
		"no core":      {alone, "127.0.0.1,127.0.0.2", "libgoroce.so"},
		"no address":   {libs, "127.0.0.1,192.0.2.77", "192.0.2.77"},
		"not one":      {libs, "127.0.0.1,localhost", "localhost"},
		"unknown link": {libs, "127.0.0.1,127.0.0.2", "GOROCE_LINK"},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"GOROCE_ADDR=" + c.addr}
			if name == "unknown link" {
				env = append(env, "GOROCE_LINK=carrier-pigeon")
			}
			_, errs, code := run(t, c.libs, env, exe)
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			if code == 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "goroce: ") || !strings.Contains(lines[0], c.want) {
				t.Errorf("ended with %d, and said:\n%s", code, errs)
			}
		})
	}
}
