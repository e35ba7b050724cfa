package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "GOROCE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// process starts the program and waits until it has printed want.
func process(t *testing.T, want string, args ...string) (p *exec.Cmd, line string, rest *bufio.Reader) {
	p = exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), asProgram+"=1")
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.Stderr = p.Stdout
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	rest = bufio.NewReader(out)
	for !strings.Contains(line, want) {
		line, err = rest.ReadString('\n')
		require.NoError(t, err, "%q has not come", want)
	}
	return p, line, rest
}

// drain reads until the process has ended, and returns its exit status.
func drain(p *exec.Cmd, r *bufio.Reader) (status int, text string) {
	var b strings.Builder
	_, _ = r.WriteTo(&b) // until it is closed
	_ = p.Wait()
	return p.ProcessState.ExitCode(), b.String()
}

// A process that is asked to end in the middle of a transfer tells its peer, which ends by itself.
func TestSignals(t *testing.T) {
	// Under nohup SIGHUP is ignored by what this process starts, too. What is caught
	// here is not ignored there.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, victim := range []string{"client", "server"} {
			t.Run(fmt.Sprint(sig, " ", victim), func(t *testing.T) {
				addr := toolcheck.Addr(t).String()
				server, line, fromServer := process(t, "listening on ", "rping", "-s", "-v", "-a", addr, "-p", "0")
				_, port, _ := strings.Cut(strings.TrimSpace(line), addr+":")
				client, _, fromClient := process(t, "ping data: rdma-ping-5:", "rping", "-c", "-v", "-a",
					addr, "-I", toolcheck.Addr(t).String(), "-p", port)
				p, r, o, ro := client, fromClient, server, fromServer
				if victim == "server" {
					p, r, o, ro = o, ro, p, r
				}
				other := make(chan string)
				go func() {
					_, text := drain(o, ro)
					other <- text
				}()
				require.NoError(t, p.Process.Signal(sig))
				status, text := drain(p, r)
				require.Equal(t, exitInterrupted, status)
				require.Contains(t, text, "roce rping: interrupted\n")
				require.Contains(t, <-other, "DISCONNECT EVENT")
			})
		}
	}
}
