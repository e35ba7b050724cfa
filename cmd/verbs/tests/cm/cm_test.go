package cm

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/verbs/tests/cprog"
)

func TestMain(m *testing.M) { cprog.Main(m) }

func libraries(t *testing.T) string {
	t.Helper()
	return cprog.Libraries(t, "../..", "rdma/rsocket.h", "librdmacm-dev")
}

func compile(t *testing.T, source string) string {
	t.Helper()
	return cprog.Compile(t, source, "-lrdmacm", "-libverbs")
}

// run runs a program; it is to end well and say nothing.
func run(t *testing.T, libs string, env []string, exe string, args ...string) {
	t.Helper()
	if out, errs, code := cprog.Run(t, libs, env, exe, args...); code != 0 || out+errs != "" {
		t.Errorf("%s ended with %d\n%s%s", filepath.Base(exe), code, out, errs)
	}
}

// Each program checks by itself, and says what is wrong.
func TestPrograms(t *testing.T) {
	libs := libraries(t)
	sources, err := filepath.Glob("programs/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	for _, source := range sources {
		exe := compile(t, source)
		t.Run(filepath.Base(exe), func(t *testing.T) { run(t, libs, nil, exe) })
	}
}

// Threads with a connection each receive side by side.
func TestVectors(t *testing.T) {
	if runtime.NumCPU() == 1 {
		t.Skip("with one CPU all connections have one completion vector")
	}
	run(t, libraries(t), []string{"GOROCE_ADDR=127.0.0.1"}, compile(t, "spread/vectors.c"))
}

// Threads with a connection each come in side by side.
func TestDoors(t *testing.T) { run(t, libraries(t), nil, compile(t, "doors/doors.c")) }

// What a process has left open ends with it, and its peers hear of it.
func TestProcessEnds(t *testing.T) {
	libs := libraries(t)
	for _, source := range []string{"ends/ends.c", "ends/killed.c", "ends/both.c", "ends/daemon.c"} {
		exe := compile(t, source)
		t.Run(filepath.Base(exe), func(t *testing.T) { run(t, libs, []string{"GOROCE_ADDR=127.0.0.1"}, exe) })
	}
}

// So does one on UDP sockets, unless rdma-core's configuration leaves them out.
func TestPreloadDatagrams(t *testing.T) {
	libs := libraries(t)
	exe := compile(t, "preload/datagram.c")
	preload := "LD_PRELOAD=" + filepath.Join(libs, "librspreload.so")
	for name, c := range map[string]struct{ config, want string }{
		"no file":                 {"", "rdma"},
		"a comment":               {"# nothing\n", "rdma"},
		"all":                     {"* * * *\n", "rdma"},
		"this program":            {"data * DGRAM UDP\ndatagram INET SOCK_STREAM IPPROTO_TCP\n", "rdma"},
		"streams":                 {"* * STREAM *\n", "kernel"},
		"datagrams of others":     {"other * * *\n* INET STREAM TCP\n", "kernel"},
		"datagrams of IPv6 alone": {"datagram AF_INET6 DGRAM UDP\ndatagram INET STREAM TCP\n", "kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if c.config != "" {
				if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run(t, libs, []string{preload, "RSPRELOAD_CONFIG=" + file}, exe, c.want)
		})
	}
}

// A program on TCP sockets uses rsockets with librspreload.so, and TCP where there is no RDMA.
func TestPreload(t *testing.T) {
	libs := libraries(t)
	exe := compile(t, "preload/plain.c")
	preload := []string{"LD_PRELOAD=" + filepath.Join(libs, "librspreload.so")}
	t.Run("rdma", func(t *testing.T) { run(t, libs, preload, exe) })
	t.Run("epoll", func(t *testing.T) { run(t, libs, preload, compile(t, "preload/epoll.c")) })
	t.Run("who waits by epoll", func(t *testing.T) { run(t, libs, preload, compile(t, "preload/epollwaits.c")) })
	t.Run("handlers after dlopen",
		func(t *testing.T) { run(t, libs, nil, cprog.Compile(t, "preload/dlopened.c", "-ldl")) })
	t.Run("handlers", func(t *testing.T) { run(t, libs, preload, cprog.Compile(t, "preload/handlers.c")) })
	t.Run("a program that starts another one", func(t *testing.T) { // it has no LD_LIBRARY_PATH yet, as "roce run"
		cmd := exec.Command("true")
		cmd.Env = preload
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("what was closed", func(t *testing.T) {
		libc := []string{"-lpthread"}
		for _, f := range []string{"socket", "bind", "listen", "accept", "connect", "getsockname",
			"setsockopt", "send", "recv", "fcntl", "close"} {
			libc = append(libc, "-Dr"+f+"="+f)
		}
		run(t, libs, preload, cprog.Compile(t, "programs/unread.c", libc...))
	})
	both := compile(t, "preload/both.c")
	t.Run("both ways", func(t *testing.T) { run(t, libs, preload, both, "rdma") })
	t.Run("both ways, TCP", func(t *testing.T) { run(t, libs, nil, both) }) // so it is what they do there
	t.Run("tcp", func(t *testing.T) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Write([]byte("tcp")) // the program says what is missing
				_ = c.Close()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		run(t, libs, preload, exe, port)
	})
}

// A program that is linked with rdma-core's library finds in ours all that it would find there, by
// name and version.
func TestSymbols(t *testing.T) {
	libs := libraries(t)
	theirs := "/usr/lib/x86_64-linux-gnu/librdmacm.so.1"
	if _, err := os.Stat(theirs); err != nil {
		t.Skip("rdma-core's librdmacm is not installed: ", err)
	}
	list := func(lib string) string {
		b, err := exec.Command("sh", "-c", `objdump -T "$1" | awk '/RDMACM_/ {print $(NF-1), $NF}' | sort`,
			"sh", lib).Output()
		if err != nil {
			t.Skip("objdump: ", err)
		}
		return string(b)
	}
	ours := list(filepath.Join(libs, "librdmacm.so.1"))
	for _, s := range strings.Split(strings.TrimSpace(list(theirs)), "\n") {
		if !strings.Contains(ours, s+"\n") {
			t.Errorf("missing: %s", s)
		}
	}
}

// A program on librdmacm that is built with a sanitizer runs: what starts beside it is not taken
// for something of its own.
func TestSanitizers(t *testing.T) {
	libs := libraries(t)
	for _, sanitizer := range []string{"address", "thread"} {
		t.Run(sanitizer, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "program")
			b, err := exec.Command("gcc", "-std=gnu11", "-g", "-O1", "-Wno-unused-function",
				"-fsanitize="+sanitizer, "-pthread", "-o", exe, "programs/hangup.c", "-lrdmacm",
				"-libverbs").CombinedOutput()
			if err != nil {
				t.Skipf("gcc cannot build it: %v\n%s", err, b)
			}
			// Finding leaks takes ptrace, which containers forbid.
			run(t, libs, []string{"ASAN_OPTIONS=detect_leaks=0"}, exe)
		})
	}
}
