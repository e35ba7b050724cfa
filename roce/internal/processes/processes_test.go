//go:build linux

package processes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// The number that stands for all users that are not mapped is nobody's, unless all are mapped or
// it is this process itself.
func TestCheck(t *testing.T) {
	for what, c := range map[string]struct {
		uid, pid  int
		of        unix.Ucred
		ambiguous bool
		ok        bool
	}{
		"same user":                     {1000, 7, unix.Ucred{Uid: 1000, Pid: 8}, false, true},
		"another user":                  {1000, 7, unix.Ucred{Uid: 1001, Pid: 8}, false, false},
		"root":                          {1000, 7, unix.Ucred{Uid: 0, Pid: 8}, false, false},
		"not mapped":                    {1000, 7, unix.Ucred{Uid: 65534, Pid: 8}, false, false},
		"nobody, and all are mapped":    {65534, 7, unix.Ucred{Uid: 65534, Pid: 8}, false, true},
		"nobody, or anybody":            {65534, 7, unix.Ucred{Uid: 65534, Pid: 8}, true, false},
		"itself":                        {65534, 7, unix.Ucred{Uid: 65534, Pid: 7}, true, true},
		"not mapped, from outside":      {65534, 7, unix.Ucred{Uid: 65534, Pid: 0}, true, false},
		"our number, another user's ID": {65534, 7, unix.Ucred{Uid: 1000, Pid: 7}, true, false},
	} {
		err := check(&c.of, c.pid, c.uid, func(int) bool { return c.ambiguous })
		if c.ok {
			require.NoError(t, err, what)
		} else {
			require.ErrorIs(t, err, ErrOther, what)
		}
	}
}

func TestMapsAll(t *testing.T) {
	require.True(t, mapsAll(strings.NewReader("         0          0 4294967295\n")))
	require.True(t, mapsAll(strings.NewReader("0 1000 1\n1 100000 4294967294\n")))
	require.False(t, mapsAll(strings.NewReader("0 1000 1\n1 100000 65536\n")))
	require.False(t, mapsAll(strings.NewReader("")))
	require.False(t, ambiguous(os.Geteuid()+1))
}

// The number that stands for all that are not mapped is told by the kernel, and known without it.
func TestAmbiguous(t *testing.T) {
	proc := t.TempDir()
	write := func(name, s string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, name), []byte(s), 0o600))
	}
	require.True(t, ambiguousIn(proc, 65534), "nothing is known of the users")
	require.False(t, ambiguousIn(proc, 777))
	write("sys/kernel/overflowuid", "777\n")
	write("self/uid_map", "0 0 4294967295\n")
	require.False(t, ambiguousIn(proc, 777), "all are mapped")
	write("self/uid_map", "0 1000 1\n")
	require.True(t, ambiguousIn(proc, 777))
	require.False(t, ambiguousIn(proc, 65534))
	require.False(t, ambiguousIn(proc, 0))
}

func TestParseStat(t *testing.T) {
	for s, want := range map[string][2]string{
		"12 (a b) c) T 1 2": {"a b) c", "stopped (state T)"},
		"12 (valkey) S 1 2": {"valkey", ""},
		"12 (x) t 1":        {"x", "stopped by a debugger (state t)"},
		"12 (gone) Z 1":     {"gone", "dead (state Z)"},
		"":                  {"?", ""},
		") (":               {"?", ""},
		"(first) T 1":       {"first", "stopped (state T)"},
		"12 (no state at)":  {"no state at", ""},
	} {
		name, still := parseStat(s)
		require.Equal(t, want, [2]string{name, still}, s)
	}
}

// Who holds a socket is found, with a process that stands still.
func TestHolders(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	f := os.NewFile(uintptr(pair[1]), "socket")
	defer f.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(pair[1], &st))

	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{f}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	var ws syscall.WaitStatus
	_, err = syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil)
	require.NoError(t, err)

	got := map[int]string{}
	for _, p := range Holders(10, st.Ino) {
		got[p.PID] = p.String()
	}
	require.Len(t, got, 2)
	require.Contains(t, got, os.Getpid())
	require.Contains(t, got[cmd.Process.Pid], "sleep")
	require.Contains(t, got[cmd.Process.Pid], "stopped (state T)")
	require.Len(t, Holders(1, st.Ino), 1)
	require.Empty(t, Holders(10, 1<<62))
	require.NoError(t, CheckPID(cmd.Process.Pid))
	require.ErrorIs(t, CheckPID(1<<30), syscall.ENOENT)
}

func TestFrozen(t *testing.T) {
	root := t.TempDir()
	for name, events := range map[string]string{"still": "populated 1\nfrozen 1\n", "busy": "populated 1\nfrozen 0\n"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name, "cgroup.events"), []byte(events), 0o600))
	}
	require.True(t, frozenIn(root, "0::/still\n"))
	require.True(t, frozenIn(root, "1:cpu:/busy\n0::/../still\n"),
		"what is outside of the namespace is not found by its name")
	require.False(t, frozenIn(root, "0::/busy\n"))
	require.False(t, frozenIn(root, "0::/gone\n"))
	require.False(t, frozenIn(root, "1:cpu:/still\n"))
}
