// Package run tests what programs that "roce run" has become are told of those that they start.
package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		if b, err := exec.Command("gcc", append([]string{"-std=gnu11", "-o", path}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("gcc: %v\n%s", err, b)
		}
		return path
	}
	sources, err := filepath.Glob("../../hook/*.c")
	if err != nil {
		t.Fatal(err)
	}
	hook := build("libgoroce_hook.so", append([]string{"-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-ldl"}, sources...)...)
	starter := build("starter", "starter/starter.c")
	source := filepath.Join(dir, "program.c")
	if err := os.WriteFile(source, []byte("#include <infiniband/verbs.h>\nint main(int n, char **v) { return n > 9 && v && ibv_fork_init(); }\n"), 0o600); err != nil {
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
	for name, want := range map[string]string{"setuid": "is set-user-ID, for which", "setgid": "is set-group-ID, for which", "plain": "", "other": ""} {
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
			case want != "" && (!strings.HasPrefix(got, "goroce: ") || !strings.Contains(got, want) || strings.Count(got, "\n") != 1):
				t.Errorf("%v said:\n%s", argv, got)
			}
		}
	}
}

// Programs that list or read /sys/class/infiniband see what "roce run" has written, however they open it; other paths stay as they are.
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
	if b, err := exec.Command("gcc", append([]string{"-std=gnu11", "-o", hook, "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-ldl"}, sources...)...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, b)
	}
	reader := filepath.Join(dir, "reader")
	if b, err := exec.Command("gcc", "-std=gnu11", "-o", reader, "starter/reader.c").CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, b)
	}
	sys := filepath.Join(dir, "sys")
	if err := os.MkdirAll(filepath.Join(sys, "infiniband", "goroce0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sys, "infiniband", "goroce0", "node_type"), []byte("1: CA\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ how, path, want string }{
		{"opendir", "/sys/class/infiniband", "goroce0\n"},
		{"opendir", "/sys/class/infiniband/", "goroce0\n"},
		{"opendir", "/sys/class/infiniband_more", "No such file or directory\n"},
		{"stat", "/sys/class/infiniband/goroce0", "a folder\n"},
		{"access", "/sys/class/infiniband/goroce1", "No such file or directory\n"},
		{"open", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"},
		{"openat", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"},
		{"fopen", "/sys/class/infiniband/goroce0/node_type", "1: CA\n"},
		{"open", filepath.Join(sys, "infiniband/goroce0/node_type"), "1: CA\n"},
	} {
		cmd := exec.Command(reader, c.how, c.path)
		cmd.Env = []string{"LD_PRELOAD=" + hook, "GOROCE_SYSFS=" + sys}
		if b, err := cmd.CombinedOutput(); err != nil || string(b) != c.want {
			t.Errorf("%s %s: %v, %q, want %q", c.how, c.path, err, b, c.want)
		}
	}
}
