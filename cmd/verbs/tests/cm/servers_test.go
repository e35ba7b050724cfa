package cm

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/verbs/tests/cprog"
)

// server starts a program on rsockets and returns when it listens. It is ended with the test.
func server(t *testing.T, env []string, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cprog.Hangs)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir()
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(said)
	var all strings.Builder
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "goroce: listening on ") {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return
		}
		fmt.Fprintln(&all, lines.Text())
	}
	t.Fatalf("%s does not listen on an rsocket:\n%s", argv[0], &all)
}

// client runs one and returns its output.
func client(t *testing.T, env []string, input string, argv ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cprog.Hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", argv, err, out, &errs)
	}
	return out
}

// Servers that wait with epoll, and clients of theirs, know nothing of RDMA and run on rsockets.
func TestPreloadServers(t *testing.T) {
	libs := libraries(t)
	need := func(t *testing.T, names ...string) {
		t.Helper()
		for _, n := range names {
			if _, err := exec.LookPath(n); err != nil {
				t.Skip(n, " is not installed")
			}
		}
	}
	env := func(addr string) []string {
		return []string{"LD_LIBRARY_PATH=" + libs, "LD_PRELOAD=" + filepath.Join(libs, "librspreload.so"),
			"GOROCE_ADDR=" + addr, "GOROCE_VERBOSE=1", "PATH=" + os.Getenv("PATH") + ":/usr/sbin"}
	}
	here, there := env("127.0.0.1"), env("127.0.0.2")
	t.Run("redis", func(t *testing.T) {
		need(t, "redis-server", "redis-cli", "redis-benchmark")
		server(t, here, "redis-server", "--port", "7001", "--bind", "127.0.0.1", "--save", "", "--protected-mode", "no")
		redis := func(program, input string, args ...string) []byte {
			return client(t, there, input, append([]string{program, "-h", "127.0.0.1", "-p", "7001"}, args...)...)
		}
		value := strings.Repeat("0123456789", 20000)
		redis("redis-cli", value, "-x", "set", "a")
		if got := strings.TrimSpace(string(redis("redis-cli", "", "get", "a"))); got != value {
			t.Errorf("get: %d bytes, not those that were set", len(got))
		}
		redis("redis-benchmark", "", "-n", "1000", "-c", "10", "-P", "4", "-t", "set,get", "-q")
	})
	t.Run("memcached", func(t *testing.T) {
		need(t, "memcached", "nc")
		argv := []string{"memcached", "-l", "127.0.0.1", "-p", "7002", "-U", "0"}
		if os.Getuid() == 0 {
			argv = append(argv, "-u", "root") // with another user its device would be that one's
		}
		server(t, here, argv...)
		got := client(t, there, "set a 0 0 5\r\nhello\r\nget a\r\nquit\r\n", "nc", "-N", "127.0.0.1", "7002")
		if want := "STORED\r\nVALUE a 0 5\r\nhello\r\nEND\r\n"; string(got) != want {
			t.Errorf("it said %q, not %q", got, want)
		}
	})
	t.Run("nginx", func(t *testing.T) {
		nginx := "/usr/sbin/nginx"
		need(t, nginx, "curl")
		dir := t.TempDir()
		page := bytes.Repeat([]byte("a page of nginx\n"), 60000)
		config := "daemon off; master_process off; pid DIR/pid; error_log stderr; events { use epoll; } http { access_log off; sendfile on; tcp_nopush on; client_body_temp_path DIR/a;" +
			" proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e; server { listen 127.0.0.1:7003; root DIR; } }"
		if os.Getuid() == 0 {
			config = "user root root; " + config // the namespace has no other one
		}
		for name, b := range map[string][]byte{"page": page, "conf": []byte(strings.ReplaceAll(config, "DIR", dir))} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		server(t, here, nginx, "-c", filepath.Join(dir, "conf"), "-p", dir)
		// Twice on one connection.
		url := "http://127.0.0.1:7003/page"
		if got := client(t, there, "", "curl", "-sS", url, url); !bytes.Equal(got,
			append(page[:len(page):len(page)], page...)) {
			t.Errorf("curl got %d bytes, not the page twice", len(got))
		}
	})
}
