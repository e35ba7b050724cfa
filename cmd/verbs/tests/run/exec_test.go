// Package run tests what programs that "roce run" has become are told of those that they start.
package run

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A program on the libraries that is set-user-ID finds no device, since the loader leaves them out.
// If a script starts it, or any other program, the user is told, in one line.
func TestStartsPrivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to make a file that is set-user-ID of somebody else")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := func(out string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, out)
		if b, err := exec.Command("gcc",
			append([]string{"-std=gnu11", "-o", path}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("gcc: %v\n%s", err, b)
		}
		return path
	}
	sources, err := filepath.Glob("../../hook/*.c")
	if err != nil {
		t.Fatal(err)
	}
	hook := build("libgoroce_hook.so",
		append([]string{"-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-ldl"}, sources...)...)
	starter := build("starter", "starter/starter.c")
	source := filepath.Join(dir, "program.c")
	if err := os.WriteFile(source,
		[]byte("#include <infiniband/verbs.h>\nint main(int n, char **v) { return n > 9 && v && ibv_fork_init(); }\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	const somebody = 65534
	privileged := func(name string, mode os.FileMode, args ...string) {
		t.Helper()
		path := build(name, args...)
		if err := os.Chown(path, somebody, somebody); err != nil {
			t.Skip(err)
		}
		if err := os.Chmod(path, mode|0o755); err != nil {
			t.Fatal(err)
		}
	}
	privileged("setuid", os.ModeSetuid, source, "-libverbs")
	privileged("setgid", os.ModeSetgid, source, "-libverbs")
	privileged("plain", 0, source, "-libverbs")
	privileged("other", os.ModeSetuid, "starter/starter.c") // as sudo is, which is no program on the libraries
	says := func(argv ...string) string {
		t.Helper()
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LD_PRELOAD=" + hook}
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", argv, err, b)
		}
		return string(b)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n\"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"setuid": "is set-user-ID, for which",
		"setgid": "is set-group-ID, for which", "plain": "", "other": ""} {
		file := filepath.Join(dir, name)
		calls := [][]string{{script, file}, {script, name}}
		for _, how := range []string{"execve", "execv", "execl", "execle", "fexecve", "posix_spawn"} {
			calls = append(calls, []string{starter, how, file})
		}
		for _, how := range []string{"execvp", "execvpe", "execlp", "posix_spawnp"} {
			calls = append(calls, []string{starter, how, name})
		}
		for _, argv := range calls {
			got := says(argv...)
			switch {
			case want == "" && got != "":
				t.Errorf("%v said:\n%s", argv, got)
			case want != "" &&
				(!strings.HasPrefix(got, "goroce: ") || !strings.Contains(got, want) || strings.Count(got, "\n") != 1):
				t.Errorf("%v said:\n%s", argv, got)
			}
		}
	}
}

// Programs that list or read /sys/class/infiniband see the devices, however they open it; other
// paths stay as they are. What was made for that is gone when they end, or become another program;
// of one that is killed it stays, with nobody's lock on it.
func TestSysfs(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	hook := filepath.Join(dir, "libgoroce_hook.so")
	sources, err := filepath.Glob("../../hook/*.c")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("gcc", append([]string{
		"-std=gnu11", "-o", hook, "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-ldl",
	}, sources...)...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, b)
	}
	reader := filepath.Join(dir, "reader")
	if b, err := exec.Command("gcc", "-std=gnu11", "-o", reader, "starter/reader.c").CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, b)
	}
	own, tmp := filepath.Join(dir, "own"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.WriteFile(own, []byte("mine\n"), 0o644), os.Mkdir(tmp, 0o755)); err != nil {
		t.Fatal(err)
	}
	const devices = "0000:0000:0000:0000:0000:ffff:7f00:0001/lo,2001:0db8:0000:0000:0000:0000:0000:0001/"
	read := func(args ...string) string {
		cmd := exec.Command(reader, args...)
		cmd.Env = []string{"LD_PRELOAD=" + hook, "GOROCE_SYSFS=" + devices, "TMPDIR=" + tmp}
		b, err := cmd.CombinedOutput()
		if err != nil {
			return err.Error()
		}
		lines := slices.Sorted(strings.Lines(string(b)))
		return strings.Join(lines, "")
	}
	left := func() []string {
		all, err := filepath.Glob(filepath.Join(tmp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	const missing = "No such file or directory\n"
	for _, c := range []struct{ how, path, want string }{
		{"opendir", "/sys/class/infiniband", "goroce0\ngoroce1\n"},
		{"opendir", "/sys/class/infiniband/", "goroce0\ngoroce1\n"},
		{"opendir", "/sys/class/infiniband_more", missing},
		{"stat", "/sys/class/infiniband/goroce0", "a folder\n"},
		{"access", "/sys/class/infiniband/goroce2", missing},
		{"open", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"},
		{"openat", "/sys/class/infiniband/goroce0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:7f00:0001\n"},
		{"openat", "/sys/class/infiniband/goroce0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:7f00:0001\n"},
		{"access", "/sys/class/infiniband/goroce0/ports/1/gids/4", missing},
		{"fopen", "/sys/class/infiniband/goroce0/ports/1/gid_attrs/ndevs/0", "lo\n"},
		{"fopen", "/sys/class/infiniband/goroce1/ports/1/gid_attrs/ndevs/0", missing}, // its address is of no interface
		{"fopen", "/sys/class/infiniband/goroce1/ports/1/gids/0", "2001:0db8:0000:0000:0000:0000:0000:0001\n"},
		{"open", "/sys/class/infiniband_verbs/uverbs1/ibdev", "goroce1\n"},
		{"realpath", "/sys/class/infiniband/goroce0/../..", "/sys/class\n"},
		{"realpath", "/sys/class/infiniband_verbs/uverbs0/../uverbs1", "/sys/class/infiniband_verbs/uverbs1\n"},
		{"realpath", "/sys/class/infiniband/goroce2", missing},
		{"realpath", "/dev/../proc", "/proc\n"},
		{"open", own, "mine\n"},
		// The child first, and its parent after its end.
		{"fork", "/sys/class/infiniband/goroce0/node_type", "1: CA\n1: CA\n"},
		{"exec", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"},
		{"cleaner", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"}, // another one has taken it for left behind
	} {
		if got := read(c.how, c.path); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.how, c.path, got, c.want)
		}
		if all := left(); len(all) > 0 {
			t.Errorf("%s %s: left %v", c.how, c.path, all)
		}
	}
	if got := read("kill", "/sys/class/infiniband/goroce0/node_type"); got != "signal: killed" {
		t.Errorf("kill: %q", got)
	}
	all := left()
	if len(all) != 1 {
		t.Fatalf("a process that was killed has left %v", all)
	}
	f, err := os.Open(all[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("a process that was killed has a lock: %v", err)
	}
}
