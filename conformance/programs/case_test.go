package programs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// The tests play cases with shell scripts in place of RDMA programs: a stage whose root is that of
// this machine, in which what stands for "roce run" just runs the program.
func testPlaces(t *testing.T) (server, client *Place) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
	roce := filepath.Join(dir, "roce")
	require.NoError(t, os.WriteFile(roce, []byte(script), 0o755))
	place := func(last byte) *Place {
		return &Place{
			Addr4: netip.AddrFrom4([4]byte{127, 0, 0, last}), Addr6: netip.IPv6Loopback(), own: roce,
			do: func(f func()) error { f(); return nil },
		}
	}
	return place(1), place(2)
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestCaseRun(t *testing.T) {
	server, client := testPlaces(t)
	ready := "goroce: listening"
	serve := func(then string) []string { return sh("echo " + ready + "; " + then) }
	for name, x := range map[string]struct {
		c    Case
		want string // part of the error; empty: it passes
	}{
		"pass": {Case{Server: serve("exit 0"), Ready: ready,
			Client: sh("echo SERVER from LOCAL"), Check: has("127.0.0.1 from 127.0.0.2")}, ""},
		"IPv6": {Case{V6: true, Server: serve(""), Ready: ready,
			Client: sh("echo SERVER TCP"), Check: has("::1 127.0.0.1")}, ""},
		"alone":               {Case{Client: sh("echo fine"), Check: has("fine")}, ""},
		"alone, wrong status": {Case{Client: sh("echo fine; exit 3"), Check: has("fine")}, "exit status 3"},
		"client fails": {Case{Server: serve("exec sleep 100"), Ready: ready, Client: sh("exit 3")},
			"client: exit status 3"},
		"client dies": {Case{
			Server: serve("exec sleep 100"), Ready: ready, Client: sh("kill -SEGV $$"),
		}, "client: signal: segmentation fault"},
		"server fails": {Case{Server: serve("exit 4"), Ready: ready, Client: sh("echo fine")},
			"server: exit status 4"},
		"server ends too early": {Case{Server: sh("exit 0"), Ready: ready, Client: sh("echo fine")},
			"has ended (<nil>) and not printed"},
		"server stays": {Case{
			Server: serve("exec sleep 100"), Ready: ready, Client: sh("echo fine"), Stays: true,
		}, ""},
		"nothing of what is wanted": {Case{
			Server: serve(""), Ready: ready, Client: sh("echo fine"), Check: has("great"),
		}, `has not printed "great"`},
		"server without what is wanted": {Case{
			Server: serve(""), Ready: ready, Client: sh("echo fine"), Check: bothHave("fine"),
		}, `server has not printed "fine"`},
		"wrong data, status 0": {Case{
			Server: sh("echo invalid data in page 3; echo " + ready), Ready: ready, Client: sh("echo fine"),
		}, `a side says "invalid data"`},
		"refused": {Case{Server: serve("exec sleep 100"), Ready: ready,
			Client: sh("echo no XRC; exit 1"), Refused: "no XRC"}, ""},
		"refused by the server": {Case{
			Server: sh("echo no XRC; exit 1"), Ready: ready, Client: sh("true"), Refused: "no XRC",
		}, ""},
		"not refused": {Case{
			Server: serve(""), Ready: ready, Client: sh("echo fine"), Refused: "no XRC",
		}, "no program has refused"},
		"refused with other words": {Case{
			Server: serve(""), Ready: ready, Client: sh("echo help; exit 1"), Refused: "no XRC",
		}, "no program has refused"},
		"a signal is no refusal": {Case{
			Server: serve(""), Ready: ready, Client: sh("echo no XRC; kill -SEGV $$"), Refused: "no XRC",
		}, "no program has refused"},
		"something happens meanwhile": {Case{Client: sh("echo up; exec sleep 100"), Ready: "up",
			While: func(ctx context.Context, _ *Net, p *Process) error { return terminate(ctx, p) }}, ""},
		"the error has what was printed": {Case{Server: sh("echo of the server; echo " + ready + "; exec sleep 100"),
			Ready: ready, Client: sh("echo of the client; exit 1")}, "of the server\ngoroce: listening\nclient:"},
	} {
		t.Run(name, func(t *testing.T) {
			err := x.c.run(t.Context(), nil, server, client)
			if x.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, x.want)
			}
		})
	}
}

// Nothing that a program has started is left when a case is over.
func TestCaseLeavesNothing(t *testing.T) {
	server, client := testPlaces(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	c := Case{Server: sh("sleep 1000 & echo $! >" + pidFile + "; echo ready; wait"), Ready: "ready",
		Client: sh("true"), Stays: true}
	require.NoError(t, c.run(t.Context(), nil, server, client))
	b, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	// The group was killed, which takes effect when the kernel gets to it.
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	require.NoError(t, err)
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "it still runs")
		return
	}
}

// A case that does not end is ended, and says so.
func TestCaseTimeLimit(t *testing.T) {
	server, client := testPlaces(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := Case{Server: sh("echo ready; exec sleep 1000"), Ready: "ready", Client: sh("echo begun; exec sleep 1000")}
	done := make(chan error)
	go func() { done <- c.run(ctx, nil, server, client) }()
	cancel(os.ErrDeadlineExceeded)
	require.Error(t, <-done)
}

func TestListens(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	read := func() string {
		b, err := os.ReadFile("/proc/net/tcp")
		require.NoError(t, err)
		return string(b)
	}
	require.True(t, listens(read(), port))
	require.NoError(t, l.Close())
	require.False(t, listens("  0: 0100007F:4853 00000000:0000 06 00000000:00000000", 0x4853), "not one that waits")
}

func TestKilledBy(t *testing.T) {
	require.Equal(t, syscall.SIGKILL, killedBy(exec.Command("sh", "-c", "kill -KILL $$").Run()))
	require.Zero(t, killedBy(exec.Command("sh", "-c", "exit 1").Run()))
	require.Zero(t, killedBy(nil))
}
